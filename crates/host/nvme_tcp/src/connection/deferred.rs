//! Commands beyond the depth of a connection, whose controller came back with less than the queue had.
//!
//! They are sent in the order of submission, each as soon as one before it has ended. Two fused commands go together.

use byway_core::{Error, ErrorKind};
use byway_spec::Cdw0;

use super::{Connection, Order};

impl Connection {
    /// Whether a command that has just taken a slot of the table can be sent at once.
    #[inline]
    pub(super) fn has_turn(&self, order: &Order) -> bool {
        // The first of a fused pair needs two free slots. A second that takes the last slot is deferred; `send_deferred` sends it at once.
        let fused = u32::from(order.entry.cdw0.fuse() != Cdw0::FUSE_NONE);
        self.table.busy() + fused <= self.depth
    }

    /// Has a command wait for a connection, or for its turn on this one.
    #[cold]
    pub(super) fn defer(&mut self, cid: u16) {
        if self.is_open {
            self.deferred.push_back(cid);
            self.send_deferred();
        }
    }

    /// Sends commands that wait for their turn, as many as the controller takes.
    #[cold]
    pub(super) fn send_deferred(&mut self) {
        while let Some(cid) = self.deferred.front().copied() {
            let fuse = self.fuse_of(cid);
            let commands = if fuse == Cdw0::FUSE_FIRST { 2 } else { 1 };
            let sent = self.table.busy() - self.deferred.len() as u32;
            let never = fuse != Cdw0::FUSE_NONE && self.depth < 2;
            if !never && sent + commands > self.depth {
                return;
            }
            self.deferred.pop_front();
            match never {
                true => self.end(cid, Err(too_shallow_now()), None),
                false => self.send(cid),
            }
        }
    }

    fn fuse_of(&self, cid: u16) -> u8 {
        let order = self.table.get(cid).and_then(|slot| slot.order.as_ref());
        order.map_or(Cdw0::FUSE_NONE, |order| order.entry.cdw0.fuse())
    }
}

#[cold]
fn too_shallow_now() -> Error {
    let said =
        "two fused commands need a queue that is two deep; the controller takes one command at a time now";
    Error::device(ErrorKind::Unsupported, said)
}
