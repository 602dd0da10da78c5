//! Upkeep by threads that have nothing to execute: what is shared of it without the run lock (decision 0077).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::parker::Parker;

/// Which threads do upkeep ahead of the commands that would pay for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpkeepBy {
    /// None: each command pays its share.
    Off,
    /// Those that serve or poll queues, while they have nothing to execute.
    #[default]
    Idle,
    /// The same, and a thread of the device's own.
    Thread,
}

/// Whether upkeep is due, on a cache line that changes rarely.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Upkeep {
    by: UpkeepBy,
    /// A step is worth doing, as of the last holder of the run lock. Changed under it.
    is_owed: AtomicBool,
    /// Where the device's own thread for it parks.
    parker: Parker,
}

impl Upkeep {
    pub fn new(by: UpkeepBy) -> Self {
        Self { by, is_owed: AtomicBool::new(false), parker: Parker::default() }
    }

    /// Whether threads do upkeep ahead.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.by != UpkeepBy::Off
    }

    /// Whether the device has a thread of its own for it.
    pub fn has_thread(&self) -> bool {
        self.by == UpkeepBy::Thread
    }

    /// Whether a step is worth doing.
    #[inline]
    pub fn is_owed(&self) -> bool {
        self.is_owed.load(Relaxed)
    }

    /// Sets whether a step is worth doing, under the run lock; wakes the thread that waits for that.
    #[inline]
    pub fn set_owed(&self, is_owed: bool) {
        if is_owed != self.is_owed() {
            self.is_owed.store(is_owed, Relaxed);
            if is_owed {
                self.parker.wake();
            }
        }
    }

    /// Where the device's own thread parks.
    pub fn parker(&self) -> &Parker {
        &self.parker
    }
}

/// How a quantum of upkeep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantum {
    /// Nothing is due.
    Nothing,
    /// Another thread runs the device.
    Busy,
    /// Steps were done.
    Done,
}
