//! The lock that admits one thread at a time to run a device.
//!
//! A caller that finds the lock held sets its pending bit and returns. The holder sees the bit before it can release,
//! and runs the device again for that caller. So ringing a doorbell never blocks (decision 0004).
//!
//! ```text
//! doorbells.store(index, tail);
//! if !run_lock.try_acquire() {
//!     doorbells.mark_dirty(index);
//!     if !run_lock.acquire_or_set_pending() { return }   // the holder runs again for us
//! }
//! loop {
//!     run_the_device();                // takes the dirty bits of the doorbells
//!     if run_lock.release() { break }
//! }
//! ```
//!
//! While the lock is free, threads may [read](RunLock::read) what it guards, beside each other; a thread that acquires the
//! lock waits for them (decision 0065).
//!
//! The lock contains no data: its owner keeps the device beside it. A holder that panics poisons the lock, because
//! the device's state is then unknown. Later attempts to acquire it fail.

use crate::readers::{Readers, Reading};
use crate::sync::{AtomicU8, Ordering, pause};

const IDLE: u8 = 0;
const HELD: u8 = 1;
/// Held, and a caller has asked for another run since.
const PENDING: u8 = 2;
/// A holder panicked.
const POISONED: u8 = 3;

/// The right to run one device.
#[derive(Debug)]
pub struct RunLock {
    state: AtomicU8,
    readers: Readers,
}

impl RunLock {
    /// A free lock without readers.
    pub fn new() -> Self {
        Self::with_readers(0)
    }

    /// A free lock with at most `count` readers, of which [`MAX_READERS`](crate::MAX_READERS) are served.
    pub fn with_readers(count: usize) -> Self {
        Self { state: AtomicU8::new(IDLE), readers: Readers::new(count) }
    }

    /// Lets `reader` [read](Self::read) from now on. The caller holds the lock.
    pub fn add_reader(&self, reader: usize) {
        debug_assert!(self.is_held(), "readers are added under the lock");
        self.readers.add(reader);
    }

    /// Lets `reader`, which does not read now, [read](Self::read) no more. The caller holds the lock.
    pub fn remove_reader(&self, reader: usize) {
        debug_assert!(self.is_held(), "readers are removed under the lock");
        self.readers.remove(reader);
    }

    /// How many readers a thread that acquires the lock looks at.
    #[must_use]
    pub fn readers(&self) -> u32 {
        self.readers.count()
    }

    /// Begins to read what the lock guards, as reader `reader`, if the lock is free. Until the result is dropped no thread
    /// that acquires the lock goes on. `None` where the lock is held, this reader reads already, or was not added.
    ///
    /// Acquire: the previous holder's work is visible.
    #[inline]
    pub fn read(&self, reader: usize) -> Option<Reading<'_>> {
        let reading = self.readers.begin(reader)?;
        (self.state.load(Ordering::Acquire) == IDLE).then_some(reading)
    }

    /// As [`read`](Self::read), but waits while a thread holds the lock. `None` where the lock is poisoned, this reader reads already, or
    /// was not added.
    #[inline]
    pub fn read_once_free(&self, reader: usize) -> Option<Reading<'_>> {
        let mut round = 0;
        loop {
            let reading = self.readers.begin(reader)?;
            match self.state.load(Ordering::Acquire) {
                IDLE => return Some(reading),
                POISONED => return None,
                _ => drop(reading),
            }
            // Without a mark, which a thread that acquires the lock would wait for.
            pause(round);
            round = round.saturating_add(1);
            while !cfg!(loom) && self.is_held() && !self.is_poisoned() {
                pause(round);
                round = round.saturating_add(1);
            }
        }
    }

    /// Acquires the lock if it is free; never sets the pending bit. One atomic operation.
    ///
    /// Acquire: the previous holder's work is visible.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        let is_acquired =
            self.state.compare_exchange(IDLE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if is_acquired {
            self.readers.wait();
        }
        is_acquired
    }

    /// Spins until the lock is acquired; never sets the pending bit. For locks that are held briefly. False if the
    /// lock is [poisoned](RunLock::poison).
    ///
    /// Acquire, as [`RunLock::try_acquire`].
    #[inline]
    #[must_use]
    pub fn acquire(&self) -> bool {
        let mut round = 0;
        // Load before the exchange: a failed exchange still takes the cache line from the holder. Not under loom,
        // which may return the old value for ever.
        while !cfg!(loom) && self.is_held() || !self.try_acquire() {
            if self.is_poisoned() {
                return false;
            }
            pause(round);
            round = round.saturating_add(1);
        }
        true
    }

    /// Acquires the lock, or sets the pending bit: the holder then runs again and sees everything the caller did
    /// before. True if the caller holds the lock and must run the device. A poisoned lock does neither.
    #[inline]
    pub fn acquire_or_set_pending(&self) -> bool {
        let mut seen = IDLE;
        loop {
            let next = match seen {
                IDLE => HELD,
                POISONED => return false,
                _ => PENDING,
            };
            // Exchange even if the bit is set: it orders the caller's writes before the holder's next run.
            match self.state.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if next == HELD => {
                    self.readers.wait();
                    return true;
                }
                Ok(_) => return false,
                Err(now) => seen = now,
            }
        }
    }

    /// Releases the lock; true if it was released. False if a caller set the pending bit: the bit is cleared, and the
    /// holder must run again.
    ///
    /// Release when unlocked: the next holder sees this one's work. Acquire when pending: the next run sees what the
    /// caller did before it set the bit.
    #[inline]
    pub fn release(&self) -> bool {
        if self.state.compare_exchange(HELD, IDLE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return true;
        }
        // Callers can only set the bit again, which the next run covers; or the lock was poisoned meanwhile.
        self.state.compare_exchange(PENDING, HELD, Ordering::Acquire, Ordering::Relaxed).is_err()
    }

    /// Makes later attempts to acquire the lock fail. The present holder keeps it until it releases.
    pub fn poison(&self) {
        self.state.store(POISONED, Ordering::Release);
    }

    /// Whether a holder panicked.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.state.load(Ordering::Relaxed) == POISONED
    }

    /// Whether a caller has asked the holder for another run, or the lock is poisoned: there is something to do other than what the
    /// holder does.
    #[inline]
    pub fn is_pending(&self) -> bool {
        !matches!(self.state.load(Ordering::Relaxed), IDLE | HELD)
    }

    /// Whether a thread holds the lock now; also true if it is poisoned.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.state.load(Ordering::Relaxed) != IDLE
    }
}

