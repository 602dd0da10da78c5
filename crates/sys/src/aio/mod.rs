//! The kernel's native asynchronous I/O over one file or block device (io_submit, io_getevents): operations go in many to
//! a system call, and completions are taken from a ring that the kernel maps into the process.
//!
//! **Ownership of memory.** The ring owns it, as for [`crate::inflight`]: the kernel cancels nothing that it has begun, so an
//! operation's memory stays in place until the kernel has completed it. A dropped ring waits for outstanding operations;
//! the memory of those that never complete is leaked.
//!
//! **Short transfers** are continued here: an operation completes once, with all bytes that could be moved.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod context;
mod gathered;

use crate::eager::Eager;
use crate::inflight::{Extent, Inflight};
use crate::lent::KernelMemory;
use crate::owner::OwnerProcess;
use crate::transfer::Transfer;
use crate::wakeup::Wakeup;

pub use context::is_there;
pub(crate) use context::{Block, Context, Event, FLAG_EVENT, PREAD};
use context::{EVENTS_MAX, FDSYNC, PREADV, PWRITE, PWRITEV};
use gathered::Gathered;

/// How long a ring that is dropped waits for what is under way.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// An operation that the kernel is done with, or that never began.
#[derive(Debug)]
pub struct AioCompleted<H, T> {
    /// Memory of the operation.
    pub held: H,
    /// The caller's word for it.
    pub ticket: T,
    /// Bytes that were moved, fewer than there is memory only at the end of the file; or the system's answer.
    pub result: io::Result<usize>,
}

/// A ring over one file. `H` is what operations hold, `T` is the caller's word for one.
pub struct Aio<H: KernelMemory, T: Copy> {
    owner: OwnerProcess,
    context: Context,
    /// Pushed operations, each with its control block.
    table: ManuallyDrop<Inflight<H, Block>>,
    /// By place in the table.
    jobs: Box<[Job<T>]>,
    /// Operations that the kernel does not know of yet.
    gathered: Gathered,
    /// Completions that a system call returned, and refusals.
    fetched: VecDeque<Event>,
    in_kernel: u32,
    /// Operations that will not make the event readable, because they were pushed before anybody asked for it.
    silent: u32,
    event: Option<Wakeup>,
    eager: Eager,
    file: Arc<dyn AsFd + Send + Sync>,
}

#[derive(Debug, Clone, Copy)]
struct Job<T> {
    ticket: Option<T>,
    operation: Transfer,
    /// Bytes of the memory, and how many of them were moved.
    wanted: usize,
    done: usize,
    silent: bool,
}

impl<H: KernelMemory, T: Copy> Aio<H, T> {
    /// A ring over `file` for `depth` operations at once.
    ///
    /// # Errors
    /// The system's answer; `WouldBlock` (EAGAIN) when the processes of this system have as many operations as
    /// `/proc/sys/fs/aio-max-nr` says.
    pub fn new(file: Arc<dyn AsFd + Send + Sync>, depth: u32) -> io::Result<Self> {
        let context = Context::new(depth)?;
        let job = Job { ticket: None, operation: Transfer::Sync, wanted: 0, done: 0, silent: false };
        Ok(Self {
            owner: OwnerProcess::current(),
            context,
            table: ManuallyDrop::new(Inflight::new(depth)),
            jobs: vec![job; depth as usize].into(),
            gathered: Gathered::new(depth),
            fetched: VecDeque::with_capacity(EVENTS_MAX),
            in_kernel: 0,
            silent: 0,
            event: None,
            eager: Eager::default(),
            file,
        })
    }

    /// Takes an operation, which begins with the next [`start`](Self::start), [`next_completed`](Self::next_completed) or
    /// [`sleep`](Self::sleep).
    ///
    /// # Errors
    /// It is given back when there are as many as the ring is deep.
    #[inline(always)]
    pub fn push(&mut self, held: H, ticket: T, operation: Transfer) -> Result<(), H> {
        let wanted = if operation == Transfer::Sync { 0 } else { held.len_bytes() };
        let index = self.table.put(held)?;
        if let Some(job) = self.jobs.get_mut(index as usize) {
            *job = Job { ticket: Some(ticket), operation, wanted, done: 0, silent: false };
        }
        self.gather(index);
        Ok(())
    }

    /// Has an operation wait for the next system call, for what is left of it.
    #[inline(always)]
    fn gather(&mut self, index: u32) {
        let Some(block) = self.describe(index) else { return };
        if self.event.is_none()
            && let Some(job) = self.jobs.get_mut(index as usize)
        {
            (job.silent, self.silent) = (true, self.silent + 1);
        }
        self.gathered.push(index, block);
    }

