//! POSIX asynchronous I/O over one file or block device (aio_read, aio_write, aio_fsync, aio_suspend), as the C library does
//! it: by a thread of its own for each descriptor.
//!
//! **Ownership of memory.** The table of operations owns it, as for [`crate::inflight`]: an operation's memory and its control
//! block stay in place until the C library has completed it. A dropped queue cancels what has not begun and waits for the
//! rest; the memory of those that never complete is leaked.
//!
//! **Short transfers** are continued here, vectors are moved one buffer after the other, and a durable write is followed by
//! its sync: an operation completes once.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::eager::Eager;
use crate::inflight::{Extent, Inflight};
use crate::lent::KernelMemory;
use crate::owner::OwnerProcess;
use crate::transfer::Transfer;

/// From so many seconds on the C library is asked to wait for ever.
const LONGEST_S: u64 = 1 << 30;

/// How many of the oldest operations are waited for: the C library does those of one descriptor one after the other, and
/// each that is waited for costs it and its caller a step.
const WAITED_MAX: usize = 8;

/// As many operations under way are looked for before sleeping, where that has been worth it; of more, half are waited for.
const LOOKED_FOR_MAX: usize = 8;

/// Pauses of the processor between two questions whether an operation is done: each takes the C library's one lock.
const LOOK_PAUSES: u32 = 16;

/// So long half of the operations are waited for, before the first of them is: being woken for each one costs the library's
/// thread as much as doing it does.
const HALF_WAIT: Duration = Duration::from_micros(100);

/// So many sleeps are for the first operation alone after none was done in that time.
const PLAIN_SLEEPS: u8 = 64;

/// How long a queue that is dropped waits for what is under way.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// An operation that the C library is done with.
#[derive(Debug)]
pub struct PosixAioCompleted<H, T> {
    /// Memory of the operation.
    pub held: H,
    /// The caller's word for it.
    pub ticket: T,
    /// Bytes that were moved, fewer than there is memory only at the end of the file; or the system's answer.
    pub result: io::Result<usize>,
    /// Whether it was given up, as asked.
    pub cancelled: bool,
}

/// Operations on one file. `H` is what they hold, `T` is the caller's word for one.
pub struct PosixAio<H: KernelMemory, T: Copy> {
    owner: OwnerProcess,
    /// What was pushed, each with its control block.
    table: ManuallyDrop<Inflight<H, Control>>,
    /// By place in the table.
    jobs: Box<[Job<T>]>,
    /// Places of operations that the C library does not know of, oldest first.
    gathered: VecDeque<u32>,
    /// Those that it does.
    under_way: VecDeque<u32>,
    /// Those that it refused, and why.
    refused: VecDeque<(u32, i32)>,
    /// An operation may be done before older ones are: all are asked about, and not the oldest alone.
    out_of_order: bool,
    /// One that is known to be done, and was not taken: to ask takes the C library's one lock.
    known: Option<Done>,
    eager: Eager,
    plain_sleeps: u8,
    file: Arc<dyn AsFd + Send + Sync>,
}

/// An operation that the C library is done with: where among those under way, and its answer.
#[derive(Debug, Clone, Copy)]
struct Done {
    at: usize,
    answer: i32,
}

#[derive(Debug, Clone, Copy)]
struct Job<T> {
    ticket: Option<T>,
    operation: Transfer,
    /// Bytes of the memory, and how many of them were moved.
    wanted: usize,
    done: usize,
}

/// A control block. The C library writes it from its own threads between the call that begins an operation and the one
/// that says that it is over; only calls of the library read or write it meanwhile.
struct Control(libc::aiocb);

// SAFETY: its pointers are the C library's and an operation's; which thread asks about it does not matter.
unsafe impl Send for Control {}

impl Default for Control {
    fn default() -> Self {
        // SAFETY: a structure of numbers and pointers, for which zeroes are values.
        Self(unsafe { MaybeUninit::zeroed().assume_init() })
    }
}

impl<H: KernelMemory, T: Copy> PosixAio<H, T> {
    /// Room for `depth` operations on `file` at once.
    #[must_use]
    pub fn new(file: Arc<dyn AsFd + Send + Sync>, depth: u32) -> Self {
        let job = Job { ticket: None, operation: Transfer::Sync, wanted: 0, done: 0 };
        Self {
            owner: OwnerProcess::current(),
            table: ManuallyDrop::new(Inflight::new(depth)),
            jobs: vec![job; depth as usize].into(),
            gathered: VecDeque::with_capacity(depth as usize),
            under_way: VecDeque::with_capacity(depth as usize),
            refused: VecDeque::new(),
            out_of_order: false,
            known: None,
            eager: Eager::default(),
            plain_sleeps: 0,
            file,
        }
    }