impl Default for RunLock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn run_lock_entered_while_held_makes_the_holder_run_again() {
        let run_lock = RunLock::new();
        assert!(run_lock.acquire_or_set_pending());
        assert!(!run_lock.is_pending() && !run_lock.acquire_or_set_pending());
        assert!(run_lock.is_pending() && !run_lock.acquire_or_set_pending());
        assert!(!run_lock.release(), "a caller set the pending bit");
        assert!(run_lock.release(), "the pending bit was cleared");
        assert!(run_lock.try_acquire());
    }

    #[test]
    fn run_lock_try_acquire_sets_no_pending_bit() {
        let run_lock = RunLock::new();
        assert!(run_lock.try_acquire());
        assert!(!run_lock.try_acquire());
        assert!(run_lock.release());
        assert!(!run_lock.is_held());
    }

    #[test]
    fn run_lock_is_read_while_it_is_free_by_each_reader_once() {
        let run_lock = RunLock::with_readers(2);
        assert!(run_lock.read(0).is_none() && run_lock.try_acquire());
        (0..3).for_each(|reader| run_lock.add_reader(reader));
        assert!(run_lock.read(0).is_none() && run_lock.release());
        let first = run_lock.read(0);
        assert!(first.is_some() && run_lock.read(0).is_none() && run_lock.read(2).is_none());
        drop((first, run_lock.read(1)));
        assert!(run_lock.try_acquire() && run_lock.read(0).is_none());
        assert!(run_lock.release() && run_lock.read(0).is_some());
        run_lock.poison();
        assert!(run_lock.read(1).is_none());
    }

    #[test]
    fn run_lock_looks_at_no_reader_that_was_removed() {
        let run_lock = RunLock::with_readers(100);
        assert!(run_lock.try_acquire());
        [0, 70, 100].into_iter().for_each(|reader| run_lock.add_reader(reader));
        assert_eq!(run_lock.readers(), 2);
        [70, 71, 100].into_iter().for_each(|reader| run_lock.remove_reader(reader));
        assert_eq!(run_lock.readers(), 1);
        assert!(run_lock.release() && run_lock.read(0).is_some() && run_lock.read(70).is_none());
        assert!(run_lock.try_acquire());
        run_lock.add_reader(70);
        assert!(run_lock.release() && run_lock.read(70).is_some());
    }

    #[test]
    fn run_lock_that_is_held_is_read_once_it_is_released() {
        let run_lock = RunLock::with_readers(1);
        assert!(run_lock.read_once_free(0).is_none(), "it is no reader yet");
        assert!(run_lock.try_acquire());
        run_lock.add_reader(0);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| run_lock.read_once_free(0).is_some() && run_lock.read(0).is_some());
            assert!(!reader.is_finished(), "the lock is held");
            assert!(run_lock.release());
            assert!(reader.join().is_ok_and(|has_read| has_read));
        });
        run_lock.poison();
        assert!(run_lock.read_once_free(0).is_none());
    }

    #[test]
    fn run_lock_after_poison_is_neither_acquired_nor_awaited() {
        let run_lock = RunLock::new();
        assert!(run_lock.acquire_or_set_pending());
        assert!(!run_lock.acquire_or_set_pending());
        run_lock.poison();
        assert!(run_lock.release(), "a poisoned lock is not run again");
        assert!(!run_lock.try_acquire() && !run_lock.acquire_or_set_pending() && !run_lock.acquire());
        assert!(run_lock.is_poisoned());
    }
}
