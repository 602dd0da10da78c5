//! Counters of the device.

use byway_sys::time::monotonic_ns;

use super::Executor;
use crate::core::Core;
use crate::snapshot::DeviceSnapshot;

impl Core {
    fn snapshot(&self) -> DeviceSnapshot {
        let Self { subsystem, controller, meter, fabric, .. } = self;
        DeviceSnapshot {
            commands: subsystem.command_snapshot(),
            ledger: *meter.ledger(),
            flash: *subsystem.flash().counters(),
            wear: subsystem.flash().health(),
            health: subsystem.health(),
            stalls: subsystem.stall_snapshot(),
            space: subsystem.space_snapshot(),
            io_queues: controller.io_queues() + fabric.io_queues(),
        }
    }

    /// Runs `work` on commands that have waited since `since_ns`, with their times counted if commands are counted.
    #[inline]
    pub(crate) fn counting<R>(
        &mut self,
        executor: &Executor,
        since_ns: u64,
        work: impl FnOnce(&mut Self) -> R,
    ) -> R {
        if !executor.is_counting {
            return work(self);
        }
        self.subsystem.begin_commands(since_ns);
        let done = work(self);
        self.subsystem.end_commands(monotonic_ns);
        done
    }
}

impl Executor {
    /// The counters; `None` on a failed device. Delegated queues stay delegated.
    pub(crate) fn snapshot(&self) -> Option<DeviceSnapshot> {
        let mut snapshot = self
            .with_core_only(|core| {
                core.count_tallies(self);
                core.snapshot()
            })
            .ok()?;
        snapshot.ledger.merge(&self.host_meter.ledger());
        Some(snapshot)
    }

    /// The time if commands are counted, else 0.
    #[inline]
    pub(crate) fn counting_since_ns(&self) -> u64 {
        if self.is_counting { monotonic_ns() } else { 0 }
    }
}
