//! The ring itself: what goes in, what is under way, what comes back.

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::cqueue::{self, EntryMarker as _};
use io_uring::{IoUring, opcode, types};

use super::buffers::{BufferIndex, Registered, RegisteredBuffer};
use super::completed::{Completed, Ending};
use super::deadline::Deadline;
use super::kept::{self, Kept};
use super::operation::{Asked, Operation, RingFile};
use super::options::UringOptions;
use super::placing::{Asking, name_of};
use crate::eager::Eager;
use crate::inflight::Inflight;
use crate::lent::KernelMemory;
use crate::owner::OwnerProcess;
use crate::wakeup::Wakeup;

/// What entries that are no operation are called: timeouts and cancellations, whose completions say nothing.
pub(super) const NO_OPERATION: u64 = u64::MAX;

/// How often an operation that the kernel gave up by itself is begun again, as when the thread that submitted it ended.
const GIVEN_UP_MAX: u8 = 8;

/// How long a ring that is dropped waits for what is under way.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// A ring over one file. `H` is what operations hold, `T` is the caller's word for one, `O` is what it asks.
pub struct Uring<H: KernelMemory, T: Copy, O: Asked = Operation> {
    owner: OwnerProcess,
    pub(super) ring: IoUring<O::Entry, O::Completion>,
    /// What is under way, and when each is given up.
    pub(super) table: ManuallyDrop<Inflight<H, types::Timespec>>,
    /// By place in the table.
    pub(super) jobs: Box<[Job<T, O>]>,
    /// Places whose entry found no room in the submission ring.
    pub(super) waiting: Vec<u32>,
    /// Where the kernel may read entries again.
    pub(super) kept: Option<Kept>,
    pub(super) entered: RingFile,
    registered: Registered,
    iopoll: bool,
    pub(super) sqpoll: bool,
    /// Whether the ring is yet to be enabled by the thread that it will belong to.
    disabled: bool,
    event: Option<Wakeup>,
    eager: Eager,
    /// The open file that `entered` refers to.
    _file: Arc<dyn AsFd + Send + Sync>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Job<T, O> {
    ticket: Option<T>,
    pub operation: Option<O>,
    /// Bytes of the memory, and how many of them were moved.
    wanted: usize,
    pub done: usize,
    pub buffer: Option<BufferIndex>,
    /// Distinguishes the operation from earlier ones in its place.
    pub serial: u32,
    pub until: Option<Deadline>,
    cancelled: bool,
    given_up: u8,
}

impl<H: KernelMemory, T: Copy, O: Asked> Uring<H, T, O> {
    /// A ring over `file`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new(file: Arc<dyn AsFd + Send + Sync>, options: UringOptions) -> io::Result<Self> {
        let keeps = O::MAY_BE_READ_AGAIN && kept::is_needed();
        let mut ring: IoUring<O::Entry, O::Completion> =
            options.build(if keeps { kept::PLACES } else { 1 })?;
        let places = ring.submission().capacity();
        let kept = keeps.then(|| Kept::new(places, options.depth as usize));
        let number = file.as_fd().as_raw_fd();
        let entered = if options.registered_file {
            ring.submitter().register_files(&[number])?;
            RingFile { number: 0, registered: true }
        } else {
            RingFile { number, registered: false }
        };
        let registered = Registered::new(&ring.submitter(), options.registered_buffers)?;
        let job = Job {
            ticket: None,
            operation: None,
            wanted: 0,
            done: 0,
            buffer: None,
            serial: 0,
            until: None,
            cancelled: false,
            given_up: 0,
        };
        Ok(Self {
            owner: OwnerProcess::current(),
            ring,
            table: ManuallyDrop::new(Inflight::new(options.depth)),
            jobs: vec![job; options.depth as usize].into(),
            waiting: Vec::with_capacity(options.depth as usize),
            kept,
            entered,
            registered,
            iopoll: options.iopoll,
            sqpoll: options.sqpoll.is_some(),
            disabled: options.one_thread,
            event: None,
            eager: Eager::default(),
            _file: file,
        })
    }

    /// Registers a buffer with the ring, if it is not yet; `None` for one that its table has no place for.
    ///
    /// # Errors
    /// The system's answer.
    #[inline]
    pub fn register(&mut self, buffer: RegisteredBuffer) -> io::Result<Option<BufferIndex>> {
        self.registered.index(&self.ring.submitter(), buffer)
    }

