//! Threads that take turns at whatever has work for them, and sleep when nothing has.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use byway_sys::{OwnerProcess, Spin};
use parking_lot::{Condvar, Mutex, MutexGuard};

/// Polls of an idle thread, or of a waiting queue, before it sleeps: some microseconds.
pub(crate) const SPINS: u32 = 100;

/// Something that has work for threads now and then.
///
/// An implementer offers itself to the pool when there is work, once, and again from within a turn while there is more.
pub(crate) trait Source: Send + Sync {
    /// Does some of the work.
    fn take_turn(self: Arc<Self>, pool: &Offers);
}

/// Threads of a device, shared by its queues. They end with it.
pub(crate) struct Pool {
    owner: OwnerProcess,
    offers: Arc<Offers>,
    threads: Vec<JoinHandle<()>>,
}

/// What has work, in the order in which it was offered.
pub(crate) struct Offers {
    list: Mutex<List>,
    changed: Condvar,
    /// Length of the list, for threads that look before they sleep.
    len: AtomicUsize,
    /// Whether a thread is looking: one is enough.
    looking: AtomicBool,
}

#[derive(Default)]
struct List {
    sources: VecDeque<Arc<dyn Source>>,
    asleep: u32,
    ending: bool,
}

impl Pool {
    /// A pool of `threads` threads.
    ///
    /// # Errors
    /// When the system does not start one of them.
    pub(crate) fn new(threads: u32) -> io::Result<Self> {
        let offers = Arc::new(Offers {
            list: Mutex::default(),
            changed: Condvar::new(),
            len: AtomicUsize::new(0),
            looking: AtomicBool::new(false),
        });
        let owner = OwnerProcess::current();
        let mut pool = Self { owner, offers, threads: Vec::with_capacity(threads as usize) };
        for _ in 0..threads {
            let offers = Arc::clone(&pool.offers);
            pool.threads.push(Builder::new().name("byway-threads".into()).spawn(move || offers.serve())?);
        }
        Ok(pool)
    }

    /// Whether its threads are of the calling process: a forked child has none of them.
    pub(crate) fn is_here(&self) -> bool {
        self.owner.is_current()
    }

    /// Where work is offered.
    pub(crate) fn offers(&self) -> &Offers {
        &self.offers
    }
}

impl Drop for Pool {
    /// A forked child has none of the threads.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return std::mem::forget(std::mem::take(&mut self.threads));
        }
        self.offers.list.lock().ending = true;
        self.offers.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked is over, too.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Pool({} threads)", self.threads.len())
    }
}

impl Offers {
    /// Has a thread take a turn at `source`, waking one if none is looking.
    pub(crate) fn add(&self, source: Arc<dyn Source>) {
        let mut list = self.list.lock();
        list.sources.push_back(source);
        self.len.store(list.sources.len(), Ordering::Relaxed);
        let wake = list.asleep > 0 && !self.looking.load(Ordering::Relaxed);
        drop(list);
        if wake {
            self.changed.notify_one();
        }
    }

    /// A thread's life.
    fn serve(&self) {
        while let Some(source) = self.next() {
            source.take_turn(self);
        }
    }

    /// The next source, waited for; `None` when the pool ends.
    fn next(&self) -> Option<Arc<dyn Source>> {
        let looked = self.look();
        let mut list = self.list.lock();
        if looked {
            self.looking.store(false, Ordering::Relaxed);
        }
        loop {
            if list.ending {
                return None;
            }
            if let Some(source) = list.sources.pop_front() {
                self.taken(list);
                return Some(source);
            }
            list.asleep += 1;
            self.changed.wait(&mut list);
            list.asleep -= 1;
        }
    }

    /// Polls for a while, unless another thread does: work that comes soon then costs no wakeup. A thread that adds a source
    /// meanwhile wakes no thread, and this thread takes the list's lock next.
    fn look(&self) -> bool {
        if self.looking.swap(true, Ordering::Relaxed) {
            return false;
        }
        let mut spin = Spin::polls(SPINS);
        while self.len.load(Ordering::Relaxed) == 0 && spin.again() {}
        true
    }

    /// A source was taken; what is left is another thread's.
    fn taken(&self, list: MutexGuard<'_, List>) {
        self.len.store(list.sources.len(), Ordering::Relaxed);
        let wake = !list.sources.is_empty() && list.asleep > 0;
        drop(list);
        if wake {
            self.changed.notify_one();
        }
    }
}
