//! Interrupts of a host in this process: a flag for each vector, a condition variable, and descriptors on request.

use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence,
};
use std::sync::{Arc, Weak};
use std::time::Duration;

use byway_controller::Interrupts;
use byway_sys::{Deadline, Wakeup};
use parking_lot::{Condvar, Mutex};

/// One for each queue pair, and the admin queue's.
const VECTORS: u16 = byway_controller::MAX_IO_QUEUES + 1;

/// Whether a vector is raised; on a cache line of its own, as threads with queues of their own raise theirs at once.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Flag(AtomicBool);

/// The vectors of one controller.
#[derive(Debug)]
pub(crate) struct Vectors {
    /// A thread may sleep for a vector. False where hosts run the device themselves and asked for no descriptor.
    has_sleepers: AtomicBool,
    raised: Box<[Flag]>,
    sleepers: AtomicU32,
    gate: Mutex<()>,
    raise: Condvar,
    /// By vector, while a host has the descriptor.
    events: Box<[Mutex<Weak<Wakeup>>]>,
}

impl Interrupts for Vectors {
    /// Ordering: the fence in `wake` orders the flag before the load of `sleepers`, as `sleep` orders its count before its load of
    /// the flag; at least one sees the other.
    #[inline]
    fn raise(&self, vector: u16) {
        if let Some(flag) = self.raised.get(usize::from(vector)) {
            flag.0.store(true, Release);
        }
        if self.has_sleepers.load(Relaxed) {
            self.wake(vector);
        }
    }
}

impl Vectors {
    /// Vectors that are not raised.
    pub fn new(has_sleepers: bool) -> Self {
        Self {
            has_sleepers: AtomicBool::new(has_sleepers),
            raised: (0..VECTORS).map(|_| Flag::default()).collect(),
            sleepers: AtomicU32::new(0),
            gate: Mutex::new(()),
            raise: Condvar::new(),
            events: (0..VECTORS).map(|_| Mutex::default()).collect(),
        }
    }

    /// The descriptor of `vector`, while a host has it.
    fn event(&self, vector: u16) -> Option<Arc<Wakeup>> {
        self.events.get(usize::from(vector))?.lock().upgrade()
    }

    /// The descriptor of `vector`, readable once the vector was raised, and at first. Called under the run lock, so that no
    /// interrupt is raised without it.
    ///
    /// # Errors
    /// No such vector; the process has no descriptor left.
    pub fn listen(&self, vector: u16) -> io::Result<Arc<Wakeup>> {
        let event = self.events.get(usize::from(vector));
        let mut event = event.ok_or_else(|| io::Error::other("there is no such interrupt"))?.lock();
        if let Some(event) = event.upgrade() {
            return Ok(event);
        }
        let new = Arc::new(Wakeup::new()?);
        new.raise();
        *event = Arc::downgrade(&new);
        self.has_sleepers.store(true, SeqCst);
        Ok(new)
    }

    /// Signals the descriptor of `vector`.
    pub fn signal(&self, vector: u16) {
        if let Some(event) = self.event(vector) {
            event.raise();
        }
    }

    /// Clears the descriptor of `vector`.
    pub fn clear(&self, vector: u16) {
        if let Some(event) = self.event(vector) {
            event.lower();
        }
    }

    /// Signals the descriptors of the vectors that `selects`.
    pub fn signal_all(&self, selects: impl Fn(u16) -> bool) {
        if self.has_sleepers.load(Relaxed) {
            (0..VECTORS).filter(|vector| selects(*vector)).for_each(|vector| self.signal(vector));
        }
    }

    fn wake(&self, vector: u16) {
        fence(SeqCst);
        self.signal(vector);
        if self.sleepers.load(SeqCst) > 0 {
            let _gate = self.gate.lock();
            self.raise.notify_all();
        }
    }

    /// Takes the flag of `vector`; whether it was raised.
    pub fn take(&self, vector: u16) -> bool {
        // A load first: the exchange is a locked operation, and most polls find nothing.
        let up = self.raised.get(usize::from(vector)).filter(|flag| flag.0.load(SeqCst));
        up.is_some_and(|flag| flag.0.swap(false, SeqCst))
    }

    /// Sleeps until `vector` is raised, at most `timeout`; whether it was.
    pub fn sleep(&self, vector: u16, timeout: Duration) -> bool {
        let until = Deadline::after(timeout);
        let mut gate = self.gate.lock();
        self.sleepers.fetch_add(1, SeqCst);
        let raised = loop {
            if self.take(vector) {
                break true;
            }
            let left = until.left_or_max();
            if left.is_zero() {
                break false;
            }
            self.raise.wait_for(&mut gate, left);
        };
        self.sleepers.fetch_sub(1, SeqCst);
        raised
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_vector_is_taken_once_and_no_other() {
        let vectors = Vectors::new(true);
        vectors.raise(65);
        assert!(!vectors.take(1));
        assert!(vectors.take(65));
        assert!(!vectors.take(65));
    }

    #[test]
    fn sleeper_is_woken_by_a_raise_from_another_thread() {
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
    fn sleep_without_a_raise_ends_at_its_timeout() {
        assert!(!Vectors::new(true).sleep(0, Duration::from_millis(1)));
    }
}
