//! State guarded by the run lock.

use std::sync::Arc;

use byway_controller::{Controller, Subsystem, TallyCounts};
use byway_dma::DmaView;
use byway_link::Meter;
use byway_sys::Mapping;

use crate::fabric::FabricControllers;
use crate::guarded::{Acquire, Readable};

/// State guarded by the run lock.
#[derive(Debug)]
pub(crate) struct Core {
    pub subsystem: Subsystem,
    pub controller: Controller,
    pub memory: DmaView,
    pub meter: Meter,
    /// Device memory that a host in another process stores into.
    pub device_memory: Option<Arc<Mapping>>,
    /// Controllers of hosts over fabrics.
    pub fabric: FabricControllers,
    /// What was counted of each serving thread's tally.
    pub tallied: Box<[TallyCounts]>,
}

impl Acquire for Core {
    #[inline]
    fn acquired(&mut self) {
        self.subsystem.take_in_stores();
    }

    #[inline]
    fn begin_hold(&mut self) {
        self.subsystem.begin_hold();
    }
}

// SAFETY: `part` returns a reference to the field `subsystem` of this value, and reaches no other field.
#[expect(unsafe_code, reason = "`part` reaches nothing but the part")]
unsafe impl Readable for Core {
    type Part = Subsystem;

    #[inline]
    fn part(&self) -> &Subsystem {
        &self.subsystem
    }
}

impl Core {
    /// Whether commands of any controller wait for a sync that has not begun.
    #[inline]
    pub fn wants_sync(&self) -> bool {
        self.controller.wants_sync() || self.fabric.wants_sync()
    }

    /// Begins a sync for every command that waits for one.
    pub fn begin_sync(&mut self) -> Option<byway_controller::PendingSync> {
        let mine = self.controller.cover();
        let any = self.fabric.cover() || mine;
        any.then(|| self.subsystem.begin_sync())
    }
}
