//! A queue of a device of any kind.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use byway_backends::io_uring::IoUringQueue;
use byway_backends::io_uring_cmd::IoUringCmdQueue;
use byway_backends::libaio::LibaioQueue;
use byway_backends::nil::NilQueue;
use byway_backends::nvme_ioctl::NvmeIoctlQueue;
use byway_backends::posix_aio::PosixAioQueue;
use byway_backends::psync::PsyncQueue;
use byway_backends::ram::RamQueue;
use byway_backends::threads::ThreadsQueue;
use byway_backends::{NvmeTarget, Target};
use byway_core::{BackendQueue, Command, Error, Failed, Finished, Method, Outcome, Refused, Result};
use byway_spec::base::command::COMMAND_BYTES;
use byway_tcp_initiator::{TcpPathsQueue, TcpQueue};

use crate::any::pcie::{VfioQueue, VfioUserQueue};
use crate::embedded::EmbeddedQueue;

/// A queue of a device of any kind: each call is handed on by one match.
pub enum Queue {
    /// Of a device in this process.
    Embedded(Box<EmbeddedQueue>),
    /// Of a device that another process serves.
    VfioUser(Box<VfioUserQueue>),
    /// Of a PCIe device of this machine.
    Vfio(Box<VfioQueue>),
    /// Of no device.
    Nil(NilQueue),
    /// Of a file or block device behind the kernel's native asynchronous I/O.
    Libaio(Box<LibaioQueue>),
    /// Of a file or block device behind POSIX asynchronous I/O.
    PosixAio(Box<PosixAioQueue>),
    /// Of a file or block device behind io_uring.
    IoUring(Box<IoUringQueue>),
    /// Of an NVMe namespace behind commands that an io_uring carries.
    IoUringCmd(Box<IoUringCmdQueue>),
    /// Of an NVMe namespace behind commands that are passed through one by one.
    NvmeIoctl(NvmeIoctlQueue),
    /// Of an NVMe namespace behind commands that a pool of threads has passed through.
    NvmeThreads(ThreadsQueue<NvmeTarget>),
    /// Of a file or block device behind synchronous system calls.
    Psync(PsyncQueue),
    /// Of blocks in memory.
    Ram(RamQueue),
    /// Of a controller at a TCP address.
    Tcp(Box<TcpQueue>),
    /// Of a subsystem at several TCP addresses.
    TcpPaths(Box<TcpPathsQueue>),
    /// Of a file or block device behind a pool of threads.
    Threads(ThreadsQueue<Target>),
    /// Of a backend that is not this library's.
    Other(Box<dyn BackendQueue>),
}

/// The same words for every kind of queue.
macro_rules! each {
    ($queue:expr, $one:ident => $what:expr) => {
        match $queue {
            Queue::Embedded($one) => $what,
            Queue::VfioUser($one) => $what,
            Queue::Vfio($one) => $what,
            Queue::Nil($one) => $what,
            Queue::Libaio($one) => $what,
            Queue::PosixAio($one) => $what,
            Queue::IoUring($one) => $what,
            Queue::IoUringCmd($one) => $what,
            Queue::NvmeIoctl($one) => $what,
            Queue::NvmeThreads($one) => $what,
            Queue::Psync($one) => $what,
            Queue::Ram($one) => $what,
            Queue::Tcp($one) => $what,
            Queue::TcpPaths($one) => $what,
            Queue::Threads($one) => $what,
            Queue::Other($one) => $what,
        }
    };
}

/// What a queue of this library's own driver does by itself, whatever its device is behind, or what any other does.
macro_rules! by_driver {
    ($queue:expr, $one:ident => $what:expr, $other:pat => $else:expr) => {
        match $queue {
            $crate::any::Queue::Embedded($one) => $what,
            $crate::any::Queue::VfioUser($one) => $what,
            $crate::any::Queue::Vfio($one) => $what,
            $other => $else,
        }
    };
}
pub(crate) use by_driver;

impl Queue {
    /// A queue of any backend, a program's own among them.
    pub fn other(queue: impl BackendQueue + 'static) -> Self {
        Self::Other(Box::new(queue))
    }

