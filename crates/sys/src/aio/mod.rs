//! The kernel's native asynchronous I/O over one file or block device (io_submit, io_getevents): operations go in many to
//! a system call, and completions are taken from a ring that the kernel maps into the process.
//!
//! **Who owns memory.** The ring does, as for [`crate::inflight`]: the kernel gives up nothing that it has begun, so an
//! operation's memory stays in its place until the kernel has completed it. A ring that is dropped waits for what is under
//! way; what does not come back is left allocated for ever.
//!
//! **What is done here rather than by the caller.** A transfer that ended early is gone on with: an operation completes
//! once, with all that could be moved.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod context;

use crate::inflight::{Extent, Inflight};
use crate::lent::KernelMemory;
use crate::transfer::Transfer;
use crate::wakeup::Wakeup;

pub use context::is_there;
pub(crate) use context::{Block, Context, Event, FLAG_EVENT, PREAD};
use context::{EVENTS_MAX, FDSYNC, PREADV, PWRITE, PWRITEV};

/// Most operations that one system call begins.
const BATCH_MAX: usize = 64;

/// How long a ring that is dropped waits for what is under way.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// An operation that the kernel is done with, or that never began.
#[derive(Debug)]
pub struct AioCompleted<H, T> {
    /// What it held.
    pub held: H,
    /// The caller's word for it.
    pub ticket: T,
    /// Bytes that were moved, fewer than there is memory only at the end of the file; or the system's answer.
    pub result: io::Result<usize>,
}

