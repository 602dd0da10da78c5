//! A device whose commands are done by a pool of threads.

use std::sync::Arc;

use byway_core::{Error, ErrorKind, QueueOptions, Result};

use crate::over::{Interface, Over};
use crate::synchronous::Synchronous;
use crate::target::Target;
use crate::threads::ThreadsQueue;
use crate::threads::pool::Pool;

/// Most threads of a device.
const THREADS_MAX: u32 = 1024;

/// How many threads there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadsOptions {
    /// Threads, 1 to 1024; `None` for two for each processor, at least four, since most of them sleep most of the time.
    pub threads: Option<u32>,
}

impl ThreadsOptions {
    /// A pool of this many threads, 1 to 1024; `None` for as many as by default.
    #[must_use]
    pub fn of(threads: impl Into<Option<u32>>) -> Self {
        Self { threads: threads.into() }
    }
}

/// Commands are done by a pool of threads.
#[derive(Debug)]
pub struct ByThreads(Arc<Pool>);

/// A device whose commands are done by a pool of threads.
pub type Threads<S = Target> = Over<S, ByThreads>;

impl Threads {
    /// The interface's name.
    pub const NAME: &str = "threads";
}

impl<S: Synchronous> Threads<S> {
    /// Commands are done by `device` in threads of this pool.
    ///
    /// # Errors
    /// For a number of threads that cannot be, and when the system starts none.
    pub fn new(device: Arc<S>, options: ThreadsOptions) -> Result<Self> {
        let threads = options.threads.unwrap_or_else(threads_by_processors);
        if !(1..=THREADS_MAX).contains(&threads) {
            let said = format!("a pool has 1 to {THREADS_MAX} threads, not {threads}");
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        let pool = Pool::new(threads)
            .map_err(|cause| Error::kernel(format!("no {threads} threads could be started"), cause))?;
        let capabilities = device.capabilities(true, true);
        Ok(Self::with(Threads::NAME, device, capabilities, ByThreads(Arc::new(pool))))
    }
}

impl<S: Synchronous> Interface<S> for ByThreads {
    type Queue = ThreadsQueue<S>;

    fn queue(&self, device: &Arc<S>, options: QueueOptions) -> Result<ThreadsQueue<S>> {
        Ok(ThreadsQueue::new(Arc::clone(device), Arc::clone(&self.0), options))
    }
}

fn threads_by_processors() -> u32 {
    let processors = std::thread::available_parallelism().map_or(2, |count| count.get() as u32);
    (2 * processors).clamp(4, THREADS_MAX)
}
