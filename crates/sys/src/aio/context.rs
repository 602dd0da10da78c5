//! The kernel's side of a ring: control blocks, events, and the ring of completions that the kernel maps.

use std::collections::VecDeque;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Most completions that one system call returns: the rest is read from the ring, where it can be.
pub(super) const EVENTS_MAX: usize = 8;

/// Whether this kernel has it.
#[must_use]
pub fn is_there() -> bool {
    let mut word = 0usize;
    // SAFETY: a ring for no operations is refused, and one word, which is ours, is all that the kernel could write.
    let made = unsafe { libc::syscall(libc::SYS_io_setup, 0, &raw mut word) };
    made < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// An operation's control block (`struct iocb`, <linux/aio_abi.h>).
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
pub(super) const PWRITE: u16 = 1;
pub(super) const FDSYNC: u16 = 3;
pub(super) const PREADV: u16 = 7;
pub(super) const PWRITEV: u16 = 8;
pub(crate) const FLAG_EVENT: u32 = 1;

/// A completion (`struct io_event`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event {
    pub(super) data: u64,
    block: u64,
    pub(super) result: i64,
    result_2: i64,
}

impl Event {
    /// The event of an operation that the kernel refuses to begin.
    pub(super) fn refusal(index: u32, errno: i32) -> Self {
        Self { data: index.into(), result: -i64::from(errno), ..Self::default() }
    }
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
    pub(super) entries: u32,
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
    pub(crate) fn next(&self, fetched: &mut VecDeque<Event>) -> Option<Event> {
        if self.entries == 0 {
            self.fetch(0, Some(Duration::ZERO), fetched).ok()?;
            return fetched.pop_front();
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

    #[inline]
    pub(super) fn has_next(&self) -> bool {
        let header = self.header();
        self.entries > 0 && header.head.load(Ordering::Relaxed) != header.tail.load(Ordering::Acquire)
    }

    /// Fetches at least `min` completions by a system call, waiting at most `timeout`; `fetched` is empty before.
    pub(super) fn fetch(
        &self,
        min: i64,
        timeout: Option<Duration>,
        fetched: &mut VecDeque<Event>,
    ) -> io::Result<()> {
        let mut events = [Event::default(); EVENTS_MAX];
        let time = timeout.map(|timeout| libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
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
        fetched.extend(events.iter().take(count));
        Ok(())
    }

    pub(crate) fn end(&mut self) {
        // SAFETY: the context is ours, and nothing uses it after this.
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.word) };
    }
}
