//! Options of io_uring.

use std::time::Duration;

use byway_core::{Error, ErrorKind, Result};
use byway_sys::uring::{Sqpoll, UringOptions};

use crate::target::Target;

/// Most buffers that the kernel keeps registered for a ring.
const REGISTERED_BUFFERS_MAX: u16 = 1 << 14;

/// Options of io_uring. What the kernel or the target does not support is refused when the backend is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoUringOptions {
    /// The kernel looks the file up once, not for each command.
    pub registered_file: bool,
    /// So many of the buffers that [`byway_core::Backend::buffer`] gives are known to the kernel beforehand, which saves
    /// looking their pages up for each command; 0 for none. They count against the memory that a process may lock.
    pub registered_buffers: u16,
    /// A thread of the kernel takes commands from the ring, so that submitting needs no system call; it sleeps after
    /// having had none for this long, at least a millisecond, and burns a core until then.
    pub sqpoll: Option<Duration>,
    /// The processor that this thread stays on.
    pub sqpoll_cpu: Option<u32>,
    /// Completions are polled, not signalled by interrupts: for devices that have queues to be polled, past the page
    /// cache. A waiting thread burns a core. Commands cannot be cancelled, and have no time of their own; queues have no
    /// event descriptor for completions.
    pub iopoll: bool,
    /// Each queue is used by one thread, the first that uses it, which saves the kernel locks and interruptions.
    pub one_thread: bool,
}

impl Default for IoUringOptions {
    fn default() -> Self {
        Self {
            registered_file: true,
            registered_buffers: 0,
            sqpoll: None,
            sqpoll_cpu: None,
            iopoll: false,
            one_thread: false,
        }
    }
}

impl IoUringOptions {
    byway_sys::setters! {
        /// The kernel looks the file up once, not for each command. Default: on.
        registered_file: bool;
        /// Buffers that are registered with the kernel, from 0 to 16,384. Default: 0.
        registered_buffers: u16;
        /// A thread of the kernel takes commands from the ring, and sleeps after this time without any, at least 1 ms. Default: `None`, no
        /// such thread.
        sqpoll: impl Into<Option<Duration>>;
        /// Processor that the thread of `sqpoll` stays on; refused without `sqpoll`. Default: `None`, any processor.
        sqpoll_cpu: impl Into<Option<u32>>;
        /// Completions are polled, not signalled by interrupts; of a file or block device only with [`direct`](crate::TargetOptions::direct). Default: off.
        iopoll: bool;
        /// Each queue is used by one thread, the first that uses it. Default: off.
        one_thread: bool;
    }

    /// Refuses what cannot be with `target`, or with each other.
    pub(super) fn check_with(&self, target: &Target) -> Result<()> {
        if self.iopoll && !target.is_direct() {
            let said = "completions are polled for past the page cache alone (direct)";
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        self.check()
    }

    /// Refuses what cannot be with each other.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |said: String| Err(Error::host(ErrorKind::InvalidArgument, said));
        if self.registered_buffers > REGISTERED_BUFFERS_MAX {
            let said = format!("the kernel registers {REGISTERED_BUFFERS_MAX} buffers at most");
            return refuse(format!("{said}, not {}", self.registered_buffers));
        }
        if self.sqpoll.is_some_and(|idle| idle < Duration::from_millis(1)) {
            return refuse("a polling thread of the kernel stays awake for a millisecond at least".into());
        }
        if self.sqpoll_cpu.is_some() && self.sqpoll.is_none() {
            return refuse("a processor for the kernel's polling thread, and no such thread (sqpoll)".into());
        }
        Ok(())
    }

    /// A ring for a queue of `depth`.
    pub(crate) fn ring(&self, depth: u32) -> UringOptions {
        UringOptions::new(depth)
            .registered_file(self.registered_file)
            .registered_buffers(self.registered_buffers)
            .sqpoll(self.sqpoll.map(|idle| Sqpoll { idle, cpu: self.sqpoll_cpu }))
            .iopoll(self.iopoll)
            .one_thread(self.one_thread)
    }
}
