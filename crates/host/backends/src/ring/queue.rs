//! A queue whose commands the kernel works on.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use byway_core::{
    BackendQueue, Buffer, BufferPool, Command, Error, ErrorKind, Failed, Finished, Memory, Outcome,
    QueueOptions, Refused, Result,
};
use byway_link::Method;
use byway_sys::Deadline;
use byway_sys::uring::{Asked, BufferIndex, Completed, Uring};

use super::boundary::{Ring, RingDevice, Step, Ticket, buffer_of, cancelled};
use super::buffers::registered;
use crate::psync::queue::{full, not_outstanding};

/// How long a synchronous call waits for a command that it has given up.
const GRACE: Duration = Duration::from_secs(1);

/// The kernel's ring for a device.
pub type KernelRing<D> = Uring<Memory, Ticket<<D as RingDevice>::Request>, <D as RingDevice>::Operation>;

/// A command that has ended, and how.
type Ended<D> = (Ticket<<D as RingDevice>::Request>, Result<Outcome, Failed>);

/// A queue whose commands the kernel works on.
pub struct RingQueue<D: RingDevice, R = KernelRing<D>> {
    device: Arc<D>,
    known: D::Known,
    ring: R,
    /// What the ring has no operation for, to be done by the caller's thread.
    by_call: VecDeque<(Ticket<D::Request>, Memory)>,
    /// What has finished and was not taken.
    ready: VecDeque<Finished>,
    pool: Option<BufferPool>,
    depth: u32,
    timeout: Duration,
    method: Method,
    iopoll: bool,
    /// Synchronous calls made, and how many of their commands are under way.
    calls: u64,
    calls_under_way: u32,
}

impl<D: RingDevice, R: Ring<Ticket<D::Request>, D::Operation>> RingQueue<D, R> {
    /// A queue of `device` whose commands `ring` carries, which has room for one more than the queue is deep; buffers of
    /// `pool` are registered with it, and with `iopoll` completions are polled for.
    pub fn new(
        device: Arc<D>,
        ring: R,
        pool: Option<BufferPool>,
        options: QueueOptions,
        iopoll: bool,
    ) -> Self {
        Self {
            known: device.known(),
            device,
            ring,
            by_call: VecDeque::new(),
            ready: VecDeque::new(),
            pool,
            depth: options.depth.commands(),
            timeout: options.timeout,
            method: options.transfer,
            iopoll,
            calls: 0,
            calls_under_way: 0,
        }
    }

    #[inline(always)]
    fn take(&mut self, command: Command, tag: u64, timeout: Option<Duration>) -> Result<(), Refused> {
        if self.outstanding() >= self.depth {
            return Err(Refused { command, error: full(self.depth) });
        }
        let Self { device, known, ring, pool, .. } = self;
        let register = |buffer: Option<&Buffer>| register(ring, pool.as_ref(), buffer);
        let (request, memory, buffer) = device.take(known, command, register)?;
        let request = self.device.by(request, self.method);
        let (request, until) = match timeout {
            Some(timeout) => self.device.given_up_after(request, timeout),
            None => (request, None),
        };
        let ticket = Ticket { tag, call: false, request, parts: 0, until };
        self.begin_or_keep(ticket, memory, buffer);
        Ok(())
    }

    /// Gives a command to the ring, or keeps it for the caller's thread to do.
    #[inline(always)]
    pub(crate) fn begin_or_keep(
        &mut self,
        ticket: Ticket<D::Request>,
        memory: Memory,
        buffer: Option<BufferIndex>,
    ) {
        if let Err(kept) = self.begin(ticket, memory, buffer) {
            self.by_call.push_back(kept);
        }
    }

    /// Gives a command to the ring.
    ///
    /// # Errors
    /// It is given back if the ring has no operation for it, or no place.
    #[inline(always)]
    fn begin(
        &mut self,
        mut ticket: Ticket<D::Request>,
        memory: Memory,
        buffer: Option<BufferIndex>,
    ) -> Result<(), (Ticket<D::Request>, Memory)> {
        let operation = self.device.first_operation(&mut ticket, &memory);
        // A ring that polls takes what has completions to be polled for alone.
        match operation.filter(|operation| !self.iopoll || operation.can_be_polled()) {
            Some(operation) => {
                let pushed = self.ring.push(memory, ticket, operation, buffer, ticket.until);
                pushed.map_err(|memory| (ticket, memory))
            }
            None => Err((ticket, memory)),
        }
    }

    /// The next command of the ring that has finished, of those that the kernel has completed.
    #[inline(always)]
    fn reap(&mut self) -> Option<Finished> {
        loop {
            let completed = self.ring.reap()?;
            if let Some(finished) = self.finish(completed) {
                return Some(finished);
            }
        }
    }

