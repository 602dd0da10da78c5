//! Delegated queue pairs: each has a cell that its thread locks to serve it outside the controller (decision 0009).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use byway_controller::{DelegatedQueue, DelegatedTo, MAX_IO_QUEUES};
use byway_dma::DmaView;
use byway_link::Meter;

use crate::guarded::{Acquire, Guarded};

/// Doorbells that the controller serves of a queue before its thread takes it back: behind a command that only the controller
/// executes. Others like it may follow.
pub(crate) const AFTER_ITS_COMMAND: u32 = 16;

/// The same where the controller cannot give the queue away.
pub(crate) const AFTER_REFUSAL: u32 = 256;

/// The same of a queue that a thread of the device polls, for as long as it is busy.
const UNTIL_BUSY: u32 = 16;

/// The state of a delegated queue.
const DELEGATED: u32 = u32::MAX;

/// The cells of all queues.
#[derive(Debug)]
pub(crate) struct Delegation {
    cells: Box<[QueueCell]>,
    /// Delegated queues. Written under the run lock.
    delegated: QueueBits,
    /// A lock holder needs every queue and found one busy: none is delegated until all are returned. Written under the run lock.
    reclaims: AtomicBool,
    /// How their threads learn of commands.
    to: DelegatedTo,
}

/// A bit for each queue, on a cache line that changes rarely.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct QueueBits([AtomicU64; MAX_IO_QUEUES as usize / 64 + 1]);

impl QueueBits {
    /// Whether the bit of queue `qid` is set.
    #[inline]
    pub fn contains(&self, qid: u16) -> bool {
        self.0.get(usize::from(qid / 64)).is_some_and(|word| word.load(Relaxed) & 1 << (qid % 64) != 0)
    }

    /// Whether no bit is set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// Sets the bit of queue `qid`.
    pub fn insert(&self, qid: u16) {
        self.0.get(usize::from(qid / 64)).map(|word| word.fetch_or(1 << (qid % 64), Relaxed));
    }

    fn remove(&self, qid: u16) {
        self.0.get(usize::from(qid / 64)).map(|word| word.fetch_and(!(1 << (qid % 64)), Relaxed));
    }

    /// Clears every bit, and calls `each` for those that were set.
    pub fn take(&self, mut each: impl FnMut(u16)) {
        for (at, word) in (0..).zip(&self.0) {
            let mut bits = word.swap(0, Relaxed);
            while bits != 0 {
                each(at * 64 + bits.trailing_zeros() as u16);
                bits &= bits - 1;
            }
        }
    }
}

/// The cell of one queue, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct QueueCell {
    /// Doorbells until the queue's thread takes it, or [`DELEGATED`]. A hint; the cell's content decides.
    state: AtomicU32,
    /// Doorbells that the controller serves of a queue before a thread takes it.
    first: u32,
    /// A command waits for room in the completion queue.
    blocked: AtomicBool,
    queue: Guarded<Option<Box<Delegated>>>,
}

/// A delegated queue pair, and what its thread needs to serve it.
#[derive(Debug)]
pub(crate) struct Delegated {
    pub queue: Box<DelegatedQueue>,
    pub memory: DmaView,
    pub meter: Meter,
    /// When its ledger was added to the device's, where commands are counted.
    pub absorbed_ns: u64,
}

impl Acquire for Option<Box<Delegated>> {}

impl Delegation {
    /// Cells for queues 0 to `queues` − 1; 0 for a device that delegates none.
    pub fn new(queues: u16, to: DelegatedTo) -> Self {
        let first = match to {
            DelegatedTo::Poller => UNTIL_BUSY,
            _ => 0,
        };
        let cell = |_| QueueCell {
            state: AtomicU32::new(first),
            first,
            blocked: AtomicBool::new(false),
            queue: Guarded::new(None),
        };
        Self {
            cells: (0..queues).map(cell).collect(),
            delegated: QueueBits::default(),
            reclaims: AtomicBool::new(false),
            to,
        }
    }

    /// How threads that serve delegated queues learn of commands.
    pub fn to(&self) -> DelegatedTo {
        self.to
    }

    /// The cell of queue `qid`, if it may be delegated.
    #[inline]
    pub fn cell(&self, qid: u16) -> Option<&QueueCell> {
        self.cells.get(usize::from(qid))
    }

    /// Cells of queues that are delegated.
    pub fn delegated_cells(&self) -> impl Iterator<Item = &QueueCell> {
        (0..).zip(&self.cells).filter(|(qid, _)| self.delegated.contains(*qid)).map(|(_, cell)| cell)
    }

    /// Whether any queue is delegated.
    #[inline]
    pub fn any(&self) -> bool {
        !self.delegated.is_empty()
    }

    /// Whether queue `qid` is in the controller.
    #[inline]
    pub fn is_in_controller(&self, qid: u16) -> bool {
        !self.delegated.contains(qid)
    }

    /// Notes a delegated queue.
    pub fn insert(&self, qid: u16) {
        self.delegated.insert(qid);
    }

    /// Notes a returned queue.
    pub fn remove(&self, qid: u16) {
        self.delegated.remove(qid);
    }

    /// Whether a lock holder waits for queues to be returned.
    #[inline]
    pub fn reclaims(&self) -> bool {
        self.reclaims.load(Relaxed)
    }

    /// Sets whether a lock holder waits for queues to be returned.
    pub fn set_reclaims(&self, reclaims: bool) {
        self.reclaims.store(reclaims, Relaxed);
    }
}

impl QueueCell {
    /// The queue, while it is delegated.
    pub fn queue(&self) -> &Guarded<Option<Box<Delegated>>> {
        &self.queue
    }

    /// Whether the queue is delegated, or should be.
    #[inline]
    pub fn should_delegate(&self) -> bool {
        matches!(self.state.load(Relaxed), 0 | DELEGATED)
    }

    /// Notes a doorbell that the controller serves.
    #[inline]
    pub fn note_rung(&self) {
        let left = self.state.load(Relaxed);
        if left != DELEGATED {
            // Another thread may ring the queue too, and take it in between.
            let _ = self.state.compare_exchange(left, left.saturating_sub(1), Relaxed, Relaxed);
        }
    }

    /// Notes that the queue is delegated.
    pub fn set_delegated(&self) {
        self.state.store(DELEGATED, Relaxed);
    }

    /// Notes that the queue is in the controller, which serves this many doorbells at least.
    pub fn set_in_controller(&self, doorbells: u32) {
        self.state.store(doorbells.max(self.first), Relaxed);
        self.blocked.store(false, Relaxed);
    }

    /// Notes the state of the queue after it was served.
    pub fn note_served(&self, queue: &DelegatedQueue) {
        self.blocked.store(queue.is_blocked(), Relaxed);
    }

    /// Whether a command waits for room in the completion queue.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Relaxed)
    }
}

/// The result of polling a delegated queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Polled {
    /// It was returned to the controller.
    Returned,
    /// No doorbell was rung.
    Idle,
    /// Commands were executed.
    Busy,
}