    /// Operations that were pushed and that the kernel does not know of yet.
    #[must_use]
    #[inline]
    pub fn gathered(&self) -> usize {
        self.gathered.len()
    }

    /// Takes an operation back that the kernel has not begun and whose ticket `is` says it is.
    pub fn take_back(&mut self, is: impl Fn(&T) -> bool) -> Option<(H, T)> {
        let ticket = |index: &u32| self.jobs.get(*index as usize).and_then(|job| job.ticket);
        // What has moved some bytes has begun.
        let begun = |index: &u32| self.jobs.get(*index as usize).is_none_or(|job| job.done > 0);
        let wanted = |index: &u32| !begun(index) && ticket(index).as_ref().is_some_and(&is);
        let index = self.gathered.remove_first(wanted)?;
        let job = self.jobs.get_mut(index as usize)?;
        self.silent -= u32::from(std::mem::take(&mut job.silent));
        let ticket = job.ticket.take()?;
        Some((self.table.take(index)?, ticket))
    }

    /// Whether an operation is under way whose ticket `is` says it is.
    pub fn has(&self, is: impl Fn(&T) -> bool) -> bool {
        self.jobs.iter().filter_map(|job| job.ticket.as_ref()).any(is)
    }

    /// Begins every operation that was pushed.
    ///
    /// # Errors
    /// The system's answer, if it is about the ring and not about an operation.
    #[inline]
    pub fn start(&mut self) -> io::Result<()> {
        while !self.gathered.is_empty() {
            match self.submit() {
                Ok(0) => break,
                Ok(_) => {}
                Err(cause) => match cause.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // Room comes with the next completion.
                    Some(libc::EAGAIN) if self.in_kernel > 0 => break,
                    // About the first of them.
                    Some(errno) => self.refuse_first(errno),
                    None => return Err(cause),
                },
            }
        }
        Ok(())
    }

    /// One system call; how many operations it began.
    #[inline]
    fn submit(&mut self) -> io::Result<usize> {
        // SAFETY: the blocks are those of places in the table, which stay where they are. The memory that a block names is an
        // operation's in the table, and stays there until the operation's completion was reaped, or for ever; so does the
        // array of its pieces. The kernel knows of none of these operations yet.
        let begun = unsafe { self.gathered.submit(&self.context)? };
        self.in_kernel += begun as u32;
        Ok(begun)
    }

    /// Writes an operation's block, for what is left of it.
    #[inline(always)]
    fn describe(&mut self, index: u32) -> Option<NonNull<Block>> {
        let job = self.jobs.get(index as usize)?;
        let extent = self.table.extent(index, job.done)?;
        let (memory, len, pieces) = match extent {
            Extent::Piece(start, len) => (start.as_ptr().expose_provenance(), len, false),
            Extent::Pieces(first, count) => (first.as_ptr().expose_provenance(), count, true),
        };
        let (opcode, at, durable) = match job.operation {
            Transfer::Read { at } => (if pieces { PREADV } else { PREAD }, at, false),
            Transfer::Write { at, durable } => (if pieces { PWRITEV } else { PWRITE }, at, durable),
            Transfer::Sync => (FDSYNC, 0, false),
        };
        let mut block = Block {
            data: index.into(),
            rw_flags: if durable { libc::RWF_DSYNC as u32 } else { 0 },
            opcode,
            file: self.file.as_fd().as_raw_fd() as u32,
            ..Block::default()
        };
        if opcode != FDSYNC {
            (block.memory, block.len) = (memory as u64, len.into());
            block.offset = (at + job.done as u64) as i64;
        }
        if let Some(event) = &self.event {
            (block.flags, block.event) = (FLAG_EVENT, event.as_fd().as_raw_fd() as u32);
        }
        let place = self.table.control(index)?;
        // SAFETY: a place of the table, whose operation the kernel does not know of: nothing else reads or writes its block.
        unsafe { place.write(block) };
        Some(place)
    }

    #[cold]
    fn refuse_first(&mut self, errno: i32) {
        let Some(index) = self.gathered.remove_first(|_| true) else { return };
        self.in_kernel += 1;
        self.fetched.push_back(Event::refusal(index, errno));
    }

    /// The next operation that is done. Begins those that were pushed when none is there.
    ///
    /// # Errors
    /// The system's answer.
    #[inline]
    pub fn next_completed(&mut self) -> io::Result<Option<AioCompleted<H, T>>> {
        if let Some(completed) = self.reap() {
            return Ok(Some(completed));
        }
        self.look_again()?;
        Ok(self.reap())
    }

    /// For who has found nothing: makes the event unreadable, and begins every operation that was pushed.
    ///
    /// # Errors
    /// The system's answer.
    #[inline]
    pub fn look_again(&mut self) -> io::Result<()> {
        if self.event.is_some() {
            self.lower();
        }
        self.start()
    }

    /// Makes the event unreadable, unless something can complete without making it readable.
    #[cold]
    fn lower(&mut self) {
        if let Some(event) = self.event.as_ref().filter(|_| self.silent == 0) {
            event.lower();
        }
    }

    /// The next operation that is done, of those that the kernel has completed.
    ///
    /// Nothing begins by it.
    #[inline(always)]
    pub fn reap(&mut self) -> Option<AioCompleted<H, T>> {
        loop {
            if self.in_kernel == 0 {
                return None;
            }
            let event = if self.fetched.is_empty() {
                self.context.next(&mut self.fetched)?
            } else {
                self.fetched.pop_front()?
            };
            self.in_kernel -= 1;
            let index = event.data as u32;
            if let Some(result) = self.settle(index, event.result)
                && let Some(ticket) = self.jobs.get_mut(index as usize).and_then(|job| job.ticket.take())
                && let Some(held) = self.table.take(index)
            {
                return Some(AioCompleted { held, ticket, result });
            }
        }
    }

    /// What a completion means for the operation in this place; nothing if it goes on.
    #[inline(always)]
    fn settle(&mut self, index: u32, result: i64) -> Option<io::Result<usize>> {
        let job = self.jobs.get_mut(index as usize)?;
        self.silent -= u32::from(std::mem::take(&mut job.silent));
        if job.done == 0 && result == job.wanted as i64 {
            return Some(Ok(job.wanted));
        }
        self.settle_part(index, result)
    }

    /// The same, of a transfer that did not go as a whole.
    #[cold]
    fn settle_part(&mut self, index: u32, result: i64) -> Option<io::Result<usize>> {
        let job = self.jobs.get_mut(index as usize)?;
        if let Ok(moved) = usize::try_from(result) {
            job.done += moved;
            if moved == 0 || job.done >= job.wanted {
                return Some(Ok(job.done));
            }
        } else if result != -i64::from(libc::EINTR) {
            return Some(Err(io::Error::from_raw_os_error(-result as i32)));
        }
        self.gather(index);
        None
    }

    /// Whether the kernel has posted a completion that was not taken.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        self.in_kernel > 0 && (!self.fetched.is_empty() || self.context.has_next())
    }

    /// Begins every operation that was pushed, and sleeps until the kernel has posted a completion, at most `timeout`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn sleep(&mut self, timeout: Duration) -> io::Result<()> {
        self.start()?;
        if self.in_kernel == 0 || self.has_finished() || self.look() {
            return Ok(());
        }
        self.context.fetch(1, Some(timeout), &mut self.fetched)
    }

    /// Looks for a completion a little while, where that has been worth it.
    fn look(&mut self) -> bool {
        let Self { context, eager, .. } = self;
        context.entries > 0 && eager.tries() && eager.look(1, || context.has_next())
    }

    /// A descriptor that can be read once the kernel has completed something, until
    /// [`next_completed`](Self::next_completed) finds nothing.
    ///
    /// # Errors
    /// The system's answer.
    pub fn event(&mut self) -> io::Result<BorrowedFd<'_>> {
        if self.event.is_none() {
            let event = Wakeup::new()?;
            // Operations under way do not signal the event: it stays readable, and the program polls until they are done.
            event.raise();
            self.event = Some(event);
        }
        self.event.as_ref().map(AsFd::as_fd).ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// Makes the event readable, if there is one.
    #[inline]
    pub fn raise(&self) {
        if let Some(event) = &self.event {
            event.raise();
        }
    }

    /// Waits for what is under way; says whether all of it came.
    fn wait_for_all(&mut self) -> bool {
        let until = Instant::now() + LAST_WAIT;
        while self.in_kernel > 0 {
            if self.fetched.pop_front().or_else(|| self.context.next(&mut self.fetched)).is_some() {
                self.in_kernel -= 1;
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.context.fetch(1, Some(left), &mut self.fetched).is_err() {
                return false;
            }
        }
        true
    }
}

impl<H: KernelMemory, T: Copy> Drop for Aio<H, T> {
    /// The kernel's side of the ring is its process's; a forked child has none to wait for.
    fn drop(&mut self) {
        if !self.owner.is_current() || !self.wait_for_all() {
            return;
        }
        self.context.end();
        // SAFETY: the kernel is done with every operation in the table, and nothing uses it after this.
        unsafe { ManuallyDrop::drop(&mut self.table) };
    }
}

impl<H: KernelMemory, T: Copy> fmt::Debug for Aio<H, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Aio({} gathered, {} under way)", self.gathered.len(), self.in_kernel)
    }
}

#[cfg(test)]
mod tests;
