//! SMART / Health Information (log page 02h) and the temperatures behind its warnings.

use byway_flash::{FlashHealth, Trouble};
use byway_spec::base::feature::TemperatureThreshold;
use byway_spec::base::log::SmartLog;
use zerocopy::{FromZeros, IntoBytes};

use crate::controller::Controller;
use crate::error::CommandError;
use crate::subsystem::Subsystem;

/// Critical warning: the available spare is below its threshold.
pub(super) const WARN_SPARE: u8 = 1;
/// Critical warning: a temperature is past its threshold.
pub(super) const WARN_TEMPERATURE: u8 = 1 << 1;
/// Critical warning: media errors made the device less reliable than it was.
pub(super) const WARN_RELIABILITY: u8 = 1 << 2;
/// Critical warning: the media can only be read.
pub(super) const WARN_READ_ONLY: u8 = 1 << 3;

/// Software runs at no temperature of its own; this is what a drive at work says.
const TEMPERATURE_K: u16 = 313;
/// Warning temperature (Identify Controller WCTEMP).
pub(super) const WARNING_K: u16 = 343;
/// Critical temperature (Identify Controller CCTEMP).
pub(super) const CRITICAL_K: u16 = 353;

/// Spare blocks left, in percent, below which the host is warned.
const SPARE_THRESHOLD_PERCENT: u8 = 10;

/// Data units of the log: a thousand blocks of 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;

/// The composite temperature's thresholds (feature 04h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thresholds {
    over_k: u16,
    under_k: u16,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { over_k: WARNING_K, under_k: 0 }
    }
}

impl Thresholds {
    const COMPOSITE: u8 = 0;
    const ALL_SENSORS: u8 = 0xf;

    /// The threshold that `which` selects.
    pub fn get(&self, which: TemperatureThreshold) -> Result<TemperatureThreshold, CommandError> {
        let kelvins = match (which.tmpsel(), which.thsel()) {
            (Self::COMPOSITE, 0) => self.over_k,
            (Self::COMPOSITE, 1) => self.under_k,
            _ => return Err(NO_SENSOR),
        };
        Ok(which.with_tmpth_k(kelvins))
    }

    /// Sets the threshold that `to` selects.
    pub fn set(&mut self, to: TemperatureThreshold) -> Result<(), CommandError> {
        match (to.tmpsel(), to.thsel()) {
            (Self::COMPOSITE | Self::ALL_SENSORS, 0) => self.over_k = to.tmpth_k(),
            (Self::COMPOSITE | Self::ALL_SENSORS, 1) => self.under_k = to.tmpth_k(),
            _ => return Err(NO_SENSOR),
        }
        Ok(())
    }

    fn are_crossed(&self) -> bool {
        TEMPERATURE_K >= self.over_k || TEMPERATURE_K <= self.under_k
    }
}

const NO_SENSOR: CommandError = CommandError::invalid_field("no such temperature sensor").at_byte(46);

/// The critical warnings that stand.
pub(super) fn critical_warning(subsystem: &Subsystem, thresholds: &Thresholds) -> u8 {
    let temperature = if thresholds.are_crossed() { WARN_TEMPERATURE } else { 0 };
    let health = subsystem.flash.health();
    let read_only = if subsystem.flash.is_read_only() || health.worn_out { WARN_READ_ONLY } else { 0 };
    let spare = if spare_percent(subsystem, &health) < SPARE_THRESHOLD_PERCENT { WARN_SPARE } else { 0 };
    let reliability = if subsystem.has_lost_stores() { WARN_RELIABILITY } else { 0 };
    temperature | read_only | spare | reliability
}

/// Spare blocks left; none where the disk below has no room: then no flash page is left that could be taken instead of
/// another.
fn spare_percent(subsystem: &Subsystem, health: &FlashHealth) -> u8 {
    match subsystem.flash.trouble() {
        Some(Trouble::DiskFull) => 0,
        _ => health.available_spare_percent,
    }
}

/// How a device is, as SMART tells it to a host that has set no threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// How the device is.
    #[must_use]
    pub fn health(&self) -> Health {
        let (health, power) = (self.flash.health(), self.flash.power_history());
        Health {
            critical_warning: critical_warning(self, &Thresholds::default()),
            temperature_k: TEMPERATURE_K,
            available_spare_percent: spare_percent(self, &health),
            percentage_used: health.percentage_used,
            power_cycles: power.power_cycles,
            unsafe_shutdowns: power.unsafe_shutdowns,
            media_errors: self.flash.counters().media_errors,
        }
    }
}

impl Controller {
    /// The log page.
    pub(super) fn smart_page(&self, subsystem: &Subsystem) -> Vec<u8> {
        let flash = &subsystem.flash;
        let (host, health) = (flash.counters().host, subsystem.health());
        let mut log = SmartLog::new_zeroed();
        log.critical_warning = critical_warning(subsystem, &self.admin.features.thresholds);
        log.temperature_k = health.temperature_k.into();
        log.spare_percent = health.available_spare_percent;
        log.spare_threshold_percent = SPARE_THRESHOLD_PERCENT;
        log.used_percent = health.percentage_used;
        log.data_units_read = u128::from(host.read_bytes.div_ceil(DATA_UNIT_BYTES)).into();
        log.data_units_written = u128::from(host.written_bytes.div_ceil(DATA_UNIT_BYTES)).into();
        log.host_reads = u128::from(host.reads).into();
        log.host_writes = u128::from(host.writes).into();
        log.power_cycles = u128::from(health.power_cycles).into();
        log.unsafe_shutdowns = u128::from(health.unsafe_shutdowns).into();
        log.media_errors = u128::from(health.media_errors).into();
        log.error_entries = u128::from(self.admin.errors.count()).into();
        log.as_bytes().to_vec()
    }
}
