//! A queue of a device of any kind.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use byway_backends::nil::NilQueue;
use byway_backends::ram::RamQueue;
#[cfg(feature = "kernel")]
use byway_backends::{
    NvmeTarget, Target, io_uring::IoUringQueue, io_uring_cmd::IoUringCmdQueue, libaio::LibaioQueue,
    nvme_ioctl::NvmeIoctlQueue, posix_aio::PosixAioQueue, psync::PsyncQueue, threads::ThreadsQueue,
};
use byway_core::{
    BackendQueue, Command, Error, Failed, Finished, Method, Outcome, Refused, Result, check_owner,
};
use byway_spec::base::command::COMMAND_BYTES;
use byway_sys::ProcessLocal;
#[cfg(feature = "tcp")]
use byway_tcp_initiator::{TcpPathsQueue, TcpQueue};

/// A queue of a device in this process.
#[cfg(feature = "embedded")]
pub type EmbeddedQueue = byway_driver::Queue<byway_local::InProcessBus>;

/// A queue of a device that another process serves.
#[cfg(feature = "vfio")]
pub type VfioUserQueue = byway_driver::Queue<byway_buses::VfioUserBus>;

/// A queue of a PCIe device of this machine.
#[cfg(feature = "vfio")]
pub type VfioQueue = byway_driver::Queue<byway_buses::VfioBus>;

/// A queue of a device of any kind: each call is handed on by one match. In a forked child every call is refused.
pub struct Queue(ProcessLocal<QueueKind>);

/// Which device a queue is of.
#[non_exhaustive]
pub enum QueueKind {
    /// Of a device in this process.
    #[cfg(feature = "embedded")]
    Embedded(Box<EmbeddedQueue>),
    /// Of a device that another process serves.
    #[cfg(feature = "vfio")]
    VfioUser(Box<VfioUserQueue>),
    /// Of a PCIe device of this machine.
    #[cfg(feature = "vfio")]
    Vfio(Box<VfioQueue>),
    /// Of no device.
    Nil(NilQueue),
    /// Of a file or block device behind the kernel's native asynchronous I/O.
    #[cfg(feature = "kernel")]
    Libaio(Box<LibaioQueue>),
    /// Of a file or block device behind POSIX asynchronous I/O.
    #[cfg(feature = "kernel")]
    PosixAio(Box<PosixAioQueue>),
    /// Of a file or block device behind io_uring.
    #[cfg(feature = "kernel")]
    IoUring(Box<IoUringQueue>),
    /// Of an NVMe namespace behind commands that an io_uring carries.
    #[cfg(feature = "kernel")]
    IoUringCmd(Box<IoUringCmdQueue>),
    /// Of an NVMe namespace behind commands that are passed through one by one.
    #[cfg(feature = "kernel")]
    NvmeIoctl(NvmeIoctlQueue),
    /// Of an NVMe namespace behind commands that a pool of threads has passed through.
    #[cfg(feature = "kernel")]
    NvmeThreads(ThreadsQueue<NvmeTarget>),
    /// Of a file or block device behind synchronous system calls.
    #[cfg(feature = "kernel")]
    Psync(PsyncQueue),
    /// Of blocks in memory.
    Ram(RamQueue),
    /// Of a controller at a TCP address.
    #[cfg(feature = "tcp")]
    Tcp(Box<TcpQueue>),
    /// Of a subsystem at several TCP addresses.
    #[cfg(feature = "tcp")]
    TcpPaths(Box<TcpPathsQueue>),
    /// Of a file or block device behind a pool of threads.
    #[cfg(feature = "kernel")]
    Threads(ThreadsQueue<Target>),
    /// Of a backend that is not this library's.
    Other(Box<dyn BackendQueue>),
}

