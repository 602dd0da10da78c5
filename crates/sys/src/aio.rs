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
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::inflight::{Extent, Inflight};
use crate::lent::KernelMemory;
use crate::transfer::Transfer;
use crate::wakeup::Wakeup;

/// Most operations that one system call begins.
const BATCH_MAX: usize = 64;

/// Most completions that one system call tells of.
const EVENTS_MAX: usize = 64;

/// How often a ring looks before it sleeps: some microseconds.
const SPINS: u32 = 100;

/// How long a ring that is dropped waits for what is under way.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// Whether this kernel has it.
#[must_use]
pub fn is_there() -> bool {
    let mut word = 0usize;
    // SAFETY: a ring for no operations is refused, and one word, which is ours, is all that the kernel could write.
    let made = unsafe { libc::syscall(libc::SYS_io_setup, 0, &raw mut word) };
    made < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

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

/// What the kernel is told of an operation (`struct iocb`, <linux/aio_abi.h>).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Block {
    pub data: u64,
    /// The two stand the other way round on big-endian machines.
    #[cfg(target_endian = "big")]
    pub rw_flags: u32,
    pub key: u32,
    #[cfg(target_endian = "little")]
    pub rw_flags: u32,
    pub opcode: u16,
    pub priority: i16,
    pub file: u32,
    pub memory: u64,
    pub len: u64,
    pub offset: i64,
    pub reserved: u64,
    pub flags: u32,
    pub event: u32,
}

pub(crate) const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FDSYNC: u16 = 3;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;
pub(crate) const FLAG_EVENT: u32 = 1;

/// A completion (`struct io_event`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event {
    data: u64,
    block: u64,
    result: i64,
    result_2: i64,
}

/// The ring of completions as the kernel maps it (`struct aio_ring`, fs/aio.c), before its events. Only the process moves
/// `head`, or the kernel on its behalf in a system call.
#[repr(C)]
struct Header {
    id: u32,
    entries: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compatible: u32,
    incompatible: u32,
    header_bytes: u32,
}

const MAGIC: u32 = 0xa10a_10a1;

/// The kernel's side of a ring. Its word for it is the address of the ring of completions.
pub(crate) struct Context {
    pub(crate) word: usize,
    /// Entries of the ring of completions, if it can be read; else 0.
    entries: u32,
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
        let wanted = match operation {
            Transfer::Sync => 0,
            _ => (0..held.segments()).filter_map(|index| held.segment(index)).map(|(_, len)| len).sum(),
        };
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
        self.told.push_back(Event { data: index.into(), result: -i64::from(errno), ..Event::default() });
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

impl Context {
    pub(crate) fn new(depth: u32) -> io::Result<Self> {
        let mut word = 0usize;
        // SAFETY: the kernel writes one word, which is ours.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut word) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut context = Self { word, entries: 0 };
        let header = context.header();
        if header.magic == MAGIC
            && header.incompatible == 0
            && header.header_bytes as usize == size_of::<Header>()
        {
            context.entries = header.entries;
        }
        Ok(context)
    }

    fn header(&self) -> &Header {
        let header = ptr::with_exposed_provenance::<Header>(self.word);
        // SAFETY: the kernel maps the ring at the address that is its word, for as long as the context; this is the one
        // word for it. What changes behind the process's back is atomic.
        unsafe { &*header }
    }

    /// The next completion, if there is one.
    #[inline]
    pub(crate) fn next(&self, told: &mut VecDeque<Event>) -> Option<Event> {
        if self.entries == 0 {
            self.fetch(0, Some(Duration::ZERO), told).ok()?;
            return told.pop_front();
        }
        let header = self.header();
        let head = header.head.load(Ordering::Relaxed);
        if head == header.tail.load(Ordering::Acquire) || head >= self.entries {
            return None;
        }
        let first = ptr::with_exposed_provenance::<Event>(self.word + size_of::<Header>());
        // SAFETY: below the ring's entries, which stand behind the header. The kernel wrote this one before it moved the
        // tail past it, and does not write it again before the head is moved.
        let event = unsafe { first.add(head as usize).read() };
        let next = if head + 1 == self.entries { 0 } else { head + 1 };
        header.head.store(next, Ordering::Release);
        Some(event)
    }

    /// Looks for a while whether there is a completion.
    fn look(&self) -> bool {
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.has_next()
        })
    }

    #[inline]
    fn has_next(&self) -> bool {
        let header = self.header();
        self.entries > 0 && header.head.load(Ordering::Relaxed) != header.tail.load(Ordering::Acquire)
    }

    /// Has a system call tell of at least `min` completions, waiting at most `timeout`; `told` is empty before.
    fn fetch(&self, min: i64, timeout: Option<Duration>, told: &mut VecDeque<Event>) -> io::Result<()> {
        let mut events = [Event::default(); EVENTS_MAX];
        let time = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: room for as many events as are asked for, and a time that lives as long as the call.
        let count = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.word,
                min,
                EVENTS_MAX as i64,
                events.as_mut_ptr(),
                time,
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let cause = io::Error::last_os_error();
            return if cause.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(cause) };
        };
        told.extend(events.iter().take(count));
        Ok(())
    }

    pub(crate) fn end(&mut self) {
        // SAFETY: the context is ours, and nobody uses it after this.
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.word) };
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
            assert_eq!(
                (done.result.unwrap(), &*done.held.0),
                (4, &[first, first + 1, first + 2, first + 3][..])
            );
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