    /// Takes an operation, which begins with the next [`start`](Self::start), [`next_completed`](Self::next_completed) or
    /// [`sleep`](Self::sleep).
    ///
    /// # Errors
    /// It is given back when there are as many as there is room for.
    pub fn push(&mut self, held: H, ticket: T, operation: Transfer) -> Result<(), H> {
        let wanted = if operation == Transfer::Sync { 0 } else { held.len_bytes() };
        let index = self.table.put(held)?;
        if let Some(job) = self.jobs.get_mut(index as usize) {
            *job = Job { ticket: Some(ticket), operation, wanted, done: 0 };
        }
        self.gathered.push_back(index);
        Ok(())
    }

    /// Begins every operation that was pushed.
    pub fn start(&mut self) {
        while let Some(index) = self.gathered.pop_front() {
            match self.begin(index) {
                Ok(()) => self.under_way.push_back(index),
                Err(cause) => match cause.raw_os_error() {
                    // Room comes when something is done.
                    Some(libc::EAGAIN) if !self.under_way.is_empty() => {
                        return self.gathered.push_front(index);
                    }
                    errno => self.refused.push_back((index, errno.unwrap_or(libc::EIO))),
                },
            }
        }
    }

    fn begin(&mut self, index: u32) -> io::Result<()> {
        let control = self.describe(index).ok_or(io::ErrorKind::InvalidInput)?;
        let operation = self.jobs.get(index as usize).map(|job| job.operation);
        // SAFETY: a control block in a place of the table, which stays in place and which only the C library touches
        // until it is done with it. The memory that it names is the operation's in that place, and stays there as long.
        let begun = unsafe {
            match operation {
                Some(Transfer::Read { .. }) => libc::aio_read(control),
                Some(Transfer::Write { .. }) => libc::aio_write(control),
                Some(Transfer::Sync) | None => libc::aio_fsync(libc::O_DSYNC, control),
            }
        };
        if begun == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Writes an operation's control block, for what is left of it.
    fn describe(&mut self, index: u32) -> Option<*mut libc::aiocb> {
        let Job { operation, done, .. } = *self.jobs.get(index as usize)?;
        let (offset, (start, len)) = match operation {
            Transfer::Read { at } | Transfer::Write { at, .. } => {
                (at + done as u64, self.first_piece(index, done)?)
            }
            Transfer::Sync => (0, (ptr::null_mut(), 0)),
        };
        let control = self.table.control(index)?.as_ptr();
        // The rest of a block is zeroes, or the C library's, which writes that when it is given the block.
        // SAFETY: a place of the table, of whose operation the C library does not know: nothing else touches its block.
        unsafe {
            let place = &raw mut (*control).0;
            (&raw mut (*place).aio_fildes).write(self.file.as_fd().as_raw_fd());
            (&raw mut (*place).aio_sigevent.sigev_notify).write(libc::SIGEV_NONE);
            (&raw mut (*place).aio_buf).write(start.cast());
            (&raw mut (*place).aio_nbytes).write(len);
            (&raw mut (*place).aio_offset).write(offset as i64);
            Some(place)
        }
    }

    fn first_piece(&mut self, index: u32, done: usize) -> Option<(*mut u8, usize)> {
        match self.table.extent(index, done)? {
            Extent::Piece(start, len) => Some((start.as_ptr(), len as usize)),
            Extent::Pieces(first, count) if count > 0 => {
                // SAFETY: an array of at least one, which `extent` just wrote.
                let piece = unsafe { first.read() };
                Some((piece.iov_base.cast(), piece.iov_len))
            }
            Extent::Pieces(..) => Some((ptr::dangling_mut(), 0)),
        }
    }

    /// The next operation that is done. Begins those that were pushed when none is.
    pub fn next_completed(&mut self) -> Option<PosixAioCompleted<H, T>> {
        if let Some(completed) = self.reap() {
            return Some(completed);
        }
        if self.gathered.is_empty() {
            return None;
        }
        self.start();
        self.reap()
    }

    fn reap(&mut self) -> Option<PosixAioCompleted<H, T>> {
        loop {
            let (index, result) = match self.refused.pop_front() {
                Some((index, errno)) => (index, Err(errno)),
                None => self.next_done()?,
            };
            let cancelled = result == Err(libc::ECANCELED);
            if let Some(result) = self.settle(index, result)
                && let Some(ticket) = self.jobs.get_mut(index as usize).and_then(|job| job.ticket.take())
                && let Some(held) = self.table.take(index)
            {
                return Some(PosixAioCompleted { held, ticket, result, cancelled });
            }
        }
    }

    /// Takes an operation from under way that the C library is done with: mostly the oldest.
    fn next_done(&mut self) -> Option<(u32, Result<usize, i32>)> {
        let found = self.find_done();
        self.out_of_order &= found.is_some();
        let Done { at, answer } = found?;
        // Where others stand is another place from here on.
        self.known = None;
        let index = self.under_way.remove(at)?;
        let control = self.table.control(index)?.as_ptr();
        // SAFETY: the C library is done with the block, and is asked this once.
        let moved = unsafe { libc::aio_return(control.cast()) };
        Some((index, if answer == 0 { Ok(moved as usize) } else { Err(answer) }))
    }

    /// An operation under way that is done. What is begun meanwhile comes behind it.
    fn find_done(&mut self) -> Option<Done> {
        if self.known.is_none() {
            let oldest = *self.under_way.front()?;
            self.known = match self.answer(oldest) {
                Some(answer) => Some(Done { at: 0, answer }),
                None if self.out_of_order => self.find_done_of_all(),
                None => None,
            };
        }
        self.known
    }

    #[cold]
    fn find_done_of_all(&self) -> Option<Done> {
        let asked = self.under_way.iter().enumerate();
        asked.filter_map(|(at, index)| self.answer(*index).map(|answer| Done { at, answer })).next()
    }

    /// How an operation under way ended; `None` while it goes on.
    fn answer(&self, index: u32) -> Option<i32> {
        let control = self.table.control(index)?.as_ptr();
        // SAFETY: a control block that the C library was given.
        let answer = unsafe { libc::aio_error(control.cast()) };
        (answer != libc::EINPROGRESS).then_some(answer)
    }

    /// What an answer means for the operation in this place; nothing if it goes on.
    fn settle(&mut self, index: u32, result: Result<usize, i32>) -> Option<io::Result<usize>> {
        let job = self.jobs.get_mut(index as usize)?;
        match result {
            Ok(moved) => {
                job.done += moved;
                let whole = job.done >= job.wanted;
                if let (true, Transfer::Write { durable: true, .. }) = (whole, job.operation) {
                    job.operation = Transfer::Sync;
                } else if whole || moved == 0 {
                    return Some(Ok(job.done));
                }
            }
            Err(libc::EINTR) => {}
            Err(errno) => return Some(Err(io::Error::from_raw_os_error(errno))),
        }
        self.gathered.push_back(index);
        None
    }

    /// Whether an operation is done and was not taken.
    #[must_use]
    pub fn has_finished(&mut self) -> bool {
        !self.refused.is_empty() || self.find_done().is_some()
    }

    /// Begins every operation that was pushed, and sleeps until one is done, at most `timeout`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn sleep(&mut self, timeout: Duration) -> io::Result<()> {
        self.start();
        // One alone has just begun, or its sleeper has asked already: the library asks again before it waits.
        let alone = self.under_way.len() == 1 && self.refused.is_empty();
        if self.under_way.is_empty() || !alone && (self.has_finished() || self.look()) {
            return Ok(());
        }
        if self.wait_for_half(timeout)? {
            return Ok(());
        }
        self.suspend(0, timeout)
    }