/// The same words for every kind of queue.
macro_rules! each {
    ($queue:expr, $one:ident => $what:expr) => {
        match $queue {
            #[cfg(feature = "embedded")]
            QueueKind::Embedded($one) => $what,
            #[cfg(feature = "vfio")]
            QueueKind::VfioUser($one) => $what,
            #[cfg(feature = "vfio")]
            QueueKind::Vfio($one) => $what,
            QueueKind::Nil($one) => $what,
            #[cfg(feature = "kernel")]
            QueueKind::Libaio($one) => $what,
            #[cfg(feature = "kernel")]
            QueueKind::PosixAio($one) => $what,
            #[cfg(feature = "kernel")]
            QueueKind::IoUring($one) => $what,
            #[cfg(feature = "kernel")]
            QueueKind::IoUringCmd($one) => $what,
            #[cfg(feature = "kernel")]
            QueueKind::NvmeIoctl($one) => $what,
            #[cfg(feature = "kernel")]
            QueueKind::NvmeThreads($one) => $what,
            #[cfg(feature = "kernel")]
            QueueKind::Psync($one) => $what,
            QueueKind::Ram($one) => $what,
            #[cfg(feature = "tcp")]
            QueueKind::Tcp($one) => $what,
            #[cfg(feature = "tcp")]
            QueueKind::TcpPaths($one) => $what,
            #[cfg(feature = "kernel")]
            QueueKind::Threads($one) => $what,
            QueueKind::Other($one) => $what,
        }
    };
}

/// Evaluates one expression for queues of this library's NVMe driver, and another for all other queues.
macro_rules! by_driver {
    ($queue:expr, $one:ident => $what:expr, $other:pat => $else:expr) => {
        match $queue {
            #[cfg(feature = "embedded")]
            $crate::calls::QueueKind::Embedded($one) => $what,
            #[cfg(feature = "vfio")]
            $crate::calls::QueueKind::VfioUser($one) => $what,
            #[cfg(feature = "vfio")]
            $crate::calls::QueueKind::Vfio($one) => $what,
            $other => $else,
        }
    };
}
pub(crate) use by_driver;

impl Queue {
    /// A queue of any backend, a program's own among them.
    pub fn other(queue: impl BackendQueue + 'static) -> Self {
        Self(QueueKind::Other(Box::new(queue)).into())
    }

    /// Which device it is of.
    #[must_use]
    pub fn kind(&self) -> &QueueKind {
        &self.0
    }

    /// The same, for calls by the kind's own functions.
    #[inline(always)]
    pub(crate) fn kind_mut(&mut self) -> &mut QueueKind {
        &mut self.0
    }

    /// Refuses a call in a forked child.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`](byway_core::ErrorKind::Denied).
    #[inline(always)]
    pub fn check_owner(&self) -> Result<()> {
        check_owner(self.0.owner())
    }

    /// Most bytes that its ring has room for behind a command, of a queue whose payloads travel there (`inline`).
    #[must_use]
    pub fn ring_payload_bytes(&self) -> Option<usize> {
        by_driver!(self.kind(),
            // Of a ring, one slot stays free and one is the command's.
            queue => (queue.method() == Method::Inline)
                .then(|| queue.ring_entries().saturating_sub(2) as usize * COMMAND_BYTES),
            _ => None)
    }

    /// As [`BackendQueue::submit`], of a command that is put together where it is taken: a queue that costs no more than its
    /// call takes the parts, and no command is ever whole in memory.
    ///
    /// # Errors
    /// As [`BackendQueue::submit`].
    #[inline(always)]
    pub fn submit_with(&mut self, tag: u64, command: impl FnOnce() -> Command) -> Result<(), Refused> {
        if let Err(error) = self.check_owner() {
            return Err(Refused { command: command(), error });
        }
        match self.kind_mut() {
            QueueKind::Nil(queue) => queue.submit(command(), tag),
            #[cfg(feature = "kernel")]
            QueueKind::IoUring(queue) => queue.submit(command(), tag),
            #[cfg(feature = "kernel")]
            QueueKind::Libaio(queue) => queue.submit(command(), tag),
            other => other.submit_to_device(command(), tag, None),
        }
    }

