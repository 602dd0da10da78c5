//! The device as a bridge to hosts in other processes has it in hand.
//!
//! Whoever takes a host's messages marks the doorbells that it rings and then runs the device, in its own thread; several
//! threads may do so. Addresses are the host's own: it says what stands where in the device's space.

use std::sync::Arc;
use std::time::Duration;

use byway_dma::DmaSpace;
use byway_link::ClockMode;
use byway_queue::DoorbellIndex;

use crate::device::{Companion, Failed, Shared};
use crate::runner::Runner;

/// Runs for a host whose service ends: more than it can have rung for by then. It may ring for more meanwhile.
const LAST_RUNS: u32 = 64;

/// One controller, for hosts elsewhere: one after the other.
#[derive(Debug, Clone)]
pub struct Front {
    // Declared first, so that it is gone before the image is closed.
    pub(crate) _companion: Option<Companion>,
    pub(crate) shared: Arc<Shared>,
    /// The device runs for as long as somebody reaches it.
    pub(crate) _runners: Arc<Vec<Runner>>,
}

impl Front {
    /// Reads the 4 bytes of the register space at `offset`, a multiple of 4.
    ///
    /// # Errors
    /// The device has failed.
    pub fn read_register(&self, offset: u32) -> Result<u32, Failed> {
        self.shared.host_meter.register_read(4);
        self.shared.with_core(|core| core.controller.read_register(offset))
    }

    /// Writes the 4 bytes of the register space at `offset`, a multiple of 4, and does what the write asks for.
    ///
    /// # Errors
    /// The device has failed.
    pub fn write_register(&self, offset: u32, value: u32) -> Result<(), Failed> {
        let shared = &*self.shared;
        shared.host_meter.register_write(4);
        shared.with_core(|core| {
            core.controller.write_register(&mut core.subsystem, &shared.doorbells, offset, value);
        })
    }

    /// Takes a doorbell write. It is served by the next [`Front::run`].
    #[inline]
    pub fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        let doorbells = &self.shared.doorbells;
        if !doorbells.is_shared() {
            self.shared.host_meter.doorbell(doorbell.place());
        }
        doorbells.write(doorbell, value);
    }

    /// Serves what hosts wrote to doorbells in shared memory, and what is due; whether there was any of it. What was
    /// written twice since the last look counts once.
    ///
    /// `rung` is how many queues may have been rung so far: only those are looked at, and all every now and then.
    #[inline]
    pub fn poll(&self, rung: &mut usize) -> bool {
        let shared = &*self.shared;
        if !shared.doorbells.is_written(*rung) && !shared.has_work() {
            return false;
        }
        shared.core.run_or_leave_word(
            || {},
            |core, _| {
                *rung = self.take_written().max(1);
                core.run_now(shared);
            },
        );
        true
    }

    fn take_written(&self) -> usize {
        let meter = &self.shared.host_meter;
        self.shared.doorbells.take_written(|index| meter.doorbell(index.place()))
    }

    /// Serves what was rung and what is due. If another thread runs the device now, that one serves it.
    #[inline]
    pub fn run(&self) {
        if self.shared.has_work() {
            self.shared.run_now();
        }
    }

    /// Serves what was rung until nothing is left of it that can be done without the host, and syncs the image for commands
    /// that wait for that.
    ///
    /// # Errors
    /// The device has failed.
    pub fn finish(&self) -> Result<(), Failed> {
        for _ in 0..LAST_RUNS {
            self.shared.with_core(|core| {
                self.take_written();
                core.run_now(&self.shared);
            })?;
            if !self.shared.is_due() {
                break;
            }
        }
        self.shared.sync(None);
        Ok(())
    }

    /// For how long nothing is to be done unless a doorbell is rung; `None` is for ever.
    #[must_use]
    pub fn rests_for(&self) -> Option<Duration> {
        let due_ps = self.shared.deadline_ps()?;
        match self.shared.clock.mode() {
            ClockMode::Paced => {
                Some(Duration::from_nanos(due_ps.saturating_sub(self.shared.clock.now_ps()) / 1000))
            }
            _ => self.shared.is_due().then_some(Duration::ZERO),
        }
    }

    /// Function level reset: controller and queues are as after power-on. When it returns, nothing of the host's memory is
    /// touched until it enables the controller again.
    ///
    /// # Errors
    /// The device has failed.
    pub fn reset(&self) -> Result<(), Failed> {
        let doorbells = &self.shared.doorbells;
        self.shared.with_core(|core| core.controller.reset_function(&mut core.subsystem, doorbells))
    }

    /// Which of the host's memory stands where.
    #[must_use]
    pub fn space(&self) -> &Arc<DmaSpace> {
        &self.shared.space
    }

    /// Returns once no access is under way to memory that was unmapped before, and the device holds none of it.
    ///
    /// # Errors
    /// The device has failed.
    pub fn let_go(&self) -> Result<(), Failed> {
        self.shared.with_core(|core| core.memory.refresh())
    }
}
