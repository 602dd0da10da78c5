//! The health of a device, as SMART reports it.

use byway_flash::{FlashHealth, WriteFault};
use serde::Serialize;

use super::Subsystem;

/// Critical warning: the available spare is below its threshold.
pub(crate) const WARN_SPARE: u8 = 1;
/// Critical warning: a temperature is past its threshold.
pub(crate) const WARN_TEMPERATURE: u8 = 1 << 1;
/// Critical warning: media errors made the device less reliable than it was.
pub(crate) const WARN_RELIABILITY: u8 = 1 << 2;
/// Critical warning: the media can only be read.
pub(crate) const WARN_READ_ONLY: u8 = 1 << 3;

/// Software has no temperature of its own; a drive at work reports this one.
const TEMPERATURE_K: u16 = 313;
/// Warning temperature (Identify Controller WCTEMP), and the default threshold.
pub(crate) const WARNING_K: u16 = 343;

/// Spare blocks left, in percent, below which the host is warned.
pub(crate) const SPARE_THRESHOLD_PERCENT: u8 = 10;

/// The health of a device, as SMART reports it to a host that has set no threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "named as the log page's fields are")]
pub struct Health {
    pub critical_warning: u8,
    pub temperature_k: u16,
    pub available_spare_percent: u8,
    pub percentage_used: u8,
    pub power_cycles: u64,
    pub unsafe_shutdowns: u64,
    pub media_errors: u64,
}

impl Subsystem {
    /// The health of the device.
    #[must_use]
    pub fn health(&self) -> Health {
        let (health, power) = (self.flash.health(), self.flash.power_history());
        Health {
            critical_warning: self.critical_warning(|temperature_k| temperature_k >= WARNING_K),
            temperature_k: TEMPERATURE_K,
            available_spare_percent: self.spare_percent(&health),
            percentage_used: health.percentage_used,
            power_cycles: power.power_cycles,
            unsafe_shutdowns: power.unsafe_shutdowns,
            media_errors: self.flash.counters().media_errors,
        }
    }

    /// The critical warnings now. `is_past_threshold` compares the temperature in kelvins.
    pub(crate) fn critical_warning(&self, is_past_threshold: impl Fn(u16) -> bool) -> u8 {
        let temperature = if is_past_threshold(TEMPERATURE_K) { WARN_TEMPERATURE } else { 0 };
        let health = self.flash.health();
        let read_only = if self.flash.is_read_only() || health.worn_out { WARN_READ_ONLY } else { 0 };
        let spare = if self.spare_percent(&health) < SPARE_THRESHOLD_PERCENT { WARN_SPARE } else { 0 };
        let reliability = if self.has_lost_stores() { WARN_RELIABILITY } else { 0 };
        temperature | read_only | spare | reliability
    }

    /// Spare blocks left in percent; 0 where the disk below is full, as no page can be written to another place then.
    fn spare_percent(&self, health: &FlashHealth) -> u8 {
        match self.flash.write_fault() {
            Some(WriteFault::DiskFull) => 0,
            _ => health.available_spare_percent,
        }
    }
}
