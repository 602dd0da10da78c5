//! A queue whose commands are finished when they are submitted.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use byway_core::{
    Answer, BackendQueue, Buffer, Buffers, Command, Failed, Finished, Outcome, Refused, Result,
    others_are_outstanding,
};

use crate::psync::queue::{full, not_outstanding};
use crate::ready::Notifier;
use crate::request::Request;
use crate::target::Shape;
use crate::work;

/// A queue whose commands are finished when they are submitted.
#[derive(Debug)]
pub struct NilQueue {
    shape: Shape,
    /// What was submitted and not taken yet, in a ring as long as the queue is deep: smaller than what it finishes as, which
    /// is made where it is taken. Each part is written by itself, so that none waits for a whole.
    done: Box<[Done]>,
    /// Where the oldest of them is.
    first: usize,
    /// How many there are.
    outstanding: usize,
    notifier: Notifier,
}

#[derive(Debug, Default)]
struct Done {
    tag: u64,
    buffer: Option<Buffer>,
    vector: Buffers,
}

impl NilQueue {
    pub(crate) fn new(shape: Shape, depth: u32) -> Self {
        let done = (0..depth).map(|_| Done::default()).collect();
        Self { shape, done, first: 0, outstanding: 0, notifier: Notifier::default() }
    }

    /// As [`BackendQueue::alone`], of a command that is built where it is parsed: it never is in memory whole.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn alone_with(&mut self, command: impl FnOnce() -> Command) -> Result<Outcome, Failed> {
        if self.outstanding > 0 {
            return Err(busy(command()));
        }
        let (_, memory, ()) = Request::take(command(), &self.shape, |_| Ok(()))?;
        Ok(work::outcome(memory))
    }

    /// The place so many behind the oldest, at most as many as the queue is deep.
    #[inline(always)]
    fn behind(&self, count: usize) -> usize {
        let at = self.first + count;
        if at < self.done.len() { at } else { at - self.done.len() }
    }
}

impl BackendQueue for NilQueue {
    /// Every command has finished when this returns: no time limit is ever over.
    #[inline(always)]
    fn submit_within(&mut self, command: Command, tag: u64, _: Option<Duration>) -> Result<(), Refused> {
        if self.outstanding >= self.done.len() {
            return Err(Refused { command, error: full(self.depth()) });
        }
        let (_, memory, ()) = Request::take(command, &self.shape, |_| Ok(()))?;
        let (buffer, vector) = memory.into_buffers();
        let at = self.behind(self.outstanding);
        if let Some(done) = self.done.get_mut(at) {
            done.tag = tag;
            // What was there was taken: nothing has to be dropped, and to look costs as much as to write.
            std::mem::forget(std::mem::replace(&mut done.buffer, buffer));
            std::mem::forget(std::mem::replace(&mut done.vector, vector));
            self.outstanding += 1;
        }
        if self.outstanding == 1 {
            self.notifier.ring();
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        self.notifier.event(self.outstanding > 0)
    }

    #[inline(always)]
    fn next_finished(&mut self) -> Result<Option<Finished>> {
        let next = self.behind(1);
        let Some(done) = self.done.get_mut(self.first).filter(|_| self.outstanding > 0) else {
            self.notifier.clear();
            return Ok(None);
        };
        let (tag, buffer, vector) = (done.tag, done.buffer.take(), std::mem::take(&mut done.vector));
        (self.first, self.outstanding) = (next, self.outstanding - 1);
        let answer = Answer { commands: 1, ..Answer::default() };
        Ok(Some(Finished { tag, result: Ok(Outcome { answer, buffer, vector }) }))
    }

    #[inline(always)]
    fn next_within(&mut self, _: Duration) -> Result<Option<Finished>> {
        self.next_finished()
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        Err(not_outstanding(tag))
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.outstanding as u32
    }

    fn depth(&self) -> u32 {
        self.done.len() as u32
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        Request::of(&command, &self.shape)?;
        Ok(work::outcome(command.into_memory()))
    }

    fn alone_within(&mut self, command: Command, _: Option<Duration>) -> Result<Outcome, Failed> {
        self.alone_with(|| command)
    }
}

/// For a call while others are outstanding.
#[cold]
fn busy(command: Command) -> Failed {
    Refused { command, error: others_are_outstanding() }.into()
}