/// A ring over one file. `H` is what operations hold, `T` is the caller's word for one.
pub struct Aio<H: KernelMemory, T: Copy> {
    context: Context,
    /// What was pushed, each with the block that the kernel is told of it by.
    table: ManuallyDrop<Inflight<H, Block>>,
    /// By place in the table.
    jobs: Box<[Job<T>]>,
    /// Places of operations that the kernel does not know of yet.
    gathered: VecDeque<u32>,
    /// Completions that a system call told of, or that are refusals.
    told: VecDeque<Event>,
    in_kernel: u32,
    /// Of those, how many will not make the event readable, because they began before anybody asked for it.
    silent: u32,
    event: Option<Wakeup>,
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
            context,
            table: ManuallyDrop::new(Inflight::new(depth)),
            jobs: vec![job; depth as usize].into(),
            gathered: VecDeque::with_capacity(depth as usize),
            told: VecDeque::with_capacity(EVENTS_MAX),
            in_kernel: 0,
            silent: 0,
            event: None,
            file,
        })
    }

    /// Takes an operation, which begins with the next [`start`](Self::start), [`next_completed`](Self::next_completed) or
    /// [`sleep`](Self::sleep).
    ///
    /// # Errors
    /// It is given back when there are as many as the ring is deep.
    #[inline]
    pub fn push(&mut self, held: H, ticket: T, operation: Transfer) -> Result<(), H> {
        let wanted = if operation == Transfer::Sync { 0 } else { held.len_bytes() };
        let index = self.table.put(held)?;
        if let Some(job) = self.jobs.get_mut(index as usize) {
            *job = Job { ticket: Some(ticket), operation, wanted, done: 0, silent: false };
        }
        self.gathered.push_back(index);
        Ok(())
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
        let at = self
            .gathered
            .iter()
            .position(|index| !begun(index) && ticket(index).as_ref().is_some_and(&is))?;
        let index = self.gathered.remove(at)?;
        let ticket = self.jobs.get_mut(index as usize)?.ticket.take()?;
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
    fn submit(&mut self) -> io::Result<usize> {
        let mut blocks = [ptr::null_mut::<Block>(); BATCH_MAX];
        let mut count = 0;
        for (place, at) in blocks.iter_mut().zip(0..self.gathered.len()) {
            let Some(block) = self.gathered.get(at).copied().and_then(|index| self.describe(index)) else {
                break;
            };
            (*place, count) = (block, count + 1);
        }
        // SAFETY: `count` pointers to blocks of places in the table, which stay where they are. The memory that a block
        // names is an operation's in the table, and stays there until the operation's completion was reaped, or for ever;
        // so does the array of its pieces. The kernel knows of none of these operations yet.
        let begun = unsafe { libc::syscall(libc::SYS_io_submit, self.context.word, count, blocks.as_ptr()) };
        let begun = usize::try_from(begun).map_err(|_| io::Error::last_os_error())?;
        let silent = self.event.is_none();
        for index in self.gathered.drain(..begun.min(count)) {
            if let Some(job) = self.jobs.get_mut(index as usize) {
                job.silent = silent;
            }
            self.silent += u32::from(silent);
            self.in_kernel += 1;
        }
        Ok(begun)
    }

    /// Writes an operation's block, for what is left of it.
    #[inline]
    fn describe(&mut self, index: u32) -> Option<*mut Block> {
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
        let place = self.table.control(index)?.as_ptr();
        // SAFETY: a place of the table, whose operation the kernel does not know of: nobody else reads or writes its block.
        unsafe { place.write(block) };
        Some(place)
    }

    #[cold]
    fn refuse_first(&mut self, errno: i32) {
        let Some(index) = self.gathered.pop_front() else { return };
        self.in_kernel += 1;
        self.told.push_back(Event::refusal(index, errno));
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
        if self.event.is_some() {
            self.lower();
        }
        if !self.gathered.is_empty() {
            self.start()?;
        }
        Ok(self.reap())
    }

    /// Makes the event unreadable, unless something can complete without making it readable.
    #[cold]
    fn lower(&mut self) {
        if let Some(event) = self.event.as_ref().filter(|_| self.silent == 0) {
            event.lower();
        }
    }

    /// The next operation that is done, of those that the kernel has told of.
    #[inline]
    fn reap(&mut self) -> Option<AioCompleted<H, T>> {
        loop {
            if self.in_kernel == 0 {
                return None;
            }
            let event = match self.told.pop_front() {
                Some(event) => event,
                None => self.context.next(&mut self.told)?,
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
    #[inline]
    fn settle(&mut self, index: u32, result: i64) -> Option<io::Result<usize>> {
        let job = self.jobs.get_mut(index as usize)?;
        self.silent -= u32::from(std::mem::take(&mut job.silent));
        if let Ok(moved) = usize::try_from(result) {
            job.done += moved;
            if moved == 0 || job.done >= job.wanted {
                return Some(Ok(job.done));
            }
        } else if result != -i64::from(libc::EINTR) {
            return Some(Err(io::Error::from_raw_os_error(-result as i32)));
        }
        self.gathered.push_back(index);
        None
    }

    /// Whether the kernel has told of a completion that was not taken.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        self.in_kernel > 0 && (!self.told.is_empty() || self.context.has_next())
    }

    /// Begins every operation that was pushed, and sleeps until the kernel has told of a completion, at most `timeout`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn sleep(&mut self, timeout: Duration) -> io::Result<()> {
        self.start()?;
        if self.in_kernel == 0 || !self.told.is_empty() || self.context.look() {
            return Ok(());
        }
        self.context.fetch(1, Some(timeout), &mut self.told)
    }

    /// A descriptor that can be read once the kernel has completed something, until [`next_completed`](Self::next_completed) finds nothing.
    ///
    /// # Errors
    /// The system's answer.
    pub fn event(&mut self) -> io::Result<BorrowedFd<'_>> {
        if self.event.is_none() {
            let event = Wakeup::new()?;
            // What is under way tells nobody: it is looked for until it is done.
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
            if self.told.pop_front().or_else(|| self.context.next(&mut self.told)).is_some() {
                self.in_kernel -= 1;
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.context.fetch(1, Some(left), &mut self.told).is_err() {
                return false;
            }
        }
        true
    }
}

impl<H: KernelMemory, T: Copy> Drop for Aio<H, T> {
    fn drop(&mut self) {
        if !self.wait_for_all() {
            return;
        }
        self.context.end();
        // SAFETY: the kernel is done with every operation in the table, and nobody uses it after this.
        unsafe { ManuallyDrop::drop(&mut self.table) };
    }
}

impl<H: KernelMemory, T: Copy> fmt::Debug for Aio<H, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Aio({} gathered, {} under way)", self.gathered.len(), self.in_kernel)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wakeup::wait_readable;
    use std::io::Write;
    use std::ptr::NonNull;

    /// A box of bytes.
    struct Boxed(Box<[u8]>);

    // SAFETY: the box stays where it is wherever its owner goes.
    unsafe impl KernelMemory for Boxed {
        fn segments(&self) -> usize {
            1
        }

        fn segment(&self, _: usize) -> Option<(NonNull<u8>, usize)> {
            Some((NonNull::from(&*self.0).cast(), self.0.len()))
        }
    }

    /// A ring over a file of 100 bytes, each of its place's value.
    fn ring(depth: u32) -> Aio<Boxed, u32> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&(0..100).collect::<Vec<u8>>()).unwrap();
        Aio::new(Arc::new(file), depth).unwrap()
    }

    fn push_reads(ring: &mut Aio<Boxed, u32>, count: u32) {
        for ticket in 0..count {
            let held = Boxed(vec![0xff; 4].into());
            assert!(ring.push(held, ticket, Transfer::Read { at: u64::from(ticket) }).is_ok());
        }
    }

    /// Takes so many reads and checks what they brought.
    fn expect_reads(ring: &mut Aio<Boxed, u32>, count: u32) {
        let mut seen = vec![false; count as usize];
        while seen.contains(&false) {
            let Some(done) = ring.next_completed().unwrap() else {
                ring.sleep(Duration::from_secs(20)).unwrap();
                continue;
            };
            let first = done.ticket as u8;
            let read: Vec<u8> = (first..first + 4).collect();
            assert_eq!((done.result.unwrap(), &*done.held.0), (4, &*read));
            assert!(!std::mem::replace(&mut seen[done.ticket as usize], true));
        }
    }

    #[test]
    fn more_operations_than_one_call_begins_all_complete_many_times_around_the_ring() {
        let mut ring = ring(90);
        for _ in 0..20 {
            push_reads(&mut ring, 90);
            expect_reads(&mut ring, 90);
        }
        assert!(ring.next_completed().unwrap().is_none());
    }

    #[test]
    fn where_the_ring_cannot_be_read_system_calls_tell_of_completions() {
        let mut ring = ring(90);
        assert!(ring.context.entries >= 90, "this kernel's ring can");
        ring.context.entries = 0;
        push_reads(&mut ring, 90);
        expect_reads(&mut ring, 90);
    }

    #[test]
    fn a_read_across_the_end_tells_how_much_there_was() {
        let mut ring = ring(2);
        assert!(ring.push(Boxed(vec![0; 64].into()), 1, Transfer::Read { at: 90 }).is_ok());
        assert!(ring.push(Boxed(vec![0; 64].into()), 2, Transfer::Read { at: 100 }).is_ok());
        assert!(ring.push(Boxed(vec![0; 64].into()), 3, Transfer::Sync).is_err(), "the ring is full");
        ring.start().unwrap();
        let mut moved = Vec::new();
        while moved.len() < 2 {
            ring.sleep(Duration::from_secs(20)).unwrap();
            moved.extend(ring.next_completed().unwrap().map(|done| (done.ticket, done.result.unwrap())));
        }
        moved.sort_unstable();
        assert_eq!(moved, [(1, 10), (2, 0)]);
    }

    #[test]
    fn what_is_gathered_is_taken_back_and_what_has_begun_is_not() {
        let mut ring = ring(4);
        push_reads(&mut ring, 2);
        assert_eq!(ring.take_back(|ticket| *ticket == 1).unwrap().1, 1);
        ring.start().unwrap();
        assert!(ring.take_back(|_| true).is_none());
        assert!(ring.has(|ticket| *ticket == 0) && !ring.has(|ticket| *ticket == 1));
        expect_reads(&mut ring, 1);
    }

    #[test]
    fn an_event_asked_for_late_tells_of_what_began_before() {
        let mut ring = ring(8);
        push_reads(&mut ring, 4);
        ring.start().unwrap();
        assert!(wait_readable(ring.event().unwrap(), Duration::from_secs(20)).unwrap());
        expect_reads(&mut ring, 4);
        assert!(ring.next_completed().unwrap().is_none());
        assert!(!wait_readable(ring.event().unwrap(), Duration::ZERO).unwrap());
        push_reads(&mut ring, 1);
        ring.start().unwrap();
        assert!(wait_readable(ring.event().unwrap(), Duration::from_secs(20)).unwrap());
        expect_reads(&mut ring, 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_fails_the_operation_and_not_the_ring() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let mut ring: Aio<Boxed, u32> = Aio::new(Arc::new(file), 4).unwrap();
        let write = Transfer::Write { at: 0, durable: true };
        assert!(ring.push(Boxed(vec![0; 4].into()), 1, write).is_ok());
        assert!(ring.push(Boxed(vec![0; 4].into()), 2, Transfer::Read { at: 0 }).is_ok());
        let mut done = Vec::new();
        while done.len() < 2 {
            ring.sleep(Duration::from_secs(20)).unwrap();
            done.extend(ring.next_completed().unwrap().map(|done| (done.ticket, done.result.is_ok())));
        }
        done.sort_unstable();
        assert_eq!(done, [(1, false), (2, true)]);
    }
}
