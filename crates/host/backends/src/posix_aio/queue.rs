//! A queue whose reads, writes and flushes a thread of the C library does.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{BackendQueue, Command, Error, ErrorKind, Finished, Memory, Outcome, Refused, Result};
use byway_sys::{Deadline, PosixAio, PosixAioCompleted};

use crate::psync::queue::{full, not_outstanding};
use crate::request::Request;
use crate::target::{Shape, Target};
use crate::ticket::{Ticket, broken, failed, taken_back, too_late, until_after};
use crate::work;

/// Commands that are gathered before they are passed to the C library, unless the queue is polled earlier.
const GATHERED_MAX: usize = 16;

/// A queue whose reads, writes and flushes a thread of the C library does.
#[derive(Debug)]
pub struct PosixAioQueue {
    aio: PosixAio<Memory, Ticket>,
    target: Arc<Target>,
    shape: Shape,
    /// Finished by system calls.
    ready: VecDeque<Finished>,
    /// When the first time is over, of the commands that have one.
    first_until: Option<Instant>,
    outstanding: u32,
    depth: u32,
}

impl PosixAioQueue {
    pub(crate) fn new(target: Arc<Target>, depth: u32) -> Self {
        let aio = PosixAio::new(Arc::clone(&target) as _, depth);
        let (shape, ready) = (target.shape(), VecDeque::new());
        Self { aio, target, shape, ready, first_until: None, outstanding: 0, depth }
    }

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
            // There is room for as many as the queue is deep: it never comes to this.
            self.run(request, memory, tag);
        }
        if self.aio.gathered() >= GATHERED_MAX {
            self.expire();
            self.aio.start();
        }
        Ok(())
    }

    /// Does what the C library has no operation for.
    #[cold]
    fn run(&mut self, request: Request, memory: Memory, tag: u64) {
        self.ready.push_back(Finished { tag, result: work::run(&self.target, request, memory) });
    }

    /// Asks for what is past its time to be given up.
    #[inline]
    fn expire(&mut self) {
        let Some(first) = self.first_until else { return };
        let now = Instant::now();
        if now >= first {
            self.aio.cancel(|ticket| ticket.is_late(now));
            // What was asked for once is not asked for again.
            let times = self.aio.tickets().filter_map(|ticket| ticket.until).filter(|until| now < *until);
            self.first_until = times.min();
        }
    }

    fn finished(&self, completed: PosixAioCompleted<Memory, Ticket>) -> Finished {
        let PosixAioCompleted { ticket, held, result, cancelled } = completed;
        if !cancelled {
            return ticket.ended(&self.target, result, held);
        }
        let error = if ticket.is_late(Instant::now()) { too_late() } else { taken_back() };
        failed(ticket.tag, error, held)
    }

    /// How long to sleep so that the first time that is over is noticed.
    fn until_first(&self, timeout: Duration) -> Duration {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        self.first_until.map_or(timeout, |until| timeout.min(left(until)))
    }
}

impl BackendQueue for PosixAioQueue {
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        let until = limit.and_then(|limit| until_after(limit, &mut self.first_until));
        self.take(command, tag, until)
    }

    fn start(&mut self) -> Result<()> {
        self.expire();
        self.aio.start();
        Ok(())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        let said =
            "the C library has no event descriptor for completions; wait for them, or use another backend";
        Err(Error::host(ErrorKind::Unsupported, said))
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        self.expire();
        let finished = match self.ready.pop_front() {
            Some(finished) => finished,
            None => match self.aio.next_completed() {
                Some(completed) => self.finished(completed),
                None => return Ok(None),
            },
        };
        self.outstanding -= 1;
        Ok(Some(finished))
    }

    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        let end = Deadline::after(timeout);
        loop {
            let finished = self.next_finished()?;
            if finished.is_some() || self.outstanding == 0 || end.is_over() {
                return Ok(finished);
            }
            self.aio.sleep(self.until_first(end.left_or_max())).map_err(broken)?;
        }
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        if self.aio.cancel(|ticket| ticket.tag == tag) {
            return Ok(());
        }
        Err(not_outstanding(tag))
    }

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
