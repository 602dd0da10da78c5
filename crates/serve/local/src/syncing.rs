//! Syncs of the image for commands that wait for one: one thread leads, others follow.
//!
//! The leader syncs for every command executed before it begins. Whoever comes meanwhile executes its commands and waits
//! until that sync has ended; then its commands may be covered, or it leads the next.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::core::Core;
use crate::shared::{Failed, Shared};

/// How long a leader leaves those who waited with it last time to come with their next commands: far less than a disk
/// takes for the sync that they would need otherwise.
const JOIN: Duration = Duration::from_micros(30);

/// Who syncs, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Syncing {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// A thread leads.
    led: bool,
    /// Syncs that have ended.
    ended: u64,
    /// Queues whose commands the last sync was for.
    queues: usize,
}

impl Syncing {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lead, if nobody has it: the number of queues that the last sync was for. Otherwise waits until the sync
    /// under way has ended.
    fn lead_or_wait(&self) -> Option<usize> {
        let mut state = self.lock();
        if !state.led {
            state.led = true;
            return Some(state.queues);
        }
        let seen = state.ended;
        while state.led && state.ended == seen {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Gives the lead back, after a sync for commands of so many queues.
    fn end(&self, queues: usize) {
        let mut state = self.lock();
        state.led = false;
        state.ended += 1;
        state.queues = queues;
        self.ended.notify_all();
    }
}

/// Gives the lead back when it is dropped.
struct Lead<'a> {
    syncing: &'a Syncing,
    queues: usize,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.syncing.end(self.queues);
    }
}

impl Shared {
    /// Syncs the image until no command of queue `qid` waits for it, or none of any queue where that is none. The device
    /// runs on meanwhile, whoever rings it. Nothing is waited for on a device that failed.
    #[cold]
    pub(crate) fn sync(&self, qid: Option<u16>) {
        let waits = |core: &mut Core| match qid {
            Some(qid) => core.controller.waits_for_sync(qid),
            None => core.wants_sync(),
        };
        while self.with_core(waits).unwrap_or(false) {
            if let Some(queues) = self.syncing.lead_or_wait() {
                self.lead(queues);
            }
        }
    }

    fn lead(&self, expected: usize) {
        let mut lead = Lead { syncing: &self.syncing, queues: 0 };
        // Who panics on the way leaves commands behind that wait for a sync which never ends.
        let _ = self.core.or_fail(|| self.sync_once(expected, &mut lead.queues));
    }

    fn sync_once(&self, expected: usize, queues: &mut usize) -> Result<(), Failed> {
        let start = Instant::now();
        loop {
            *queues = self.with_core(|core| core.controller.queues_that_wait())?;
            if *queues >= expected || start.elapsed() >= JOIN {
                break;
            }
            std::thread::yield_now();
        }
        if let Some(sync) = self.with_core(Core::begin_sync)? {
            let finished = sync.wait();
            self.with_core(|core| core.end_sync(self, finished))?;
            self.tell_capsules();
        }
        Ok(())
    }
}
