//! Threads of the device's own: one that runs it, polling while there is work and sleeping when idle, and one that syncs
//! its image for the commands that wait for that.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use byway_link::ClockMode;
use byway_sys::OwnerProcess;

use crate::shared::Shared;

/// How long the thread polls after the last work before it sleeps.
const LINGER: Duration = Duration::from_micros(50);

/// How long it sleeps at most, to notice that the device was dropped.
pub(crate) const NAP: Duration = Duration::from_millis(100);

/// The thread of one device. Dropping it stops and joins the thread.
#[derive(Debug)]
pub(crate) struct Runner {
    owner: OwnerProcess,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    /// Starts the thread that runs `shared`.
    pub fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        Self::spawn("byway-device", shared, |shared, stop| {
            work_until_idle(shared, stop);
            shared.sleep_until_rung(stop);
        })
    }

    /// Starts the thread that syncs the image of `shared` for commands that wait for it, so that the device's own thread
    /// serves others meanwhile.
    pub fn start_syncing(shared: &Arc<Shared>) -> std::io::Result<Self> {
        Self::spawn("byway-sync", shared, |shared, stop| {
            if shared.wants_sync() {
                shared.sync(None);
                shared.tell_front();
            }
            shared.sync_bed.sleep(NAP, || stop.load(SeqCst) || shared.wants_sync());
        })
    }

    /// Starts the thread that does what takes long for hosts elsewhere, and runs the device where every command may.
    pub fn start_working(shared: &Arc<Shared>) -> std::io::Result<Self> {
        Self::spawn("byway-work", shared, |shared, stop| {
            shared.work_apart(|| stop.load(SeqCst));
            shared.bed.sleep(shared.nap_apart(), || stop.load(SeqCst) || shared.has_work_apart());
        })
    }

    /// Starts the thread that completes what other engines have done, for hosts that only wait.
    pub fn start_watching(shared: &Arc<Shared>) -> std::io::Result<Self> {
        Self::spawn("byway-engines", shared, |shared, _| shared.watch_engines())
    }

    /// Starts thread `at` of those that share queues with who answers messages.
    pub fn start_tending(shared: &Arc<Shared>, at: usize) -> std::io::Result<Self> {
        Self::spawn("byway-queues", shared, move |shared, stop| {
            shared.tend_queues(at, || stop.load(SeqCst));
            shared.sleep_until_called(at, NAP, || stop.load(SeqCst));
        })
    }

    /// A thread that takes one step after the other for as long as the device is there.
    fn spawn(
        name: &str,
        shared: &Arc<Shared>,
        step: impl Fn(&Shared, &AtomicBool) + Send + 'static,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (weak, stopped) = (Arc::downgrade(shared), stop.clone());
        let steps = move || {
            let _failing = Failing(weak.clone());
            while !stopped.load(SeqCst) {
                let Some(shared) = weak.upgrade().filter(|shared| !shared.has_failed()) else { return };
                step(&shared, &stopped);
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(steps)?;
        Ok(Self { owner: OwnerProcess::current(), stop, thread: Some(thread) })
    }
}

/// Has those who answer messages look whether the device failed, when a thread of its own ends.
struct Failing(Weak<Shared>);

impl Drop for Failing {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.tell_front();
        }
    }
}

impl Drop for Runner {
    /// A forked child has no such thread.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return std::mem::forget(self.thread.take());
        }
        self.stop.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the device's thread has been reported by its own hook.
            let _ = thread.join();
        }
    }
}

fn work_until_idle(shared: &Shared, stop: &AtomicBool) {
    let mut last_work = Instant::now();
    while !stop.load(SeqCst) && !shared.has_failed() && last_work.elapsed() < LINGER {
        for _ in 0..64 {
            if shared.has_work() {
                shared.run_now();
                last_work = Instant::now();
            }
            std::hint::spin_loop();
        }
    }
}

/// Where the device's thread sleeps.
///
/// A ringer writes its doorbell, then looks for a sleeper; the thread says that it sleeps, then looks for rung
/// doorbells. With a sequentially consistent fence between the two steps of each, one of them sees the other.
#[derive(Debug, Default)]
pub(crate) struct Bed {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Bed {
    /// Wakes the thread if it sleeps. Called after a doorbell was written.
    #[inline]
    pub fn wake(&self) {
        fence(SeqCst);
        if self.asleep.load(Relaxed) && self.asleep.swap(false, Relaxed) {
            self.thread.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Sleeps unless `has_work` by then, at most for `nap`.
    pub(crate) fn sleep(&self, nap: Duration, has_work: impl Fn() -> bool) {
        self.thread.get_or_init(std::thread::current);
        self.asleep.store(true, Relaxed);
        fence(SeqCst);
        if !has_work() {
            std::thread::park_timeout(nap);
        }
        self.asleep.store(false, Relaxed);
    }
}

impl Shared {
    fn sleep_until_rung(&self, stop: &AtomicBool) {
        let nap = self.nap();
        self.bed.sleep(nap, || stop.load(SeqCst) || self.doorbells.is_dirty());
        if nap < NAP {
            self.run_now();
        }
    }

    /// Until the next modelled deadline, where the clock is paced.
    pub(crate) fn nap(&self) -> Duration {
        match (self.clock.mode(), self.deadline_ps()) {
            (ClockMode::Paced, Some(due_ps)) => {
                Duration::from_nanos(due_ps.saturating_sub(self.clock.now_ps()) / 1000).min(NAP)
            }
            _ => NAP,
        }
    }
}