    /// As [`BackendQueue::alone`], of a command that is put together where it is taken.
    ///
    /// # Errors
    /// As [`BackendQueue::alone`].
    #[inline(always)]
    pub fn alone_with(&mut self, command: impl FnOnce() -> Command) -> Result<Outcome, Failed> {
        if let Err(error) = self.check_owner() {
            return Err(Refused { command: command(), error }.into());
        }
        match self.kind_mut() {
            QueueKind::Nil(queue) => queue.alone_with(command),
            #[cfg(feature = "kernel")]
            QueueKind::Psync(queue) => queue.alone(command()),
            other => other.alone_on_device(command(), None),
        }
    }
}

impl QueueKind {
    #[inline(never)]
    fn alone_on_device(&mut self, command: Command, limit: Option<Duration>) -> Result<Outcome, Failed> {
        each!(self, queue => queue.alone_within(command, limit))
    }

    #[inline(never)]
    fn submit_to_device(
        &mut self,
        command: Command,
        tag: u64,
        limit: Option<Duration>,
    ) -> Result<(), Refused> {
        each!(self, queue => queue.submit_within(command, tag, limit))
    }

    #[inline(never)]
    fn next_of_device_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        each!(self, queue => queue.next_within(timeout))
    }

    #[inline(never)]
    fn next_of_device(&mut self) -> Result<Option<Finished>> {
        each!(self, queue => queue.next_finished())
    }
}

impl<T> From<T> for Queue
where
    QueueKind: From<T>,
{
    fn from(queue: T) -> Self {
        Self(QueueKind::from(queue).into())
    }
}

#[cfg(feature = "embedded")]
impl From<EmbeddedQueue> for QueueKind {
    fn from(queue: EmbeddedQueue) -> Self {
        Self::Embedded(Box::new(queue))
    }
}

#[cfg(feature = "vfio")]
impl From<VfioUserQueue> for QueueKind {
    fn from(queue: VfioUserQueue) -> Self {
        Self::VfioUser(Box::new(queue))
    }
}

#[cfg(feature = "vfio")]
impl From<VfioQueue> for QueueKind {
    fn from(queue: VfioQueue) -> Self {
        Self::Vfio(Box::new(queue))
    }
}

impl From<NilQueue> for QueueKind {
    fn from(queue: NilQueue) -> Self {
        Self::Nil(queue)
    }
}

#[cfg(feature = "kernel")]
impl From<IoUringQueue> for QueueKind {
    fn from(queue: IoUringQueue) -> Self {
        Self::IoUring(Box::new(queue))
    }
}

#[cfg(feature = "kernel")]
impl From<IoUringCmdQueue> for QueueKind {
    fn from(queue: IoUringCmdQueue) -> Self {
        Self::IoUringCmd(Box::new(queue))
    }
}

#[cfg(feature = "kernel")]
impl From<NvmeIoctlQueue> for QueueKind {
    fn from(queue: NvmeIoctlQueue) -> Self {
        Self::NvmeIoctl(queue)
    }
}

#[cfg(feature = "kernel")]
impl From<PsyncQueue> for QueueKind {
    fn from(queue: PsyncQueue) -> Self {
        Self::Psync(queue)
    }
}

impl From<RamQueue> for QueueKind {
    fn from(queue: RamQueue) -> Self {
        Self::Ram(queue)
    }
}

#[cfg(feature = "tcp")]
impl From<TcpQueue> for QueueKind {
    fn from(queue: TcpQueue) -> Self {
        Self::Tcp(Box::new(queue))
    }
}

#[cfg(feature = "tcp")]
impl From<TcpPathsQueue> for QueueKind {
    fn from(queue: TcpPathsQueue) -> Self {
        Self::TcpPaths(Box::new(queue))
    }
}

#[cfg(feature = "kernel")]
impl From<ThreadsQueue<Target>> for QueueKind {
    fn from(queue: ThreadsQueue<Target>) -> Self {
        Self::Threads(queue)
    }
}

