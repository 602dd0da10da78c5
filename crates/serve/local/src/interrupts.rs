//! Interrupts within one process: a flag for each vector, a place to sleep until one is raised, and descriptors that tell
//! of it where they were asked for.

use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence,
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use byway_controller::Interrupts;
use byway_sys::{Deadline, Wakeup};

/// One for each queue pair, and the admin queue's.
const VECTORS: u16 = byway_controller::MAX_IO_QUEUES + 1;

/// Whether a vector was raised; on a cache line of its own, as threads with queues of their own raise theirs at once.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Flag(AtomicBool);

/// The vectors of one controller.
#[derive(Debug)]
pub struct Vectors {
    /// Whether anybody may sleep for a vector: not where hosts run the device themselves, unless they asked for a descriptor.
    slept_on: AtomicBool,
    raised: Box<[Flag]>,
    sleepers: AtomicU32,
    gate: Mutex<()>,
    bell: Condvar,
    /// By vector, for as long as somebody listens.
    events: Box<[Mutex<Weak<Wakeup>>]>,
}

impl Interrupts for Vectors {
    /// With sleepers, the fence stands between the flag and the look for them, as a sleeper's announcement and its look
    /// at the flag are ordered: one of the two sees the other.
    #[inline]
    fn raise(&self, vector: u16) {
        if let Some(flag) = self.raised.get(usize::from(vector)) {
            flag.0.store(true, Release);
        }
        if self.slept_on.load(Relaxed) {
            self.wake(vector);
        }
    }
}

impl Vectors {
    /// Vectors that nobody has raised.
    pub fn new(slept_on: bool) -> Self {
        Self {
            slept_on: AtomicBool::new(slept_on),
            raised: (0..VECTORS).map(|_| Flag::default()).collect(),
            sleepers: AtomicU32::new(0),
            gate: Mutex::new(()),
            bell: Condvar::new(),
            events: (0..VECTORS).map(|_| Mutex::default()).collect(),
        }
    }

    fn place(&self, vector: u16) -> Option<MutexGuard<'_, Weak<Wakeup>>> {
        Some(self.events.get(usize::from(vector))?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The descriptor of `vector`, if somebody listens.
    fn event(&self, vector: u16) -> Option<Arc<Wakeup>> {
        self.place(vector)?.upgrade()
    }

    /// The descriptor of `vector`, which can be read once the vector was raised; it is raised at first. It is closed when
    /// nobody has it any more. Called with the device standing still, so that no interrupt is raised by anybody who does
    /// not know of it yet.
    pub fn listen(&self, vector: u16) -> io::Result<Arc<Wakeup>> {
        let place = self.place(vector);
        let mut place = place.ok_or_else(|| io::Error::other("there is no such interrupt"))?;
        if let Some(event) = place.upgrade() {
            return Ok(event);
        }
        let event = Arc::new(Wakeup::new()?);
        event.raise();
        *place = Arc::downgrade(&event);
        self.slept_on.store(true, SeqCst);
        Ok(event)
    }

    /// Makes the descriptor of `vector` readable.
    pub fn call(&self, vector: u16) {
        if let Some(event) = self.event(vector) {
            event.raise();
        }
    }

    /// Makes it unreadable.
    pub fn clear(&self, vector: u16) {
        if let Some(event) = self.event(vector) {
            event.lower();
        }
    }

    /// Makes the descriptors readable of those vectors that `whose` names.
    pub fn call_all(&self, whose: impl Fn(u16) -> bool) {
        if self.slept_on.load(Relaxed) {
            (0..VECTORS).filter(|vector| whose(*vector)).for_each(|v| self.call(v));
        }
    }

    fn wake(&self, vector: u16) {
        fence(SeqCst);
        self.call(vector);
        if self.sleepers.load(SeqCst) > 0 {
            let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.bell.notify_all();
        }
    }

    /// Takes the flag of `vector`; says whether it was raised.
    pub fn take(&self, vector: u16) -> bool {
        // A look first: taking is a locked operation, and most looks find nothing.
        let up = self.raised.get(usize::from(vector)).filter(|flag| flag.0.load(SeqCst));
        up.is_some_and(|flag| flag.0.swap(false, SeqCst))
    }

    /// Sleeps until `vector` is raised, at most `timeout`; says whether it was.
    pub fn sleep(&self, vector: u16, timeout: Duration) -> bool {
        let until = Deadline::after(timeout);
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, SeqCst);
        let raised = loop {
            if self.take(vector) {
                break true;
            }
            let left = until.left_or_max();
            if left.is_zero() {
                break false;
            }
            gate = self.bell.wait_timeout(gate, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        self.sleepers.fetch_sub(1, SeqCst);
        raised
    }
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
