//! Aborts of a queue's commands that are on their way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::abort::Abort;
use crate::connection::Connection;

/// How long a controller has to answer an Abort by ending its command, before the connection is given up with it.
pub(super) const ABORT_TIME: Duration = Duration::from_secs(5);

/// Aborts on their way, by the command that they name.
#[derive(Default)]
pub(super) struct Aborts(Vec<Aborting>);

/// A command whose Abort is on its way.
struct Aborting {
    cid: u16,
    abort: Arc<Abort>,
    /// The controller's time to answer it has begun.
    is_sent: bool,
}

impl Aborts {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, cid: u16, abort: Arc<Abort>) {
        self.0.push(Aborting { cid, abort, is_sent: false });
    }

    /// Starts the timeout of sent Aborts, removes ended ones, and withdraws unsent ones whose command has ended.
    pub fn follow(&mut self, connection: &mut Connection, now: Instant) {
        self.0.retain_mut(|Aborting { cid, abort, is_sent }| {
            if abort.is_over() || (!connection.is_outstanding(*cid) && abort.withdraw()) {
                connection.unname(*cid);
                return false;
            }
            if !*is_sent {
                *is_sent = !abort.waits();
                connection.set_until(*cid, now + ABORT_TIME);
            }
            true
        });
    }

    /// Drops the Aborts of a connection that has ended.
    pub fn forget(&mut self, connection: &mut Connection) {
        for Aborting { cid, abort, .. } in self.0.drain(..) {
            abort.withdraw();
            connection.unname(cid);
        }
    }

    /// Withdraws unsent Aborts: another queue may get this queue's identifier soon.
    pub fn withdraw(&self) {
        for aborting in &self.0 {
            aborting.abort.withdraw();
        }
    }
}
