//! Interrupts within one process: a flag for each vector, and a place to sleep until one is raised.

use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence,
};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use byway_controller::Interrupts;

const WORDS: usize = 3;

/// The vectors of one controller.
#[derive(Debug)]
pub struct Vectors {
    /// Whether anybody may sleep for a vector: not where hosts run the device themselves.
    slept_on: bool,
    raised: [AtomicU64; WORDS],
    sleepers: AtomicU32,
    gate: Mutex<()>,
    bell: Condvar,
}

impl Interrupts for Vectors {
    /// One thread at a time raises, so no atomic read-modify-write is needed: a flag that is taken between the load
    /// and the store comes up again, and its waiter looks once too often. With sleepers, the fence stands between
    /// the flag and the look for them, as a sleeper's announcement and its look at the flag are ordered: one of the
    /// two sees the other.
    #[inline]
    fn raise(&self, vector: u16) {
        if let Some((word, bit)) = place(vector) {
            let raised = self.raised[word].load(Relaxed);
            self.raised[word].store(raised | bit, Release);
        }
        if self.slept_on {
            self.wake();
        }
    }
}

impl Vectors {
    /// Vectors that nobody has raised.
    pub fn new(slept_on: bool) -> Self {
        Self {
            slept_on,
            raised: Default::default(),
            sleepers: AtomicU32::new(0),
            gate: Mutex::new(()),
            bell: Condvar::new(),
        }
    }

    fn wake(&self) {
        fence(SeqCst);
        if self.sleepers.load(SeqCst) > 0 {
            let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.bell.notify_all();
        }
    }

    /// Takes the flag of `vector`; says whether it was raised.
    pub fn take(&self, vector: u16) -> bool {
        // A look first: taking is a locked operation, and most looks find nothing.
        let is_up = |(word, bit): (usize, u64)| self.raised[word].load(SeqCst) & bit != 0;
        let up = place(vector).filter(|place| is_up(*place));
        up.is_some_and(|(word, bit)| self.raised[word].fetch_and(!bit, SeqCst) & bit != 0)
    }

    /// Sleeps until `vector` is raised, at most `timeout`; says whether it was.
    pub fn sleep(&self, vector: u16, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, SeqCst);
        let raised = loop {
            if self.take(vector) {
                break true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            gate = self.bell.wait_timeout(gate, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        self.sleepers.fetch_sub(1, SeqCst);
        raised
    }
}

fn place(vector: u16) -> Option<(usize, u64)> {
    let word = usize::from(vector / 64);
    (word < WORDS).then_some((word, 1 << (vector % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_vector_is_taken_once_and_wakes_only_its_own_flag() {
        let vectors = Vectors::new(true);
        vectors.raise(65);
        assert!(!vectors.take(1));
        assert!(vectors.take(65));
        assert!(!vectors.take(65));
    }

    #[test]
    fn a_sleeper_is_woken_by_a_raise_from_another_thread() {
        let vectors = Vectors::new(true);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| vectors.sleep(3, Duration::from_secs(60)));
            while vectors.sleepers.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            vectors.raise(3);
            assert!(sleeper.join().is_ok_and(|raised| raised));
        });
    }

    #[test]
    fn sleeping_ends_at_its_timeout() {
        assert!(!Vectors::new(true).sleep(0, Duration::from_millis(1)));
    }
}
