//! What a device has done so far, for whoever watches it: read with the device in hand, and with queues on leave left alone.

use byway_controller::{CommandSnapshot, Health};
use byway_flash::{FlashCounters, FlashHealth};
use byway_link::Ledger;
use byway_sys::time::monotonic_ns;

use crate::core::Core;
use crate::device::Handle;
use crate::shared::Shared;

/// What a device has done so far, and how it is.
#[derive(Debug, Clone)]
pub struct DeviceSnapshot {
    /// Commands of hosts, where they are [counted](byway_controller::Subsystem::count_commands).
    pub commands: CommandSnapshot,
    /// What crossed the device's link, where that is counted: nothing of a fabric does. That of queues on leave is up to
    /// [`ABSORB_NS`] older.
    pub ledger: Ledger,
    /// Operations of the flash.
    pub flash: FlashCounters,
    /// How the flash holds up.
    pub wear: FlashHealth,
    /// How the device is.
    pub health: Health,
    /// Namespaces, attached to a controller or not.
    pub namespaces: usize,
    /// I/O queues of all controllers.
    pub io_queues: usize,
}

/// How often queues on leave hand in what they counted, where somebody wants to know, in nanoseconds.
pub const ABSORB_NS: u64 = 50_000_000;

impl Handle {
    /// What the device has done so far; `None` once it is closed or has failed. Queues on leave stay there.
    #[must_use]
    pub fn snapshot(&self) -> Option<DeviceSnapshot> {
        let shared = self.shared.upgrade()?;
        let mut snapshot = shared.core.run(|core| core.snapshot(), |core| core.run_now(&shared))?;
        snapshot.ledger.merge(&shared.host_meter.ledger());
        Some(snapshot)
    }
}

impl Core {
    fn snapshot(&self) -> DeviceSnapshot {
        let Self { subsystem, controller, meter, capsules, .. } = self;
        DeviceSnapshot {
            commands: subsystem.command_snapshot(),
            ledger: *meter.ledger(),
            flash: *subsystem.flash.counters(),
            wear: subsystem.flash.health(),
            health: subsystem.health(),
            namespaces: subsystem.namespaces().count(),
            io_queues: controller.io_queues() + capsules.io_queues(),
        }
    }

    /// Does `work` on commands that have waited since `since_ns`, where they are counted.
    #[inline]
    pub fn counting<R>(&mut self, shared: &Shared, since_ns: u64, work: impl FnOnce(&mut Self) -> R) -> R {
        if !shared.is_counting {
            return work(self);
        }
        self.subsystem.begin_commands(since_ns);
        let done = work(self);
        self.subsystem.end_commands(monotonic_ns);
        done
    }
}

impl Shared {
    /// The time, where commands are counted.
    #[inline]
    pub(crate) fn counting_since_ns(&self) -> u64 {
        if self.is_counting { monotonic_ns() } else { 0 }
    }
}
