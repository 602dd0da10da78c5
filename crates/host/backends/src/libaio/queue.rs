//! A queue whose reads, writes and flushes the kernel executes asynchronously.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{BackendQueue, Command, Error, ErrorKind, Finished, Memory, Outcome, Refused, Result};
use byway_sys::Aio;

use crate::psync::queue::{full, not_outstanding};
use crate::request::Request;
use crate::target::{Shape, Target};
use crate::ticket::{Ticket, broken, failed, taken_back, too_late, until_after};
use crate::work;

/// Commands that are gathered before they are submitted to the kernel, unless the queue is polled earlier.
const GATHERED_MAX: usize = 32;

/// A queue whose reads, writes and flushes the kernel executes asynchronously.
#[derive(Debug)]
pub struct LibaioQueue {
    aio: Aio<Memory, Ticket>,
    target: Arc<Target>,
    shape: Shape,
    /// Finished without the ring: by system calls, or given up.
    ready: VecDeque<Finished>,
    /// When the first time is over, of the gathered commands that have one.
    first_until: Option<Instant>,
    outstanding: u32,
    depth: u32,
}

impl LibaioQueue {
    pub(crate) fn new(target: Arc<Target>, depth: u32) -> Result<Self> {
        let aio = Aio::new(Arc::clone(&target) as _, depth).map_err(|cause| no_queue(depth, cause))?;
        let (shape, ready) = (target.shape(), VecDeque::new());
        Ok(Self { aio, target, shape, ready, first_until: None, outstanding: 0, depth })
    }

    #[inline(always)]
    fn take(&mut self, command: Command, tag: u64, until: Option<Instant>) -> Result<(), Refused> {
        if self.outstanding >= self.depth {
            return Err(Refused { command, error: full(self.depth) });
        }
        let (request, memory, ()) = Request::take(command, &self.shape, |_| Ok(()))?;
        self.outstanding += 1;
        let Some(transfer) = request.transfer() else {
            self.run(request, memory, tag);
            return Ok(());
        };
        if let Err(memory) = self.aio.push(memory, Ticket { tag, request, until }, transfer) {
            // The ring is as deep as the queue: it never comes to this.
            self.run(request, memory, tag);
        }
        // Until the queue is polled, at the latest until there is a batch.
        if self.aio.gathered() >= GATHERED_MAX {
            self.begin();
        }
        Ok(())
    }

    /// Does what the kernel has no operation for.
    #[cold]
    fn run(&mut self, request: Request, memory: Memory, tag: u64) {
        self.finish(Finished { tag, result: work::run(&self.target, request, memory) });
    }

    fn finish(&mut self, finished: Finished) {
        self.ready.push_back(finished);
        self.aio.raise();
    }

    /// Begins what is gathered; the next poll returns its error.
    fn begin(&mut self) {
        self.expire();
        let _ = self.aio.start();
    }

    /// Gives up what is gathered and past its time. The rest begins now.
    #[inline]
    fn expire(&mut self) {
        if let Some(first) = self.first_until {
            self.first_until = None;
            self.expire_from(first);
        }
    }

    #[cold]
    fn expire_from(&mut self, first: Instant) {
        let now = Instant::now();
        if now < first {
            return;
        }
        while let Some((memory, ticket)) = self.aio.take_back(|ticket| ticket.is_late(now)) {
            self.finish(failed(ticket.tag, too_late(), memory));
        }
    }

    /// The next finished command that is there without entering the kernel for it.
    #[inline(always)]
    fn reaped(&mut self) -> Option<Finished> {
        let finished = if self.ready.is_empty() {
            let completed = self.aio.reap()?;
            completed.ticket.ended(&self.target, completed.result, completed.held)
        } else {
            self.ready.pop_front()?
        };
        self.outstanding -= 1;
        Some(finished)
    }

    /// The next finished command, slept for.
    #[inline(never)]
    fn slept_for(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        if self.outstanding == 0 {
            return Ok(None);
        }
        self.expire();
        if self.ready.is_empty() {
            self.aio.sleep(timeout).map_err(broken)?;
        }
        Ok(self.reaped())
    }
}

#[cold]
fn no_queue(depth: u32, cause: io::Error) -> Error {
    let said = match cause.kind() {
        io::ErrorKind::WouldBlock => {
            format!("no queue of {depth} commands: the system's are spent (/proc/sys/fs/aio-max-nr)")
        }
        _ => format!("no queue of {depth} commands could be set up"),
    };
    Error::kernel(said, cause)
}

impl BackendQueue for LibaioQueue {
    #[inline(always)]
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        let until = limit.and_then(|limit| until_after(limit, &mut self.first_until));
        self.take(command, tag, until)
    }

    fn start(&mut self) -> Result<()> {
        self.expire();
        self.aio.start().map_err(broken)
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        self.aio.event().map_err(|cause| Error::kernel("no descriptor for completions", cause))
    }

    #[inline]
    fn next_finished(&mut self) -> Result<Option<Finished>> {
        if let Some(finished) = self.reaped() {
            return Ok(Some(finished));
        }
        self.expire();
        self.aio.look_again().map_err(broken)?;
        Ok(self.reaped())
    }

    #[inline(always)]
    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        match self.reaped() {
            Some(finished) => Ok(Some(finished)),
            None => self.slept_for(timeout),
        }
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        let is = |ticket: &Ticket| ticket.tag == tag;
        if let Some((memory, _)) = self.aio.take_back(is) {
            self.finish(failed(tag, taken_back(), memory));
            return Ok(());
        }
        if !self.aio.has(is) {
            return Err(not_outstanding(tag));
        }
        let said = format!("the kernel has begun command {tag}, and takes nothing back by this interface");
        Err(Error::host(ErrorKind::Unsupported, said))
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.outstanding
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        let request = Request::of(&command, &self.shape)?;
        Ok(work::run(&self.target, request, command.into_memory())?)
    }
}
