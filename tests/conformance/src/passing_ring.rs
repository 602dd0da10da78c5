//! What stands for the kernel's ring to an NVMe device: commands that it carries reach a controller in this process, when
//! the ring is entered and not before, and come back in another order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use byway_backends::io_uring_cmd::{AdminTicket, IoUringCmdAdmin, IoUringCmdQueue};
use byway_backends::nvme::{NvmeAnswer, NvmeCommand, NvmeTarget, Passage, Passed};
use byway_backends::ring::{Ring, RingQueue, Ticket};
use byway_backends::{Interface, Over, Synchronous};
use byway_core::{Capabilities, Memory, QueueOptions, Result};
use byway_sys::Wakeup;
use byway_sys::uring::{BufferIndex, Completed, Deadline, Ending, RegisteredBuffer};

use crate::passing::InProcess;
use crate::scratch::Scratch;

/// A ring to a controller in this process.
pub struct InProcessRing<T> {
    target: Arc<NvmeTarget<InProcess>>,
    depth: usize,
    /// Every third command is not sent: its memory is not found where it is.
    misreads: bool,
    begun: u32,
    pushed: VecDeque<(NvmeCommand, Memory, T)>,
    done: VecDeque<Completed<Memory, T>>,
    wakeup: Option<Wakeup>,
}

/// Such rings.
pub struct InProcessRings {
    iopoll: bool,
    misreads: bool,
}

/// The namespace of blocks behind such rings.
pub type BehindRing = Over<NvmeTarget<InProcess>, InProcessRings>;

/// The namespace of blocks behind such rings.
pub fn blocks(scratch: &Scratch) -> BehindRing {
    behind(InProcess::blocks(scratch))
}

/// The same, as where completions are polled for.
pub fn polled(scratch: &Scratch) -> BehindRing {
    rings(InProcess::blocks(scratch), InProcessRings { iopoll: true, misreads: false })
}

/// The same, as where the kernel misreads the addresses of some commands.
pub fn misread(scratch: &Scratch) -> BehindRing {
    rings(InProcess::blocks(scratch), InProcessRings { iopoll: false, misreads: true })
}

/// A node behind such rings.
pub fn behind(target: NvmeTarget<InProcess>) -> BehindRing {
    rings(target, InProcessRings { iopoll: false, misreads: false })
}

fn rings(target: NvmeTarget<InProcess>, rings: InProcessRings) -> BehindRing {
    let capabilities = Capabilities { event: !rings.iopoll, ..target.capabilities(true, false) };
    Over::with("io_uring_cmd", Arc::new(target), capabilities, rings)
}

/// Its admin commands.
pub fn admin(target: &Arc<NvmeTarget<InProcess>>) -> IoUringCmdAdmin<InProcess, InProcessRing<AdminTicket>> {
    let ring = InProcessRing::new(Arc::clone(target), IoUringCmdAdmin::DEPTH);
    IoUringCmdAdmin::new(Arc::clone(target), ring)
}

impl Interface<NvmeTarget<InProcess>> for InProcessRings {
    type Queue = IoUringCmdQueue<InProcess, InProcessRing<Ticket<Passed>>>;

    fn queue(&self, target: &Arc<NvmeTarget<InProcess>>, options: QueueOptions) -> Result<Self::Queue> {
        let mut ring = InProcessRing::new(Arc::clone(target), options.depth.commands() + 1);
        ring.misreads = self.misreads;
        Ok(RingQueue::new(Arc::clone(target), ring, None, options, self.iopoll))
    }
}

impl<T> InProcessRing<T> {
    fn new(target: Arc<NvmeTarget<InProcess>>, depth: u32) -> Self {
        let (pushed, done) = (VecDeque::new(), VecDeque::new());
        Self { target, depth: depth as usize, misreads: false, begun: 0, pushed, done, wakeup: None }
    }

    fn pass(&mut self, command: &NvmeCommand, memory: &mut Memory) -> io::Result<NvmeAnswer> {
        self.begun += 1;
        if self.misreads && self.begun.is_multiple_of(3) {
            return Err(rustix::io::Errno::FAULT.into());
        }
        self.target.passage().pass(command, memory)
    }

    fn end(&mut self, completed: Completed<Memory, T>) {
        // Neither first come nor last come.
        match self.done.len() % 2 {
            0 => self.done.push_back(completed),
            _ => self.done.push_front(completed),
        }
        if let Some(wakeup) = &self.wakeup {
            wakeup.raise();
        }
    }
}

impl<T: Copy + Send> Ring<T, NvmeCommand> for InProcessRing<T> {
    fn push(
        &mut self,
        memory: Memory,
        ticket: T,
        command: NvmeCommand,
        _: Option<BufferIndex>,
        until: Option<Deadline>,
    ) -> Result<(), Memory> {
        assert!(until.is_none(), "a device keeps a command's time");
        if self.pushed.len() + self.done.len() >= self.depth {
            return Err(memory);
        }
        self.pushed.push_back((command, memory, ticket));
        Ok(())
    }

    fn register(&mut self, _: RegisteredBuffer) -> io::Result<Option<BufferIndex>> {
        Ok(None)
    }

    fn reap(&mut self) -> Option<Completed<Memory, T>> {
        self.done.pop_front()
    }

    fn next_completed(&mut self) -> io::Result<Option<Completed<Memory, T>>> {
        if self.done.is_empty() {
            self.start()?;
        }
        if let (true, Some(wakeup)) = (self.done.is_empty(), &self.wakeup) {
            wakeup.lower();
        }
        Ok(self.reap())
    }

    fn start(&mut self) -> io::Result<()> {
        while let Some((command, mut held, ticket)) = self.pushed.pop_front() {
            let (ending, answer) = match self.pass(&command, &mut held) {
                Ok(answer) => (Ending::Done(answer.status.into()), answer.result),
                Err(cause) => (Ending::Failed(cause), 0),
            };
            self.end(Completed { held, ticket, ending, answer });
        }
        Ok(())
    }

    fn sleep(&mut self, _: u32, _: Option<Duration>) -> io::Result<()> {
        self.start()
    }

    fn cancel(&mut self, is: impl Fn(&T) -> bool) -> io::Result<bool> {
        let Some(at) = self.pushed.iter().position(|(_, _, ticket)| is(ticket)) else {
            return Ok(self.done.iter().any(|completed| is(&completed.ticket)));
        };
        if let Some((_, held, ticket)) = self.pushed.remove(at) {
            self.end(Completed { held, ticket, ending: Ending::Cancelled, answer: 0 });
        }
        Ok(true)
    }

    fn event(&mut self) -> io::Result<BorrowedFd<'_>> {
        if self.wakeup.is_none() {
            let wakeup = self.wakeup.insert(Wakeup::new()?);
            wakeup.raise();
        }
        self.wakeup.as_ref().map(AsFd::as_fd).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn raise(&self) {
        if let Some(wakeup) = &self.wakeup {
            wakeup.raise();
        }
    }

    fn under_way(&self) -> u32 {
        (self.pushed.len() + self.done.len()) as u32
    }
}
