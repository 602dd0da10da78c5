//! Parks a thread of the device until another thread has work for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::thread::Thread;
use std::time::Duration;

/// Longest park, after which a thread checks whether its device was dropped.
pub(crate) const PARK_MAX: Duration = Duration::from_millis(100);

/// A place where one thread parks.
///
/// Ordering: a waker publishes its work, then loads `is_parked`; the thread stores `is_parked`, then looks for work. A sequentially
/// consistent fence between the two steps of each ensures that at least one sees the other.
#[derive(Debug, Default)]
pub(crate) struct Parker {
    is_parked: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Parker {
    /// Unparks the thread if it is parked. Called after work was published.
    #[inline]
    pub fn wake(&self) {
        fence(SeqCst);
        if self.is_parked.load(Relaxed) && self.is_parked.swap(false, Relaxed) {
            self.thread.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Parks the calling thread for at most `timeout`, unless `has_work`.
    pub fn park(&self, timeout: Duration, has_work: impl Fn() -> bool) {
        self.thread.get_or_init(std::thread::current);
        self.is_parked.store(true, Relaxed);
        fence(SeqCst);
        if !has_work() {
            std::thread::park_timeout(timeout);
        }
        self.is_parked.store(false, Relaxed);
    }
}
