//! Threads that execute commands of fabrics without the run lock (decision 73): each has a mark among the readers of the lock, and a tally.

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use byway_controller::{Subsystem, Tally, TallyCounts};
use byway_queue::{Grants, MAX_READERS};

use crate::core::Core;
use crate::executor::Executor;

/// Threads at most. Further ones take the run lock.
const THREADS: usize = 64;

/// Delegated queue pairs that read beside each other, from the first on. Readers behind them are serving threads.
const QUEUE_READERS: usize = MAX_READERS - THREADS;

/// Readers of the run lock of a device that delegates so many queues.
pub(crate) fn readers(delegable_queues: u16) -> usize {
    if delegable_queues > 0 { MAX_READERS } else { 0 }
}

/// The reader that a delegated queue pair is; none for a queue behind the last.
#[inline]
pub(crate) fn reader_of_queue(qid: u16) -> usize {
    let qid = usize::from(qid);
    if qid < QUEUE_READERS { qid } else { usize::MAX }
}

/// The threads of a device.
#[derive(Debug)]
pub(crate) struct ServingThreads {
    /// The rights of their queues.
    grants: Grants,
    /// Bit `n`: thread `n` exists.
    taken: AtomicU64,
    /// As many tallies were used.
    used: AtomicUsize,
    tallies: Box<[Tally]>,
}

impl ServingThreads {
    /// No threads yet. A device that models time has none, nor has one that is only read.
    pub fn new(subsystem: &Subsystem, are_possible: bool) -> Self {
        let threads = if are_possible { THREADS } else { 0 };
        Self {
            grants: Grants::new(),
            taken: AtomicU64::new(0),
            used: AtomicUsize::new(0),
            tallies: (0..threads).map_while(|thread| Tally::new(subsystem, thread)).collect(),
        }
    }

    /// What the tallies begin with.
    pub fn counts(&self) -> Box<[TallyCounts]> {
        self.tallies.iter().map(Tally::counts).collect()
    }

    /// The rights of their queues.
    #[inline]
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Adds a thread; its number. `None` if there are too many.
    pub fn add(&self) -> Option<usize> {
        let threads = self.tallies.len() as u32;
        let add = |taken: u64| (taken.trailing_ones() < threads).then(|| taken | (taken + 1));
        // Acquire, with the release of `remove`: it goes on where the thread before it left the tally.
        let before = self.taken.fetch_update(AcqRel, Acquire, add).ok()?;
        let thread = before.trailing_ones() as usize;
        self.used.fetch_max(thread + 1, Relaxed);
        Some(thread)
    }

    /// Removes a thread. Its tally stays.
    pub fn remove(&self, thread: usize) {
        self.taken.fetch_and(!(1 << thread), Release);
    }

    /// The reader of the run lock that thread `thread` is.
    #[inline]
    pub fn reader(thread: usize) -> usize {
        QUEUE_READERS + thread
    }

    /// The tally of thread `thread`.
    #[inline]
    pub fn tally(&self, thread: usize) -> &Tally {
        &self.tallies[thread]
    }
}

impl Core {
    /// Ends the rights of all queues before what they rest on changes, and counts what was done by them.
    pub(crate) fn end_grants(&mut self, executor: &Executor) {
        executor.serving_threads().grants.end();
        self.count_tallies(executor);
    }

    /// Adds what serving threads executed without the run lock to the counters.
    pub(crate) fn count_tallies(&mut self, executor: &Executor) {
        let Self { tallied, subsystem, .. } = self;
        let ServingThreads { tallies, used, .. } = executor.serving_threads();
        for (tally, counted) in tallies.iter().zip(tallied).take(used.load(Relaxed)) {
            subsystem.count_tally(tally, counted);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use byway_controller::{Identity, SubsystemOptions};
    use byway_flash::{Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec};
    use byway_link::Profile;

    use super::*;

    fn subsystem() -> Subsystem {
        let profile = Profile::by_name("gen4x4").unwrap();
        let options = FlashOptions::new(64 << 20, profile.flash, MediaKind::Ram).uuid([7; 16]);
        let kind = NamespaceKind::Nvm { lba_bytes: 512 };
        let flash =
            Flash::create(options, &[NamespaceSpec { nsid: None, kind, size_bytes: 8 << 20 }]).unwrap();
        let identity = Identity { nqn: "nqn.2026-01.t:x".into(), serial: "1".into(), model: "m".into() };
        Subsystem::new(identity, profile, flash, SubsystemOptions::default()).unwrap()
    }

    #[test]
    fn threads_are_numbered_by_the_first_that_is_free_up_to_the_most() {
        let subsystem = subsystem();
        let threads = ServingThreads::new(&subsystem, true);
        assert_eq!([threads.add(), threads.add(), threads.add()], [Some(0), Some(1), Some(2)]);
        threads.remove(1);
        assert_eq!([threads.add(), threads.add()], [Some(1), Some(3)]);
        (4..THREADS).for_each(|thread| assert_eq!(threads.add(), Some(thread)));
        assert_eq!(threads.add(), None);
        assert_eq!(ServingThreads::new(&subsystem, false).add(), None, "modelled time");
    }

    #[test]
    fn readers_of_queues_and_threads_are_different_marks() {
        let of_queues = (0..=byway_controller::MAX_IO_QUEUES).map(reader_of_queue);
        let last_queue = of_queues.filter(|reader| *reader < MAX_READERS).max();
        assert!(last_queue.is_some_and(|last| last < ServingThreads::reader(0)));
        assert!(ServingThreads::reader(THREADS - 1) < MAX_READERS);
    }
}