    /// Looks a little while whether an operation is done, where it has been worth it. Of a single one it is not: the library's
    /// thread must be woken first.
    fn look(&mut self) -> bool {
        if !(2..=LOOKED_FOR_MAX).contains(&self.under_way.len()) || !self.eager.tries() {
            return false;
        }
        let mut eager = std::mem::take(&mut self.eager);
        let found = eager.look(LOOK_PAUSES, || self.has_finished());
        self.eager = eager;
        found
    }

    /// Sleeps until half of many operations are done, and no longer than [`HALF_WAIT`]; says whether one is, or `timeout` is
    /// over.
    fn wait_for_half(&mut self, timeout: Duration) -> io::Result<bool> {
        let count = self.under_way.len();
        if count <= LOOKED_FOR_MAX {
            return Ok(false);
        }
        if self.plain_sleeps > 0 {
            self.plain_sleeps -= 1;
            return Ok(false);
        }
        self.suspend(count / 2, timeout.min(HALF_WAIT))?;
        let found = self.has_finished();
        if !found {
            self.plain_sleeps = PLAIN_SLEEPS;
        }
        Ok(found || timeout <= HALF_WAIT)
    }

    /// Sleeps until one of the operations from this place among those under way on is done, at most `timeout`.
    fn suspend(&mut self, from: usize, timeout: Duration) -> io::Result<()> {
        let mut blocks = [ptr::null::<libc::aiocb>(); WAITED_MAX];
        for (block, index) in blocks.iter_mut().zip(self.under_way.iter().skip(from)) {
            *block = self
                .table
                .control(*index)
                .map_or(ptr::null(), |control| control.as_ptr().cast_const().cast());
        }
        let count = self.under_way.len().saturating_sub(from).min(WAITED_MAX);
        let time = libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // The library adds a time to its clock, so the longest that there is would be over at once; and for none it asks no clock.
        let time = if timeout.as_secs() < LONGEST_S { &raw const time } else { ptr::null() };
        // SAFETY: as many pointers, which are null or to control blocks that the C library was given, and a time that lives as
        // long as the call, or none.
        let waited = unsafe { libc::aio_suspend(blocks.as_ptr(), count as i32, time) };
        match io::Error::last_os_error() {
            _ if waited == 0 => {
                self.out_of_order |= self.find_done().is_none();
                Ok(())
            }
            cause if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(()),
            cause => Err(cause),
        }
    }

