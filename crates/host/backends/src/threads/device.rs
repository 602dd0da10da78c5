//! A device whose commands are done by a pool of threads.

use std::sync::Arc;

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Error, ErrorKind, Identity, Namespace, Outcome,
    QueueOptions, Result,
};

use crate::synchronous::Synchronous;
use crate::target::Target;
use crate::threads::ThreadsQueue;
use crate::threads::pool::Pool;

/// Most threads of a device.
const THREADS_MAX: u32 = 1024;

/// How many threads there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadsOptions {
    /// Threads, 1 to 1024; `None` for two for each processor, at least four, since most of them sleep most of the time.
    pub threads: Option<u32>,
}

/// A device whose commands are done by a pool of threads.
#[derive(Debug)]
pub struct Threads<S: Synchronous = Target> {
    device: Arc<S>,
    pool: Arc<Pool>,
    capabilities: Capabilities,
}

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
        Ok(Self { device, pool: Arc::new(pool), capabilities })
    }
}

fn threads_by_processors() -> u32 {
    let processors = std::thread::available_parallelism().map_or(2, |count| count.get() as u32);
    (2 * processors).clamp(4, THREADS_MAX)
}

impl<S: Synchronous> Backend for Threads<S> {
    type Queue = ThreadsQueue<S>;

    fn name(&self) -> &'static str {
        Threads::NAME
    }

    fn identity(&self) -> &Identity {
        self.device.identity()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.device.namespaces()
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn queue(&self, options: QueueOptions) -> Result<ThreadsQueue<S>> {
        self.device.check_queue(&options)?;
        Ok(ThreadsQueue::new(Arc::clone(&self.device), Arc::clone(&self.pool), options.depth))
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.device.admin(&command)
    }
}
