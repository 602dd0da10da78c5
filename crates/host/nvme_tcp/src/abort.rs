//! Abort commands that I/O queues request of the admin thread, which keeps at most the Abort Command Limit (ACL) outstanding.

use std::sync::atomic::{AtomicU8, Ordering};

/// It waits for its turn.
const WAITS: u8 = 0;
/// The controller has it.
const SENT: u8 = 1;
/// Answered or withdrawn, or its connection was lost.
const OVER: u8 = 2;

/// An Abort of one command.
///
/// Ordering: the admin thread and the queue each move it by one atomic step; a queue that reads `OVER` with acquire may use the
/// command's identifier again.
#[derive(Debug)]
pub(crate) struct Abort {
    state: AtomicU8,
    /// Generation of the connections that its command was sent on.
    pub generation: u64,
}

impl Abort {
    /// Of a command of this generation of connections.
    pub fn new(generation: u64) -> Self {
        Self { state: AtomicU8::new(WAITS), generation }
    }

    /// Marks it as sent; `false` if it was withdrawn.
    pub fn begin(&self) -> bool {
        self.step(WAITS, SENT)
    }

    /// Takes it back, unless it was sent.
    pub fn withdraw(&self) -> bool {
        self.step(WAITS, OVER)
    }

    /// It was answered, or will never be sent.
    pub fn end(&self) {
        self.state.store(OVER, Ordering::Release);
    }

    /// Whether it waits for its turn.
    pub fn waits(&self) -> bool {
        self.state.load(Ordering::Acquire) == WAITS
    }

    /// Whether it was answered or will never be sent.
    pub fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) == OVER
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