    /// Asks for the operations to be given up whose tickets `is` says they are; says whether there was one. Each completes
    /// once, given up or not.
    pub fn cancel(&mut self, is: impl Fn(&T) -> bool) -> bool {
        let has =
            |index: &u32| self.jobs.get(*index as usize).and_then(|job| job.ticket.as_ref()).is_some_and(&is);
        self.out_of_order = true;
        let before = self.refused.len();
        self.refused
            .extend(self.gathered.iter().filter(|index| has(index)).map(|index| (*index, libc::ECANCELED)));
        self.gathered.retain(|index| !has(index));
        let mut under_way = self.under_way.iter().filter(|index| has(index)).peekable();
        let any = self.refused.len() > before || under_way.peek().is_some();
        under_way.for_each(|index| self.cancel_at(*index));
        any
    }

    /// The words for all operations that were pushed and not taken.
    pub fn tickets(&self) -> impl Iterator<Item = &T> {
        self.jobs.iter().filter_map(|job| job.ticket.as_ref())
    }

    /// Operations that were pushed and that the C library does not know of yet.
    #[must_use]
    pub fn gathered(&self) -> usize {
        self.gathered.len()
    }

    fn cancel_at(&self, index: u32) {
        let Some(control) = self.table.control(index) else { return };
        let fd: RawFd = self.file.as_fd().as_raw_fd();
        // SAFETY: a control block that the C library was given.
        let _ = unsafe { libc::aio_cancel(fd, control.as_ptr().cast()) };
    }

    /// Takes back what has not begun and waits for the rest; says whether all of it came.
    fn wait_for_all(&mut self) -> bool {
        self.gathered.clear();
        self.refused.clear();
        self.out_of_order = true;
        self.under_way.iter().for_each(|index| self.cancel_at(*index));
        let until = Instant::now() + LAST_WAIT;
        while !self.under_way.is_empty() {
            if self.next_done().is_some() {
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.sleep(left).is_err() {
                return false;
            }
        }
        true
    }
}

impl<H: KernelMemory, T: Copy> Drop for PosixAio<H, T> {
    /// The C library's threads are the parent's; a forked child has none to wait for.
    fn drop(&mut self) {
        if self.owner.is_current() && self.wait_for_all() {
            // SAFETY: the C library is done with every operation in the table, and nothing uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.table) };
        }
    }
}

impl<H: KernelMemory, T: Copy> fmt::Debug for PosixAio<H, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PosixAio({} gathered, {} under way)", self.gathered.len(), self.under_way.len())
    }
}
