//! Group commit, the lock: one thread syncs the image for all commands that wait for durability; other threads wait for it. The
//! commands are in `GroupCommit` of `byway-controller`; `executor/group_commit.rs` joins the two.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Condvar, Mutex};

use crate::parker::{PARK_MAX, Parker};

/// Whether commands wait for a sync, and the election of the thread that syncs.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit {
    is_wanted: AtomicBool,
    /// Where the device's thread that syncs parks.
    parker: Parker,
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
    /// Whether commands wait for a sync.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Relaxed)
    }

    /// Notes whether commands wait for a sync; if so, wakes the thread that syncs.
    #[inline]
    pub fn note(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Relaxed);
        if is_wanted {
            self.parker.wake();
        }
    }

    /// Parks the thread that syncs until commands wait for it or `stops`.
    pub fn park(&self, stops: impl Fn() -> bool) {
        self.parker.park(PARK_MAX, || stops() || self.is_wanted());
    }

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
