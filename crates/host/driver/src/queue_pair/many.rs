//! Many synchronous gets by one call.
//!
//! Commands cross the queue in groups, each under one doorbell, so that the device's cache misses overlap. Values come
//! through the queue's bounce pages: no command and no buffer is made for a key.

use byway_core::{Error, ErrorKind, Key, Nsid, PAGE_BYTES, Result, encode};
use byway_spec::Command as Entry;

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::table::{OpIndex, Waiter};

/// Most gets under one doorbell.
const GROUP: usize = 32;

/// A value that was read, or the part of it that there was room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrievedValue<'a> {
    /// The bytes that were read.
    pub bytes: &'a [u8],
    /// Length of the whole value in bytes.
    pub whole_bytes: usize,
}

/// A get that was sent, and the bounce page that its value comes to.
#[derive(Clone, Copy)]
struct Sent {
    op: OpIndex,
    page: u16,
}

impl<B: Bus> Queue<B> {
    /// Reads at most `room.len()` bytes, 1 to a page, of the values of many keys. Hands each to `on` with the number of
    /// its key, in the order of the keys; `None` where there is no such key.
    ///
    /// # Errors
    /// The first failure of a get; the values before it in its group, and of the groups before, were handed over.
    pub fn execute_retrieve_many(
        &mut self,
        nsid: Nsid,
        keys: &[Key],
        room: &mut [u8],
        on: &mut impl FnMut(usize, Option<RetrievedValue<'_>>),
    ) -> Result<()> {
        self.check_owner()?;
        self.check_len(room.len())?;
        if !(1..=PAGE_BYTES).contains(&room.len()) {
            return Err(Error::host(ErrorKind::InvalidArgument, "room of 0 bytes, or of more than a page"));
        }
        let mut group = Vec::with_capacity(GROUP.min(keys.len()));
        let mut first = 0;
        while let Some(rest) = keys.get(first..).filter(|rest| !rest.is_empty()) {
            let sent = self.under_one_doorbell(|queue| queue.send_group(nsid, rest, room.len(), &mut group));
            sent.and_then(|()| self.await_group(&group)).map_err(|error| self.leave_group(&group, error))?;
            self.take_group(&group, room, &mut |at, value| on(first + at, value))?;
            first += group.len();
            group.clear();
        }
        Ok(())
    }

    /// Sends gets of the first keys: at least one, and as many as there is room for without waiting.
    fn send_group(
        &mut self,
        nsid: Nsid,
        keys: &[Key],
        room_bytes: usize,
        group: &mut Vec<Sent>,
    ) -> Result<()> {
        for key in keys.iter().take(GROUP) {
            let op = match self.table.start(0, Waiter::Call) {
                Some(op) => op,
                None if group.is_empty() => self.start_call()?,
                None => break,
            };
            // The first waits for room, the others go with a later group.
            let has_room = group.is_empty() || (self.has_room(1) && self.bounce.has_free());
            if !has_room {
                self.table.end(op);
                break;
            }
            let mut entry = encode::retrieve(nsid, key, room_bytes as u32);
            self.ask_inline(&mut entry);
            let placed = self.place_retrieve(op, entry, room_bytes);
            let page = placed.map_err(|error| self.leave(op, error))?;
            group.push(Sent { op, page });
        }
        Ok(())
    }

    /// Places a get; the bounce page that its value comes to.
    #[inline]
    fn place_retrieve(&mut self, op: OpIndex, mut entry: Entry, room_bytes: usize) -> Result<u16> {
        let page = self.take_bounce(op)?;
        self.point_in(op, &mut entry, self.bounce.bus_addr(page), room_bytes)?;
        self.place_in_turn(op, entry, &[], 0)?;
        Ok(page)
    }

    /// Waits for every get of a group.
    fn await_group(&mut self, group: &[Sent]) -> Result<()> {
        for Sent { op, .. } in group {
            while !self.table.op(*op).is_done() {
                // Nearly always they are there, in this order.
                if !self.step()? {
                    self.wait_for_any()?;
                }
            }
        }
        self.ring_head();
        Ok(())
    }

    /// Hands over what the gets of a group, all of them done, have read.
    fn take_group(
        &mut self,
        group: &[Sent],
        room: &mut [u8],
        on: &mut impl FnMut(usize, Option<RetrievedValue<'_>>),
    ) -> Result<()> {
        let mut failed = None;
        for (at, Sent { op, page }) in group.iter().enumerate() {
            let state = self.table.op(*op);
            if state.failed.is_some() {
                match self.conclude(*op) {
                    Err(get) if get.error.kind() == ErrorKind::KeyNotFound => on(at, None),
                    get => failed = failed.or(get.err()),
                }
                continue;
            }
            let whole_bytes = state.answer.dw0 as usize;
            let len = whole_bytes.min(room.len());
            let bytes = room.get_mut(..len).unwrap_or_default();
            self.bounce.copy_out(*page, bytes);
            state.take_bounce();
            self.bounce.give_back(*page);
            self.table.end(*op);
            on(at, Some(RetrievedValue { bytes, whole_bytes }));
        }
        failed.map_or(Ok(()), |get| Err(self.device.explained(get.error, self.qid())))
    }

    /// Leaves the gets of a group after an error. Those in flight keep their pages until the device has answered.
    #[cold]
    fn leave_group(&mut self, group: &[Sent], error: Error) -> Error {
        group.iter().fold(error, |error, sent| self.leave(sent.op, error))
    }
}
