//! Syncs of the image for commands that wait for durability: elects a leader, and syncs without the run lock.
//!
//! A sync covers every command executed before it begins. Threads that come meanwhile execute their commands and wait for its end;
//! then their commands are covered, or one of them leads the next sync.

use std::time::{Duration, Instant};

use super::Executor;
use crate::core::Core;
use crate::options::Failed;

/// How long a leader waits for as many queues as the last sync covered: far less than a sync takes.
const JOIN: Duration = Duration::from_micros(30);

impl Executor {
    /// Whether commands wait for a sync of the image.
    #[inline]
    pub(crate) fn wants_sync(&self) -> bool {
        self.group_commit.is_wanted()
    }

    /// Notes that commands wait for a sync, and wakes the thread that syncs.
    pub(crate) fn request_sync(&self) {
        self.group_commit.note(true);
    }

    /// Parks the thread that syncs until commands wait for it or `stops`.
    pub(crate) fn park_sync_thread(&self, stops: impl Fn() -> bool) {
        self.group_commit.park(stops);
    }

    /// Syncs the image until no command of queue `qid` waits for it, or of any queue with `None`. Other threads run the device
    /// meanwhile. Returns at once on a failed device.
    #[cold]
    pub(crate) fn sync(&self, qid: Option<u16>) {
        let waits = |core: &mut Core| match qid {
            Some(qid) => core.controller.waits_for_sync(qid),
            None => core.wants_sync(),
        };
        while self.with_core_only(waits).unwrap_or(false) {
            if let Some(mut leader) = self.group_commit.lead_or_wait() {
                let expected = leader.expected;
                // A panic of the leader leaves commands whose sync never ends: it fails the device.
                let _ = self.core.poison_on_panic(|| self.sync_once(expected, &mut leader.queues));
            }
        }
    }

    fn sync_once(&self, expected: usize, queues: &mut usize) -> Result<(), Failed> {
        let start = Instant::now();
        loop {
            *queues = self.with_core_only(|core| core.controller.queues_that_wait())?;
            if *queues >= expected || start.elapsed() >= JOIN {
                break;
            }
            std::thread::yield_now();
        }
        if let Some(sync) = self.with_core_only(Core::begin_sync)? {
            let finished = sync.wait();
            self.with_core_only(|core| core.end_sync(self, finished))?;
            self.notify_fabric();
        }
        Ok(())
    }
}