    /// Takes an operation, which begins when the kernel is next entered. Its memory is all in `buffer`, if it is given.
    /// It is given up if it is not done by `until`.
    ///
    /// # Errors
    /// It is given back when as many are under way as the ring is deep.
    #[inline(always)]
    pub fn push(
        &mut self,
        held: H,
        ticket: T,
        operation: O,
        buffer: Option<BufferIndex>,
        until: Option<Deadline>,
    ) -> Result<(), H> {
        let wanted = if operation.transfers() { held.len_bytes() } else { 0 };
        let index = self.table.put(held)?;
        let Some(job) = self.jobs.get_mut(index as usize) else { return Ok(()) };
        let serial = job.serial.wrapping_add(1) & (u32::MAX >> 1);
        *job = Job {
            ticket: Some(ticket),
            operation: Some(operation),
            wanted,
            done: 0,
            buffer,
            serial,
            until,
            cancelled: false,
            given_up: 0,
        };
        // Of what is at hand: the job was not written to be read at once.
        let asked = Asking { operation, done: 0, buffer, name: name_of(serial, index), until };
        if !self.place_asked(index, asked) {
            self.enqueue_once_there_is_room(index);
        }
        Ok(())
    }

    /// Asks the kernel to give up the operation with a ticket that `is` says it is; says whether there was one. It
    /// completes once, given up or not.
    ///
    /// # Errors
    /// The system's answer.
    pub fn cancel(&mut self, is: impl Fn(&T) -> bool) -> io::Result<bool> {
        let found = self.table.under_way().find(|index| {
            self.jobs.get(*index as usize).and_then(|job| job.ticket.as_ref()).is_some_and(&is)
        });
        let Some(index) = found else { return Ok(false) };
        self.cancel_at(index)?;
        self.enter(0, None)?;
        Ok(true)
    }