#[cfg(feature = "kernel")]
impl From<ThreadsQueue<NvmeTarget>> for QueueKind {
    fn from(queue: ThreadsQueue<NvmeTarget>) -> Self {
        Self::NvmeThreads(queue)
    }
}

#[cfg(feature = "kernel")]
impl From<LibaioQueue> for QueueKind {
    fn from(queue: LibaioQueue) -> Self {
        Self::Libaio(Box::new(queue))
    }
}

#[cfg(feature = "kernel")]
impl From<PosixAioQueue> for QueueKind {
    fn from(queue: PosixAioQueue) -> Self {
        Self::PosixAio(Box::new(queue))
    }
}

impl BackendQueue for Queue {
    #[inline]
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        if let Err(error) = self.check_owner() {
            return Err(Refused { command, error });
        }
        match self.kind_mut() {
            QueueKind::Nil(queue) => queue.submit_within(command, tag, limit),
            other => other.submit_to_device(command, tag, limit),
        }
    }

    fn start(&mut self) -> Result<()> {
        self.check_owner()?;
        each!(self.kind_mut(), queue => queue.start())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_owner()?;
        each!(self.kind_mut(), queue => queue.event())
    }

    fn submit_all(&mut self, commands: &mut impl Iterator<Item = (Command, u64)>) -> Result<(), Refused> {
        if let Err(error) = self.check_owner() {
            return commands.next().map_or(Ok(()), |(command, _)| Err(Refused { command, error }));
        }
        each!(self.kind_mut(), queue => queue.submit_all(commands))
    }

    #[inline(always)]
    fn next_finished(&mut self) -> Result<Option<Finished>> {
        self.check_owner()?;
        match self.kind_mut() {
            // What there is to do is less than a call costs.
            QueueKind::Nil(queue) => queue.next_finished(),
            other => other.next_of_device(),
        }
    }

    #[inline]
    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        self.check_owner()?;
        match self.kind_mut() {
            // Without a device there is nothing to sleep for.
            QueueKind::Nil(queue) => queue.next_finished(),
            // These match the completion where it is found, so that it is never copied whole.
            #[cfg(feature = "kernel")]
            QueueKind::IoUring(queue) => queue.next_within(timeout),
            #[cfg(feature = "kernel")]
            QueueKind::Libaio(queue) => queue.next_within(timeout),
            other => other.next_of_device_within(timeout),
        }
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        self.check_owner()?;
        each!(self.kind_mut(), queue => queue.cancel(tag))
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        each!(self.kind(), queue => queue.outstanding())
    }

    #[inline]
    fn depth(&self) -> u32 {
        each!(self.kind(), queue => queue.depth())
    }

    fn explained(&self, error: Error) -> Error {
        if self.check_owner().is_err() {
            return error;
        }
        each!(self.kind(), queue => queue.explained(error))
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        self.check_owner()?;
        each!(self.kind_mut(), queue => queue.execute(command))
    }

    fn alone_within(&mut self, command: Command, limit: Option<Duration>) -> Result<Outcome, Failed> {
        if let Err(error) = self.check_owner() {
            return Err(Refused { command, error }.into());
        }
        match self.kind_mut() {
            QueueKind::Nil(queue) => queue.alone_within(command, limit),
            other => other.alone_on_device(command, limit),
        }
    }

    fn poll(&mut self, max: usize, on: &mut impl FnMut(Finished)) -> Result<usize> {
        self.check_owner()?;
        each!(self.kind_mut(), queue => queue.poll(max, on))
    }

    fn wait(&mut self, min: usize, timeout: Duration, on: &mut impl FnMut(Finished)) -> Result<usize> {
        self.check_owner()?;
        each!(self.kind_mut(), queue => queue.wait(min, timeout, on))
    }

    fn drain(&mut self, on: &mut impl FnMut(Finished)) -> Result<usize> {
        self.check_owner()?;
        each!(self.kind_mut(), queue => queue.drain(on))
    }
}
