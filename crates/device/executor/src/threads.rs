//! Threads of a device.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use byway_sys::{OwnerProcess, Spin};
use parking_lot::Mutex;

use crate::executor::Executor;
use crate::programs::ProgramThread;
use crate::queries::QueryPool;

/// How long the thread that runs the device polls without work before it parks.
const IDLE_SPIN: Duration = Duration::from_micros(50);

/// Polls for one reading of the clock.
const POLLS: u32 = 64;

/// The threads of a device. Dropping them stops and joins them.
#[derive(Debug)]
pub(crate) struct DeviceThreads {
    _threads: Vec<DeviceThread>,
    programs: Arc<ProgramThread>,
    queries: Mutex<Vec<Arc<QueryPool>>>,
}

impl DeviceThreads {
    pub fn new(threads: Vec<DeviceThread>, programs: Arc<ProgramThread>) -> Self {
        Self { _threads: threads, programs, queries: Mutex::default() }
    }

    /// Keeps the threads that execute queries, to stop them with the device.
    pub fn keep(&self, queries: Arc<QueryPool>) {
        self.queries.lock().push(queries);
    }
}

impl Drop for DeviceThreads {
    fn drop(&mut self) {
        self.programs.stop();
        self.queries.get_mut().iter().for_each(|queries| queries.stop());
    }
}

/// A thread of a device. Dropping it stops and joins the thread.
#[derive(Debug)]
pub(crate) struct DeviceThread {
    owner: OwnerProcess,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DeviceThread {
    /// Starts the thread that runs the device.
    pub fn run_device(executor: &Arc<Executor>) -> std::io::Result<Self> {
        Self::spawn("byway-device", executor, |executor, stop| {
            run_until_idle(executor, stop);
            executor.keep_up_until_rung(|| stop.load(SeqCst));
            executor.park_until_rung(|| stop.load(SeqCst));
        })
    }

    /// Starts the thread that syncs the image, so that other threads run the device meanwhile.
    pub fn sync_image(executor: &Arc<Executor>) -> std::io::Result<Self> {
        Self::spawn("byway-sync", executor, |executor, stop| {
            if executor.wants_sync() {
                executor.sync(None);
                executor.notify_front();
            }
            executor.park_sync_thread(|| stop.load(SeqCst));
        })
    }

    /// Starts the thread that does deferred work for hosts in other processes, and runs the device if every command may sync.
    pub fn do_deferred(executor: &Arc<Executor>) -> std::io::Result<Self> {
        Self::spawn("byway-work", executor, |executor, stop| {
            executor.do_own_work(|| stop.load(SeqCst));
            executor.park_own_thread(|| stop.load(SeqCst));
        })
    }

    /// Starts the thread that waits for external engines.
    pub fn watch_engines(executor: &Arc<Executor>) -> std::io::Result<Self> {
        Self::spawn("byway-engines", executor, |executor, _| executor.watch_engines())
    }

    /// Starts queue thread `at`.
    pub fn serve_queues(executor: &Arc<Executor>, at: usize) -> std::io::Result<Self> {
        Self::spawn("byway-queues", executor, move |executor, stop| {
            executor.serve_assigned(at, || stop.load(SeqCst));
            if let Some(thread) = executor.queue_threads().get(at) {
                thread.park(crate::parker::PARK_MAX, || stop.load(SeqCst));
            }
        })
    }

    /// Starts the device's own thread for upkeep.
    pub fn keep_up(executor: &Arc<Executor>) -> std::io::Result<Self> {
        Self::spawn("byway-upkeep", executor, |executor, stop| {
            executor.keep_up_and_park(|| stop.load(SeqCst));
        })
    }

    /// A thread that repeats `step` while the device exists and has not failed.
    pub fn spawn(
        name: &str,
        executor: &Arc<Executor>,
        step: impl Fn(&Executor, &AtomicBool) + Send + 'static,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (weak, stopped) = (Arc::downgrade(executor), stop.clone());
        let steps = move || {
            let _notify = NotifyAtEnd(weak.clone());
            while !stopped.load(SeqCst) {
                let Some(executor) = weak.upgrade().filter(|executor| !executor.has_failed()) else { return };
                step(&executor, &stopped);
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(steps)?;
        Ok(Self { owner: OwnerProcess::current(), stop, thread: Some(thread) })
    }
}

/// Makes the message thread check for a failure when a thread of the device ends.
struct NotifyAtEnd(Weak<Executor>);

impl Drop for NotifyAtEnd {
    fn drop(&mut self) {
        if let Some(executor) = self.0.upgrade() {
            executor.notify_front();
        }
    }
}

impl Drop for DeviceThread {
    /// A forked child has no such thread.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return std::mem::forget(self.thread.take());
        }
        self.stop.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn run_until_idle(executor: &Executor, stop: &AtomicBool) {
    let mut spin = Spin::lasting(IDLE_SPIN, POLLS);
    while !stop.load(SeqCst) && !executor.has_failed() && spin.again() {
        if executor.has_work() {
            executor.run_now();
            spin.restart();
        }
    }
}
