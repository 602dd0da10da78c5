//! Placing: how operations come into the submission ring, each with its deadline behind it.

use std::io;

use io_uring::squeue::EntryMarker as _;
use io_uring::{opcode, types};

use super::buffers::BufferIndex;
use super::deadline::Deadline;
use super::operation::Asked;
use super::ring::{NO_OPERATION, Uring};
use crate::lent::KernelMemory;

/// What an entry says of an operation, beside where its memory is.
pub(super) struct Asking<O> {
    pub operation: O,
    /// Bytes of the memory that were moved.
    pub done: usize,
    pub buffer: Option<BufferIndex>,
    /// What its completion is called.
    pub name: u64,
    pub until: Option<Deadline>,
}

/// What the completion of the operation in a place is called, among those that had the place.
#[inline(always)]
pub(super) fn name_of(serial: u32, index: u32) -> u64 {
    u64::from(serial) << 32 | u64::from(index)
}

impl<H: KernelMemory, T: Copy, O: Asked> Uring<H, T, O> {
    /// Puts an operation's entry in the submission ring, or among those that wait for room there.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, index: u32) {
        if !self.place(index) {
            self.enqueue_once_there_is_room(index);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn enqueue_once_there_is_room(&mut self, index: u32) {
        if self.make_room().is_err() || !self.place(index) {
            self.waiting.push(index);
        }
    }

    #[cold]
    pub(super) fn make_room(&mut self) -> io::Result<()> {
        self.enter(0, None)?;
        if self.sqpoll {
            self.ring.submitter().squeue_wait()?;
        }
        Ok(())
    }

    /// Puts an operation's entry in the submission ring, with its timeout's; says whether there was room.
    #[inline(always)]
    fn place(&mut self, index: u32) -> bool {
        let Some(job) = self.jobs.get(index as usize) else { return true };
        let Some(operation) = job.operation else { return true };
        let name = name_of(job.serial, index);
        let asked = Asking { operation, done: job.done, buffer: job.buffer, name, until: job.until };
        self.place_asked(index, asked)
    }

    #[inline(always)]
    pub(super) fn place_asked(&mut self, index: u32, asked: Asking<O>) -> bool {
        let Asking { operation, done, buffer, name, until } = asked;
        let Some(memory) = self.table.extent(index, done) else { return true };
        let mut entry = operation.entry(self.entered, memory, done, buffer.map(|buffer| buffer.0));
        entry.set_user_data(name);
        if let Some(until) = until {
            return self.place_timed(index, until, entry);
        }
        if self.kept.as_ref().is_some_and(|kept| !kept.has_room(1)) {
            return false;
        }
        let mut submission = self.ring.submission();
        // SAFETY: the memory that the entry names is an operation's in the table, and stays there until the operation's
        // completion was reaped, or for ever; so does the array of its pieces. The file is registered or kept open.
        let placed = unsafe { submission.push(&entry) }.is_ok();
        if let Some(kept) = self.kept.as_mut().filter(|_| placed) {
            kept.keep(index);
        }
        placed
    }

    fn place_timed(&mut self, index: u32, until: Deadline, entry: O::Entry) -> bool {
        let Some(time) = self.table.control(index) else { return true };
        let timeout = opcode::LinkTimeout::new(time.as_ptr()).flags(types::TimeoutFlags::ABS).build();
        if self.kept.as_ref().is_some_and(|kept| !kept.has_room(2)) {
            return false;
        }
        let mut submission = self.ring.submission();
        if submission.capacity() - submission.len() < 2 {
            return false;
        }
        // SAFETY: the place is this operation's, which the kernel does not know of yet, so that nothing reads the time; it
        // stays as it is until the operation is done. The rest is as in `place`.
        let placed = unsafe {
            time.write(until.timespec());
            submission.push_multiple(&[O::linked(entry), timeout.user_data(NO_OPERATION).into()]).is_ok()
        };
        if let Some(kept) = self.kept.as_mut().filter(|_| placed) {
            kept.keep(index);
            kept.pass();
        }
        placed
    }

    #[cold]
    pub(super) fn place_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let placed = waiting.iter().take_while(|index| self.place(**index)).count();
        waiting.drain(..placed);
        self.waiting = waiting;
    }
}
