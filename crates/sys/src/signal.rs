//! Signals eventfds of other processes, which may have filled the counter or cleared the descriptor's `O_NONBLOCK`.
//!
//! A `write` to such a descriptor may block, and no check beforehand helps: the owner shares flag and counter and may change
//! them in between. The kernel's own signals to an eventfd never block. Each completion of an asynchronous operation with an
//! eventfd (`IOCB_FLAG_RESFD`) makes one, so this submits a read of zero bytes, which completes before the system call
//! returns.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Mutex;

use crate::aio::{Block, Context, Event, FLAG_EVENT, PREAD};

/// Completions that the kernel keeps until they are taken: signals that can be under way at once.
const DEPTH: u32 = 64;

/// A way to signal eventfds that never waits.
#[derive(Debug)]
pub struct EventSignal(Mutex<Ring>);

struct Ring {
    context: Context,
    zeroes: File,
    taken: VecDeque<Event>,
}

impl EventSignal {
    /// A way of its own.
    ///
    /// # Errors
    /// The system's answer: a kernel without asynchronous I/O, or one that has as much of it as it allows.
    pub fn new() -> io::Result<Self> {
        let zeroes = File::open("/dev/zero")?;
        let ring = Ring { context: Context::new(DEPTH)?, zeroes, taken: VecDeque::new() };
        Ok(Self(Mutex::new(ring)))
    }

    /// Adds one to the counter of `event`, or leaves it full.
    ///
    /// # Errors
    /// It is no eventfd; the system's answer.
    pub fn signal(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        crate::locked(&self.0).signal(event)
    }
}

impl Ring {
    fn signal(&mut self, event: BorrowedFd<'_>) -> io::Result<()> {
        // Room for this one.
        while self.context.next(&mut self.taken).is_some() {}
        let mut block = Block {
            opcode: PREAD,
            file: self.zeroes.as_raw_fd() as u32,
            flags: FLAG_EVENT,
            event: event.as_raw_fd() as u32,
            ..Block::default()
        };
        let blocks = [&raw mut block];
        // SAFETY: one block, which the kernel copies, for a read of no bytes: it names no memory.
        let begun = unsafe { libc::syscall(libc::SYS_io_submit, self.context.word, 1, blocks.as_ptr()) };
        if begun < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.context.end();
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::fd::{AsFd, OwnedFd};

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn count(event: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(event, &mut count).unwrap();
        u64::from_ne_bytes(count)
    }

    #[test]
    fn every_signal_is_counted_many_times_around_the_ring() {
        let (signal, event) = (EventSignal::new().unwrap(), eventfd(0, EventfdFlags::empty()).unwrap());
        for _ in 0..1000 {
            signal.signal(event.as_fd()).unwrap();
        }
        assert_eq!(count(&event), 1000);
    }

    #[test]
    fn a_full_counter_of_a_blocking_descriptor_blocks_no_sender() {
        let (signal, event) = (EventSignal::new().unwrap(), eventfd(0, EventfdFlags::empty()).unwrap());
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        for _ in 0..3 {
            signal.signal(event.as_fd()).unwrap();
        }
        assert!(count(&event) >= u64::MAX - 1);
    }

    #[test]
    fn descriptor_other_than_an_eventfd_is_refused() {
        let (_reader, writer) = std::io::pipe().unwrap();
        assert!(EventSignal::new().unwrap().signal(writer.as_fd()).is_err());
    }
}