    /// A completion as a finished command; nothing if the command goes on, or a call that waited for it has given up.
    #[inline(always)]
    fn finish(&mut self, completed: Completed<Memory, Ticket<D::Request>>) -> Option<Finished> {
        let (ticket, result) = self.step(completed)?;
        if ticket.call {
            return None;
        }
        Some(Finished { tag: ticket.tag, result })
    }

    /// A completion as the end of a command or a call; nothing if it goes on.
    #[inline(always)]
    fn step(&mut self, completed: Completed<Memory, Ticket<D::Request>>) -> Option<Ended<D>> {
        match self.device.step(completed) {
            Step::Finished(ticket, result) => {
                self.calls_under_way -= u32::from(ticket.call);
                Some((ticket, result))
            }
            Step::Next(ticket, memory, operation) => {
                // Its place is free again.
                let pushed = self.ring.push(memory, ticket, operation, None, ticket.until);
                let memory = pushed.err()?;
                Some((ticket, self.device.run(ticket.request, memory)))
            }
        }
    }

    /// Does one command that the ring has no operation for, while the kernel works on the others.
    #[inline]
    fn do_by_call(&mut self) -> Result<Option<Finished>> {
        if self.by_call.is_empty() {
            return Ok(None);
        }
        self.ring.start().map_err(ring_failed)?;
        let Some((ticket, memory)) = self.by_call.pop_front() else { return Ok(None) };
        let result = self.device.run(ticket.request, memory);
        Ok(Some(Finished { tag: ticket.tag, result }))
    }

    /// The next finished command that is there without entering the kernel for it.
    #[inline(always)]
    fn reaped(&mut self) -> Result<Option<Finished>> {
        if !self.ready.is_empty() {
            return Ok(self.ready.pop_front());
        }
        match self.reap() {
            Some(finished) => Ok(Some(finished)),
            None => self.do_by_call(),
        }
    }

    /// The next finished command, by one system call, which begins what was submitted too; and by none where one is there.
    #[inline(never)]
    fn next_reaped_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        if let Some(finished) = self.reaped()? {
            return Ok(Some(finished));
        }
        let end = Deadline::after(timeout);
        let mut left = end.whole();
        while self.outstanding() > 0 {
            self.ring.sleep(1, left).map_err(ring_failed)?;
            if let Some(finished) = self.reaped()? {
                return Ok(Some(finished));
            }
            left = end.left();
            if left == Some(Duration::ZERO) {
                break;
            }
        }
        Ok(None)
    }

    /// Waits for the command of a synchronous call. Completions of others stay in the queue.
    fn wait_for(&mut self, call: u64) -> Result<Outcome> {
        let end = Deadline::after(self.timeout);
        let mut left = end.whole();
        let mut given_up = false;
        loop {
            self.ring.sleep(1, left).map_err(ring_failed)?;
            while let Some(completed) = self.ring.reap() {
                let Some((ticket, result)) = self.step(completed) else { continue };
                match result {
                    result if !ticket.call => self.ready.push_back(Finished { tag: ticket.tag, result }),
                    Err(_) if given_up && ticket.tag == call => return Err(gave_up(self.timeout)),
                    result if ticket.tag == call => return Ok(result?),
                    _ => {}
                }
            }
            left = if given_up { end.left_and(GRACE) } else { end.left() };
            if left == Some(Duration::ZERO) && given_up {
                return Err(gave_up(self.timeout));
            }
            if left == Some(Duration::ZERO) {
                given_up = true;
                left = Some(GRACE);
                self.ring.cancel(|ticket| ticket.call && ticket.tag == call).map_err(ring_failed)?;
            }
        }
    }

    fn cancel_by_call(&mut self, tag: u64) -> bool {
        let Some(index) = self.by_call.iter().position(|(ticket, _)| ticket.tag == tag) else { return false };
        if let Some((_, memory)) = self.by_call.remove(index) {
            self.ready.push_back(Finished { tag, result: Err(Failed::with_memory(cancelled(), memory)) });
            self.ring.raise();
        }
        true
    }
}