    /// Most bytes that its ring has room for behind a command, of a queue whose payloads travel there (`inline`).
    #[must_use]
    pub fn ring_payload_bytes(&self) -> Option<usize> {
        by_driver!(self,
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
        match self {
            Self::Nil(queue) => queue.submit(command(), tag),
            Self::IoUring(queue) => queue.submit(command(), tag),
            Self::Libaio(queue) => queue.submit(command(), tag),
            other => other.submit_to_device(command(), tag),
        }
    }

    /// As [`BackendQueue::alone`], of a command that is put together where it is taken.
    ///
    /// # Errors
    /// As [`BackendQueue::alone`].
    #[inline(always)]
    pub fn alone_with(&mut self, command: impl FnOnce() -> Command) -> Result<Outcome, Failed> {
        match self {
            Self::Nil(queue) => queue.alone_with(command),
            Self::Psync(queue) => queue.alone(command()),
            other => other.alone_on_device(command()),
        }
    }

    #[inline(never)]
    fn alone_on_device(&mut self, command: Command) -> Result<Outcome, Failed> {
        each!(self, queue => queue.alone(command))
    }

    #[inline(never)]
    fn submit_to_device(&mut self, command: Command, tag: u64) -> Result<(), Refused> {
        each!(self, queue => queue.submit(command, tag))
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

impl From<EmbeddedQueue> for Queue {
    fn from(queue: EmbeddedQueue) -> Self {
        Self::Embedded(Box::new(queue))
    }
}

impl From<VfioUserQueue> for Queue {
    fn from(queue: VfioUserQueue) -> Self {
        Self::VfioUser(Box::new(queue))
    }
}

impl From<VfioQueue> for Queue {
    fn from(queue: VfioQueue) -> Self {
        Self::Vfio(Box::new(queue))
    }
}

impl From<NilQueue> for Queue {
    fn from(queue: NilQueue) -> Self {
        Self::Nil(queue)
    }
}

impl From<IoUringQueue> for Queue {
    fn from(queue: IoUringQueue) -> Self {
        Self::IoUring(Box::new(queue))
    }
}

impl From<IoUringCmdQueue> for Queue {
    fn from(queue: IoUringCmdQueue) -> Self {
        Self::IoUringCmd(Box::new(queue))
    }
}

impl From<NvmeIoctlQueue> for Queue {
    fn from(queue: NvmeIoctlQueue) -> Self {
        Self::NvmeIoctl(queue)
    }
}

impl From<PsyncQueue> for Queue {
    fn from(queue: PsyncQueue) -> Self {
        Self::Psync(queue)
    }
}

impl From<RamQueue> for Queue {
    fn from(queue: RamQueue) -> Self {
        Self::Ram(queue)
    }
}

impl From<TcpQueue> for Queue {
    fn from(queue: TcpQueue) -> Self {
        Self::Tcp(Box::new(queue))
    }
}

impl From<TcpPathsQueue> for Queue {
    fn from(queue: TcpPathsQueue) -> Self {
        Self::TcpPaths(Box::new(queue))
    }
}

impl From<ThreadsQueue<Target>> for Queue {
    fn from(queue: ThreadsQueue<Target>) -> Self {
        Self::Threads(queue)
    }
}

impl From<ThreadsQueue<NvmeTarget>> for Queue {
    fn from(queue: ThreadsQueue<NvmeTarget>) -> Self {
        Self::NvmeThreads(queue)
    }
}

impl From<LibaioQueue> for Queue {
    fn from(queue: LibaioQueue) -> Self {
        Self::Libaio(Box::new(queue))
    }
}

impl From<PosixAioQueue> for Queue {
    fn from(queue: PosixAioQueue) -> Self {
        Self::PosixAio(Box::new(queue))
    }
}

impl BackendQueue for Queue {
    #[inline]
    fn submit(&mut self, command: Command, tag: u64) -> Result<(), Refused> {
        match self {
            Self::Nil(queue) => queue.submit(command, tag),
            other => other.submit_to_device(command, tag),
        }
    }

    fn submit_within(&mut self, command: Command, tag: u64, timeout: Duration) -> Result<(), Refused> {
        each!(self, queue => queue.submit_within(command, tag, timeout))
    }

    fn start(&mut self) -> Result<()> {
        each!(self, queue => queue.start())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        each!(self, queue => queue.event())
    }

    fn submit_all(&mut self, commands: &mut impl Iterator<Item = (Command, u64)>) -> Result<(), Refused> {
        each!(self, queue => queue.submit_all(commands))
    }

    #[inline(always)]
    fn next_finished(&mut self) -> Result<Option<Finished>> {
        match self {
            // What there is to do is less than a call costs.
            Self::Nil(queue) => queue.next_finished(),
            other => other.next_of_device(),
        }
    }

    #[inline]
    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        match self {
            // Without a device there is nothing to sleep for.
            Self::Nil(queue) => queue.next_finished(),
            // Taken apart where it is found: it is never whole in memory.
            Self::IoUring(queue) => queue.next_within(timeout),
            Self::Libaio(queue) => queue.next_within(timeout),
            other => other.next_of_device_within(timeout),
        }
    }

    fn sleep(&mut self, timeout: Duration) -> Result<bool> {
        each!(self, queue => queue.sleep(timeout))
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        each!(self, queue => queue.cancel(tag))
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        each!(self, queue => queue.outstanding())
    }

    #[inline]
    fn depth(&self) -> u32 {
        each!(self, queue => queue.depth())
    }

    fn explained(&self, error: Error) -> Error {
        each!(self, queue => queue.explained(error))
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        each!(self, queue => queue.execute(command))
    }

    fn alone(&mut self, command: Command) -> Result<Outcome, Failed> {
        match self {
            Self::Nil(queue) => queue.alone(command),
            other => other.alone_on_device(command),
        }
    }

    fn alone_within(&mut self, command: Command, timeout: Duration) -> Result<Outcome, Failed> {
        each!(self, queue => queue.alone_within(command, timeout))
    }

    fn poll(&mut self, max: usize, on: &mut impl FnMut(Finished)) -> Result<usize> {
        each!(self, queue => queue.poll(max, on))
    }

    fn wait(&mut self, min: usize, timeout: Duration, on: &mut impl FnMut(Finished)) -> Result<usize> {
        each!(self, queue => queue.wait(min, timeout, on))
    }

    fn drain(&mut self, on: &mut impl FnMut(Finished)) -> Result<usize> {
        each!(self, queue => queue.drain(on))
    }
}
