//! A queue whose commands are finished when they are submitted.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use byway_core::{Answer, BackendQueue, Buffer, Buffers, Command, Finished, Outcome, Refused, Result};

use crate::psync::queue::{full, not_outstanding};
use crate::ready::Bell;
use crate::request::Request;
use crate::target::Shape;
use crate::work;

/// A queue whose commands are finished when they are submitted.
#[derive(Debug)]
pub struct NilQueue {
    shape: Shape,
    /// What was submitted and not taken yet: smaller than what it finishes as, which is made where it is taken.
    done: VecDeque<Done>,
    depth: u32,
    bell: Bell,
}

#[derive(Debug)]
struct Done {
    tag: u64,
    buffer: Option<Buffer>,
    vector: Buffers,
}

impl NilQueue {
    pub(crate) fn new(shape: Shape, depth: u32) -> Self {
        Self { shape, done: VecDeque::with_capacity(depth as usize), depth, bell: Bell::default() }
    }
}

impl BackendQueue for NilQueue {
    #[inline(always)]
    fn submit(&mut self, command: Command, tag: u64) -> Result<(), Refused> {
        if self.done.len() >= self.depth as usize {
            return Err(Refused { command, error: full(self.depth) });
        }
        let (_, memory, ()) = Request::take(command, &self.shape, |_| Ok(()))?;
        let (buffer, vector) = memory.into_buffers();
        self.done.push_back(Done { tag, buffer, vector });
        self.bell.ring();
        Ok(())
    }

    fn submit_within(&mut self, command: Command, tag: u64, _: Duration) -> Result<(), Refused> {
        self.submit(command, tag)
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        self.bell.event(!self.done.is_empty())
    }

    #[inline(always)]
    fn next_finished(&mut self) -> Result<Option<Finished>> {
        let Some(Done { tag, buffer, vector }) = self.done.pop_front() else {
            self.bell.hush();
            return Ok(None);
        };
        let answer = Answer { commands: 1, ..Answer::default() };
        Ok(Some(Finished { tag, result: Ok(Outcome { answer, buffer, vector }) }))
    }

    fn sleep(&mut self, _: Duration) -> Result<bool> {
        Ok(!self.done.is_empty())
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        Err(not_outstanding(tag))
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.done.len() as u32
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        Request::of(&command, &self.shape)?;
        Ok(work::outcome(command.into_memory()))
    }
}