impl<D: RingDevice, R: Ring<Ticket<D::Request>, D::Operation>> BackendQueue for RingQueue<D, R> {
    #[inline(always)]
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        if self.iopoll && limit.is_some() {
            let said = "a command whose completion is polled for cannot be given up (iopoll)";
            return Err(Refused { command, error: Error::host(ErrorKind::Unsupported, said) });
        }
        self.take(command, tag, limit)
    }

    fn start(&mut self) -> Result<()> {
        self.ring.start().map_err(ring_failed)?;
        while let Some(finished) = self.do_by_call()? {
            self.ready.push_back(finished);
            self.ring.raise();
        }
        Ok(())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        if self.iopoll {
            let said =
                "completions that are polled for wake no sleeper: there is no descriptor for them (iopoll)";
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        if !self.ready.is_empty() {
            self.ring.raise();
        }
        self.ring.event().map_err(|cause| Error::kernel("no descriptor for completions", cause))
    }

    #[inline]
    fn next_finished(&mut self) -> Result<Option<Finished>> {
        if let Some(finished) = self.reaped()? {
            return Ok(Some(finished));
        }
        while let Some(completed) = self.ring.next_completed().map_err(ring_failed)? {
            if let Some(finished) = self.finish(completed) {
                return Ok(Some(finished));
            }
        }
        Ok(None)
    }

    #[inline(always)]
    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        if self.ready.is_empty()
            && let Some(finished) = self.reap()
        {
            return Ok(Some(finished));
        }
        self.next_reaped_within(timeout)
    }

    /// Begins what was submitted and waits for completions by one system call.
    #[inline]
    fn wait(&mut self, min: usize, timeout: Duration, on: &mut impl FnMut(Finished)) -> Result<usize> {
        let end = Deadline::after(timeout);
        let mut entered = false;
        let mut taken = 0;
        loop {
            while let Some(finished) = self.ready.pop_front().or_else(|| self.reap()) {
                on(finished);
                taken += 1;
            }
            while let Some(finished) = self.do_by_call()? {
                on(finished);
                taken += 1;
            }
            let outstanding = self.outstanding();
            if taken >= min || outstanding == 0 {
                break;
            }
            let left = if entered { end.left() } else { end.whole() };
            if entered && left == Some(Duration::ZERO) {
                break;
            }
            let more = u32::try_from(min - taken).unwrap_or(u32::MAX).min(outstanding);
            self.ring.sleep(more, left).map_err(ring_failed)?;
            entered = true;
        }
        self.ring.start().map_err(ring_failed)?;
        Ok(taken)
    }

    #[inline]
    fn drain(&mut self, on: &mut impl FnMut(Finished)) -> Result<usize> {
        let mut taken = 0;
        while self.outstanding() > 0 {
            taken += self.wait(1, Duration::MAX, on)?;
        }
        Ok(taken)
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        if self.iopoll {
            let said = format!("command {tag} cannot be cancelled: its completion is polled for (iopoll)");
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        if self.ready.iter().any(|finished| finished.tag == tag) || self.cancel_by_call(tag) {
            return Ok(());
        }
        let found = self.ring.cancel(|ticket| !ticket.call && ticket.tag == tag).map_err(ring_failed)?;
        if found { Ok(()) } else { Err(not_outstanding(tag)) }
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.ring.under_way() - self.calls_under_way + self.by_call.len() as u32 + self.ready.len() as u32
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        let request = self.device.request_of(&mut self.known, &command)?;
        let request = self.device.by(request, self.method);
        let buffer = register(&mut self.ring, self.pool.as_ref(), buffer_of(&command))?;
        self.calls += 1;
        let ticket = Ticket { tag: self.calls, call: true, request, parts: 0, until: None };
        match self.begin(ticket, command.into_memory(), buffer) {
            Ok(()) => {
                self.calls_under_way += 1;
                self.wait_for(ticket.tag)
            }
            Err((ticket, memory)) => Ok(self.device.run(ticket.request, memory)?),
        }
    }
}

/// Has the kernel know a command's buffer, if it comes from the backend's pool.
#[inline]
fn register<T: Copy, O: Asked>(
    ring: &mut impl Ring<T, O>,
    pool: Option<&BufferPool>,
    buffer: Option<&Buffer>,
) -> Result<Option<BufferIndex>> {
    let Some(pool) = pool else { return Ok(None) };
    let Some(buffer) = buffer.and_then(|buffer| registered(buffer, pool)) else { return Ok(None) };
    ring.register(buffer).map_err(|cause| {
        let said = "registering a buffer failed; the memory that may be locked limits how many can be";
        Error::kernel(said, cause)
    })
}

#[cold]
fn ring_failed(cause: io::Error) -> Error {
    if cause.kind() == io::ErrorKind::AlreadyExists {
        return Error::kernel("the queue was opened for one thread, and another uses it (one_thread)", cause);
    }
    Error::kernel("the io_uring failed", cause)
}

#[cold]
fn gave_up(timeout: Duration) -> Error {
    Error::host(ErrorKind::TimedOut, format!("the command did not finish within {timeout:?}"))
}

impl<D: RingDevice, R> fmt::Debug for RingQueue<D, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RingQueue")
            .field("depth", &self.depth)
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}
