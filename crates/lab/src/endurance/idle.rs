//! A queue without commands, polled by a thread of its own: what such a thread does is the device's upkeep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use anyhow::Result;
use byway::BackendQueue;

/// Dropping it ends its thread.
pub struct IdleQueue {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl IdleQueue {
    /// Polls `queue` until it is dropped.
    ///
    /// # Errors
    /// What the system says of a thread more.
    pub fn poll(mut queue: impl BackendQueue + 'static) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let poll = move || while !stopped.load(Relaxed) && queue.poll(1, &mut |_| {}).is_ok() {};
        let thread = std::thread::Builder::new().name("idle-queue".into()).spawn(poll)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for IdleQueue {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // A panic of the thread was reported by the panic hook.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}
