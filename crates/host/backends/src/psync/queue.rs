//! A queue whose commands are finished when `submit` returns.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use byway_core::{
    BackendQueue, Command, Error, ErrorKind, Failed, Finished, Memory, Outcome, QueueOptions, Refused,
    Result, others_are_outstanding,
};

use byway_link::Method;

use crate::ready::Ready;
use crate::synchronous::Synchronous;
use crate::target::Target;

/// A queue whose commands are finished when `submit` returns.
#[derive(Debug)]
pub struct PsyncQueue<S: Synchronous = Target> {
    device: Arc<S>,
    ready: Ready,
    depth: u32,
    timeout: Duration,
    method: Method,
}

impl<S: Synchronous> PsyncQueue<S> {
    pub(crate) fn new(device: Arc<S>, options: QueueOptions) -> Self {
        let QueueOptions { depth, timeout, transfer: method, .. } = options;
        let depth = depth.commands();
        Self { device, ready: Ready::new(depth), depth, timeout, method }
    }

    #[inline]
    fn take(&mut self, command: Command, tag: u64, timeout: Option<Duration>) -> Result<(), Refused> {
        if self.ready.len() >= self.depth {
            return Err(Refused { command, error: full(self.depth) });
        }
        let (request, memory) = self.device.take(command)?;
        let result = self.perform(request, memory, timeout);
        self.ready.push(Finished { tag, result });
        Ok(())
    }

    #[inline(always)]
    fn perform(
        &self,
        request: S::Request,
        memory: Memory,
        timeout: Option<Duration>,
    ) -> Result<Outcome, Failed> {
        let request = self.device.by(request, self.method);
        let request = timeout.map_or(request, |timeout| self.device.within(request, timeout));
        self.device.perform(request, memory)
    }
}

impl<S: Synchronous> BackendQueue for PsyncQueue<S> {
    /// The command has finished when this returns. Only a device that can give up what it has begun regards its time limit.
    #[inline]
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        self.take(command, tag, limit)
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        self.ready.event()
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        Ok(self.ready.pop())
    }

    fn next_within(&mut self, _: Duration) -> Result<Option<Finished>> {
        Ok(self.ready.pop())
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        Err(not_outstanding(tag))
    }

    fn outstanding(&self) -> u32 {
        self.ready.len()
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        let request = self.device.check(&command)?;
        Ok(self.perform(request, command.into_memory(), Some(self.timeout))?)
    }

    #[inline(always)]
    fn alone_within(&mut self, command: Command, limit: Option<Duration>) -> Result<Outcome, Failed> {
        if self.ready.len() > 0 {
            return Err(Refused { command, error: others_are_outstanding() }.into());
        }
        let (request, memory) = self.device.take(command)?;
        self.perform(request, memory, limit)
    }
}

/// For a command more than a queue is deep.
#[cold]
pub(crate) fn full(depth: u32) -> Error {
    Error::host(
        ErrorKind::QueueFull,
        format!("{depth} commands are outstanding, as many as the queue is deep"),
    )
}

/// For a tag that no command under way has.
#[cold]
pub(crate) fn not_outstanding(tag: u64) -> Error {
    Error::host(ErrorKind::NotFound, format!("no command with tag {tag} is under way"))
}
