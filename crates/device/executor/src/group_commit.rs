//! Group commit: one thread syncs the image for all commands that wait for durability; other threads wait for it.

use parking_lot::{Condvar, Mutex};

/// Election of the thread that syncs.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    has_leader: bool,
    /// Syncs that have ended.
    ended: u64,
    /// Queues whose commands the last sync covered.
    queues: usize,
}

/// The right to sync; dropping it lets other threads go on.
pub(crate) struct Leader<'a> {
    commit: &'a GroupCommit,
    /// Queues that the last sync covered.
    pub expected: usize,
    /// Queues that this sync covers.
    pub queues: usize,
}

impl GroupCommit {
    /// Becomes the leader if there is none. Else waits until the sync in progress has ended.
    pub fn lead_or_wait(&self) -> Option<Leader<'_>> {
        let mut state = self.state.lock();
        if !state.has_leader {
            state.has_leader = true;
            return Some(Leader { commit: self, expected: state.queues, queues: 0 });
        }
        let seen = state.ended;
        while state.has_leader && state.ended == seen {
            self.ended.wait(&mut state);
        }
        None
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut state = self.commit.state.lock();
        state.has_leader = false;
        state.ended += 1;
        state.queues = self.queues;
        self.commit.ended.notify_all();
    }
}
