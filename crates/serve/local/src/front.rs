//! The device as a bridge to hosts in other processes has it in hand.
//!
//! Whoever takes a host's messages marks the doorbells that it rings and then runs the device, in its own thread; several
//! threads may do so. Addresses are the host's own: it says what stands where in the device's space.

use std::sync::Arc;
use std::time::Duration;

use byway_dma::DmaSpace;
use byway_link::ClockMode;
use byway_queue::DoorbellIndex;
use byway_sys::{Mapping, Wakeup};

use crate::device::Companion;
use crate::runner::Runner;
use crate::served::Post;
use crate::shared::{Failed, Shared};

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
    /// Reads the 4 bytes of the register space at `offset`, a multiple of 4. Waits for nobody.
    ///
    /// # Errors
    /// The device has failed.
    pub fn read_register(&self, offset: u32) -> Result<u32, Failed> {
        self.shared.host_meter.register_read(4);
        self.check()?;
        Ok(self.shared.served.as_ref().map_or(0, |served| served.register(offset)))
    }

    /// Writes the 4 bytes of the register space at `offset`, a multiple of 4. Waits for nobody: what the write asks for is
    /// begun at once, or when whoever runs the device comes to it, and CSTS says when it is done.
    ///
    /// # Errors
    /// The device has failed.
    pub fn write_register(&self, offset: u32, value: u32) -> Result<(), Failed> {
        self.shared.host_meter.register_write(4);
        match &self.shared.served {
            Some(served) => self.shared.post(served, Post::Write { offset, value }),
            None => Ok(()),
        }
    }

    /// Whether the device can be used.
    ///
    /// # Errors
    /// The device has failed.
    pub fn check(&self) -> Result<(), Failed> {
        if self.shared.has_failed() { Err(Failed::Panicked) } else { Ok(()) }
    }

    /// Can be read once a thread of the device's own has left it with something due, or failed.
    #[must_use]
    pub fn notifier(&self) -> Option<&Wakeup> {
        self.shared.served.as_ref().map(|served| &served.bell)
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
        if !shared.is_written(*rung) && !shared.has_work() {
            return false;
        }
        if self.runs_apart() {
            shared.bed.wake();
        } else {
            shared.take_written_and_run(rung);
        }
        true
    }

    /// Whether a thread of the device's own runs it.
    fn runs_apart(&self) -> bool {
        self.shared.served.as_ref().is_some_and(|served| served.runs_apart)
    }

    /// Serves what was rung and what is due. If another thread runs the device now, that one serves it.
    #[inline]
    pub fn run(&self) {
        if self.runs_apart() {
            self.shared.bed.wake();
        } else if self.shared.has_work() {
            self.shared.run_here();
        }
    }

    /// Looks at doorbells in memory of hosts and serves what was rung there, so that they need not ring until
    /// [`Front::stop_polling_buffers`]. Says whether anything was; `None` where there are no such doorbells, or nobody needs to look.
    pub fn poll_doorbell_buffers(&self) -> Option<bool> {
        let served = self.shared.served.as_ref()?;
        if served.runs_apart || !served.has_doorbell_buffers() {
            return None;
        }
        served.watch(true);
        let mut found = false;
        self.shared.core.run_or_leave_word(
            || {},
            |core, _| {
                let before = core.controller.doorbells_seen();
                core.run_now(&self.shared);
                found |= core.controller.doorbells_seen() != before;
            },
        );
        Some(found)
    }

    /// Nobody looks any more: hosts ring from here on. What was rung until then is served.
    pub fn stop_polling_buffers(&self) {
        if let Some(served) = &self.shared.served {
            served.watch(false);
            self.shared.run_here();
        }
    }

    /// Serves what was rung until nothing is left of it that can be done without the host, and syncs the image for commands
    /// that wait for that.
    ///
    /// # Errors
    /// The device has failed.
    pub fn finish(&self) -> Result<(), Failed> {
        for _ in 0..LAST_RUNS {
            let more = self.shared.with_core(|core| {
                self.shared.take_written(usize::MAX);
                core.run_now(&self.shared);
                let more = core.controller.has_deferred(&core.subsystem);
                if more {
                    core.do_put_off(&self.shared);
                }
                more
            })?;
            if !more && !self.shared.is_due() {
                break;
            }
        }
        self.shared.sync(None);
        Ok(())
    }

    /// For how long nothing is to be done unless a doorbell is rung; `None` is for ever.
    #[must_use]
    pub fn idle_time(&self) -> Option<Duration> {
        let due_ps = self.shared.deadline_ps().filter(|_| !self.runs_apart())?;
        match self.shared.clock.mode() {
            ClockMode::Paced => {
                Some(Duration::from_nanos(due_ps.saturating_sub(self.shared.clock.now_ps()) / 1000))
            }
            _ => self.shared.is_due().then_some(Duration::ZERO),
        }
    }

    /// Function level reset: controller and queues are as after power-on. When it returns, nothing of the host's memory is
    /// touched until it enables the controller again. Waits for nobody: what the device is doing ends by itself, and before
    /// it does anything else the reset is made; what is written to registers meanwhile comes after it.
    ///
    /// # Errors
    /// The device has failed.
    pub fn reset(&self) -> Result<(), Failed> {
        if let Some(served) = &self.shared.served {
            served.watch(false);
        }
        self.post(Post::Reset)?;
        self.shared.settle()
    }

    fn post(&self, post: Post) -> Result<(), Failed> {
        self.shared.served.as_ref().map_or(Ok(()), |served| self.shared.post(served, post))
    }

    /// Bytes of device memory: the windows of every namespace there may be.
    #[must_use]
    pub fn device_memory_bytes(&self) -> u64 {
        self.shared.windows.len_bytes
    }

    /// Has the host store into `memory` from now on, which is as long as the device's memory; into none with `None`. A
    /// command that says a value is there has it copied from there. What the device is doing goes on with what was shared
    /// before.
    ///
    /// # Errors
    /// The device has failed.
    pub fn share_device_memory(&self, memory: Option<Arc<Mapping>>) -> Result<(), Failed> {
        self.post(Post::DeviceMemory(memory))
    }

    /// Which of the host's memory stands where.
    #[must_use]
    pub fn space(&self) -> &Arc<DmaSpace> {
        &self.shared.space
    }

    /// Returns once no access is under way to memory that was unmapped or hidden before: after the rest of a copy at most. The
    /// device gives it back as soon as it looks.
    ///
    /// # Errors
    /// The device has failed.
    pub fn quiesce_dma(&self) -> Result<(), Failed> {
        self.post(Post::LetGo)?;
        self.shared.settle()
    }
}
