//! How a ring is set up.

use std::io;
use std::time::Duration;

use io_uring::{Builder, IoUring, cqueue, squeue};

/// Most operations that a ring can have under way: the kernel's limit of completions in a ring.
const DEPTH_MAX: u32 = 65_536;

/// Most entries of the submission ring. A deeper queue is submitted in parts: larger batches gain nothing, and an entry
/// is 64 bytes.
const SUBMISSION_MAX: u32 = 1024;

/// Least entries of the submission ring: an operation, its timeout, and a cancellation.
const SUBMISSION_MIN: u32 = 4;

/// How a ring is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UringOptions {
    /// Most operations under way at once, up to 65,536.
    pub depth: u32,
    /// The file is looked up once, not for each operation.
    pub registered_file: bool,
    /// Entries of the table of registered buffers; none where it is 0.
    pub registered_buffers: u16,
    /// A thread of the kernel takes operations from the ring, so that submitting needs no system call.
    pub sqpoll: Option<Sqpoll>,
    /// Completions are polled for, not signalled by interrupts.
    pub iopoll: bool,
    /// The ring belongs to the first thread that uses it, which lets the kernel leave locks out and completions wait
    /// until they are asked for (SINGLE_ISSUER, DEFER_TASKRUN).
    pub one_thread: bool,
}

/// A thread of the kernel that takes operations from the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sqpoll {
    /// After how long without any it goes to sleep; then the next costs a system call.
    pub idle: Duration,
    /// The processor that it stays on.
    pub cpu: Option<u32>,
}

impl UringOptions {
    /// A ring for up to `depth` operations under way at once, whose file is registered.
    #[must_use]
    pub const fn new(depth: u32) -> Self {
        let (registered_file, registered_buffers, sqpoll) = (true, 0, None);
        Self { depth, registered_file, registered_buffers, sqpoll, iopoll: false, one_thread: false }
    }

    crate::setters! {
        /// The file is looked up once, not for each operation.
        registered_file: bool;
        /// Entries of the table of registered buffers.
        registered_buffers: u16;
        /// A thread of the kernel takes operations from the ring.
        sqpoll: impl Into<Option<Sqpoll>>;
        /// Completions are polled for, not signalled by interrupts.
        iopoll: bool;
        /// The ring belongs to the first thread that uses it.
        one_thread: bool;
    }

    /// A ring as asked for, with so many times the submission entries.
    pub(super) fn build<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
        &self,
        times: u32,
    ) -> io::Result<IoUring<S, C>> {
        let submission = times * self.depth.next_power_of_two().clamp(SUBMISSION_MIN, SUBMISSION_MAX);
        let completion = self.depth.clamp(submission, DEPTH_MAX);
        let built = self.builder(completion).setup_submit_all().setup_no_sqarray().build(submission);
        match built {
            // What older kernels do not know, and what only makes it quicker.
            Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => {
                self.builder(completion).build(submission)
            }
            built => built,
        }
    }

    fn builder<S: squeue::EntryMarker, C: cqueue::EntryMarker>(&self, completion: u32) -> Builder<S, C> {
        let mut builder = IoUring::<S, C>::builder();
        builder.setup_cqsize(completion);
        if self.iopoll {
            builder.setup_iopoll();
        }
        match self.sqpoll {
            Some(sqpoll) => {
                builder.setup_sqpoll(u32::try_from(sqpoll.idle.as_millis()).unwrap_or(u32::MAX));
                if let Some(cpu) = sqpoll.cpu {
                    builder.setup_sqpoll_cpu(cpu);
                }
            }
            // Completions interrupt no thread: they are posted when the program enters the kernel anyway, and the
            // ring has a flag that says when it is worth while.
            None => {
                builder.setup_coop_taskrun().setup_taskrun_flag();
            }
        }
        if self.one_thread {
            // Which thread it is shows when it is used.
            builder.setup_single_issuer().setup_r_disabled();
            if self.sqpoll.is_none() {
                builder.setup_defer_taskrun();
            }
        }
        builder
    }
}
