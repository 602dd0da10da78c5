//! Counters of a device at one moment.

use byway_controller::{CommandSnapshot, Health, NamespaceSpace, StallSnapshot};
use byway_flash::{FlashCounters, FlashHealth};
use byway_link::Ledger;

/// Counters and health of a device.
#[derive(Debug, Clone)]
pub struct DeviceSnapshot {
    /// Commands of hosts, where they are [counted](byway_controller::Subsystem::count_commands).
    pub commands: CommandSnapshot,
    /// Transactions on the device's link, where they are counted; a fabric has none. Those of delegated queues are up to
    /// [`ABSORB_NS`] old.
    pub ledger: Ledger,
    /// Operations of the flash.
    pub flash: FlashCounters,
    /// Wear of the flash.
    pub wear: FlashHealth,
    /// Health of the subsystem.
    pub health: Health,
    /// What commands waited for.
    pub stalls: StallSnapshot,
    /// How full each namespace is, attached to a controller or not.
    pub space: Vec<NamespaceSpace>,
    /// I/O queues of all controllers.
    pub io_queues: usize,
}

/// How often delegated queues add their ledgers to the device's, where commands are counted, in nanoseconds.
pub const ABSORB_NS: u64 = 50_000_000;