    fn cancel_at(&mut self, index: u32) -> io::Result<()> {
        let Some(job) = self.jobs.get_mut(index as usize) else { return Ok(()) };
        job.cancelled = true;
        let wanted = name_of(job.serial, index);
        let entry = opcode::AsyncCancel::new(wanted).build().user_data(NO_OPERATION).into();
        for _ in 0..2 {
            let has_room = self.kept.as_ref().is_none_or(|kept| kept.has_room(1));
            // SAFETY: a cancellation names no memory.
            if has_room && unsafe { self.ring.submission().push(&entry) }.is_ok() {
                self.kept.iter_mut().for_each(Kept::pass);
                return Ok(());
            }
            self.make_room()?;
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// The next operation that the kernel is done with, of those that it has posted. Enters the kernel only to go on with
    /// transfers that ended early, and only where the submission ring is full of them.
    #[inline(always)]
    pub fn reap(&mut self) -> Option<Completed<H, T>> {
        loop {
            let completion = self.ring.completion().next()?;
            let (name, answer) = (completion.user_data(), O::answer(&completion));
            let result = Into::<cqueue::Entry>::into(completion).result();
            let index = name as u32;
            if let Some(ending) = self.settle(name, result)
                && let Some(held) = self.table.take(index)
                && let Some(ticket) = self.jobs.get_mut(index as usize).and_then(|job| job.ticket.take())
            {
                return Some(Completed { held, ticket, ending, answer });
            }
        }
    }

    /// What a completion means for the operation of this name; nothing if it goes on.
    #[inline(always)]
    fn settle(&mut self, name: u64, result: i32) -> Option<Ending> {
        let index = name as u32;
        let job = self.jobs.get_mut(index as usize)?;
        if name >> 32 != u64::from(job.serial) {
            return None;
        }
        self.kept.iter_mut().for_each(|kept| kept.give_back(index));
        if let Ok(moved) = usize::try_from(result) {
            job.done += moved;
            if moved == 0 || job.done >= job.wanted {
                return Some(Ending::Done(job.done));
            }
            self.enqueue(index);
            return None;
        }
        self.settle_failed(index, -result)
    }

    #[cold]
    fn settle_failed(&mut self, index: u32, errno: i32) -> Option<Ending> {
        let job = self.jobs.get_mut(index as usize)?;
        if matches!(errno, libc::ECANCELED | libc::EINTR) {
            if job.cancelled {
                return Some(Ending::Cancelled);
            }
            if job.until.is_some_and(Deadline::is_over) {
                return Some(Ending::TimedOut);
            }
            // The kernel gives up what a thread submitted that has ended.
            job.given_up += 1;
        }
        if !O::is_undone_by(errno) || job.given_up > GIVEN_UP_MAX {
            return Some(Ending::Failed(io::Error::from_raw_os_error(errno)));
        }
        self.enqueue(index);
        None
    }

    /// Whether the kernel must be entered for operations to begin, or for completions to be posted.
    #[inline]
    fn needs_kernel(&mut self) -> bool {
        let submission = self.ring.submission();
        !submission.is_empty()
            || submission.taskrun()
            || submission.cq_overflow()
            || !self.waiting.is_empty()
            || self.iopoll && !self.table.is_empty()
    }

    /// The next operation that is done. Begins those that were pushed when none is there.
    ///
    /// # Errors
    /// The system's answer.
    #[inline]
    pub fn next_completed(&mut self) -> io::Result<Option<Completed<H, T>>> {
        if let Some(completed) = self.reap() {
            return Ok(Some(completed));
        }
        if self.needs_kernel() {
            self.enter(0, None)?;
            if let Some(completed) = self.reap() {
                return Ok(Some(completed));
            }
        }
        let Some(event) = &self.event else { return Ok(None) };
        // Whatever completes from here on raises it again.
        event.lower();
        if self.needs_kernel() {
            self.enter(0, None)?;
        }
        Ok(self.reap())
    }

    /// Begins every operation that was pushed.
    ///
    /// # Errors
    /// The system's answer.
    #[inline]
    pub fn start(&mut self) -> io::Result<()> {
        let mut left = self.not_begun();
        while left > 0 {
            self.enter(0, None)?;
            let before = std::mem::replace(&mut left, self.not_begun());
            if left == before {
                break;
            }
        }
        Ok(())
    }

    /// Operations that the kernel has not taken.
    #[inline]
    fn not_begun(&mut self) -> usize {
        self.waiting.len() + self.ring.submission().len()
    }

    /// Begins every operation that was pushed, and sleeps until the kernel has posted `min` completions that were not
    /// reaped, at most `timeout`, or for ever: by one system call, which costs less without a time. Where completions have
    /// come soon lately, they are looked for a little while before.
    ///
    /// # Errors
    /// The system's answer.
    #[inline]
    pub fn sleep(&mut self, min: u32, timeout: Option<Duration>) -> io::Result<()> {
        if !self.iopoll && self.eager.tries() {
            self.enter(0, None)?;
            if self.look_for(min)? {
                return Ok(());
            }
        }
        self.enter(min, timeout)
    }

    /// Looks for `min` completions for a little while; says whether they are there. Where the kernel puts work off until it is
    /// entered, it is looked for the word that there is some, and it is entered then.
    fn look_for(&mut self, min: u32) -> io::Result<bool> {
        let Self { ring, eager, .. } = self;
        let min = min as usize;
        let there = eager.look(1, || ring.completion().len() >= min || ring.submission().taskrun());
        if there && self.ring.completion().len() < min {
            self.enter(0, None)?;
        }
        Ok(self.ring.completion().len() >= min)
    }

    pub(super) fn enter(&mut self, min: u32, timeout: Option<Duration>) -> io::Result<()> {
        self.enable()?;
        if !self.waiting.is_empty() {
            self.place_waiting();
        }
        let entered = match timeout {
            Some(timeout) => {
                let time = types::Timespec::from(timeout);
                let arguments = types::SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(min as usize, &arguments)
            }
            None => self.ring.submitter().submit_and_wait(min as usize),
        };
        match entered {
            Ok(_) => Ok(()),
            Err(cause) => match cause.raw_os_error() {
                // Out of time, woken by a signal, or short of memory until something completes.
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(cause),
            },
        }
    }

    /// Binds a ring for one thread to this thread, if it is not bound yet.
    #[inline]
    fn enable(&mut self) -> io::Result<()> {
        if self.disabled {
            self.ring.submitter().register_enable_rings()?;
            self.disabled = false;
        }
        Ok(())
    }

    /// A descriptor that can be read once the kernel has posted completions, until
    /// [`next_completed`](Self::next_completed) finds none.
    ///
    /// # Errors
    /// The system's answer.
    pub fn event(&mut self) -> io::Result<BorrowedFd<'_>> {
        if self.event.is_none() {
            let event = Wakeup::new()?;
            let number: RawFd = event.as_fd().as_raw_fd();
            self.enable()?;
            self.ring.submitter().register_eventfd(number)?;
            // Completions posted before have signalled nothing.
            event.raise();
            self.event = Some(event);
        }
        self.event.as_ref().map(AsFd::as_fd).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes the descriptor readable, for what the ring does not know of.
    pub fn raise(&self) {
        if let Some(event) = &self.event {
            event.raise();
        }
    }

    /// Operations under way.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u32 {
        self.table.len()
    }

    /// Whether none is under way.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Gives up what is under way and waits for the kernel to be done with it; says whether it is.
    fn finish(&mut self) -> bool {
        if self.table.is_empty() {
            return true;
        }
        let until = Instant::now() + LAST_WAIT;
        let under_way: Vec<u32> = self.table.under_way().collect();
        let asked = under_way.into_iter().try_for_each(|index| self.cancel_at(index));
        while asked.is_ok() && !self.table.is_empty() && Instant::now() < until {
            if self.enter(1, Some(Duration::from_secs(1))).is_err() {
                break;
            }
            while self.reap().is_some() {}
        }
        self.table.is_empty()
    }
}

impl<H: KernelMemory, T: Copy, O: Asked> Drop for Uring<H, T, O> {
    /// A forked child shares the ring with its parent, and asks the kernel for nothing.
    fn drop(&mut self) {
        if self.owner.is_current() && self.finish() {
            // SAFETY: dropped here alone, and used no more.
            unsafe { ManuallyDrop::drop(&mut self.table) };
        }
    }
}

impl<H: KernelMemory, T: Copy, O: Asked> fmt::Debug for Uring<H, T, O> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Uring").field("table", &self.table).finish_non_exhaustive()
    }
}
