//! SMART / Health Information (log page 02h) and the temperature thresholds behind its warnings.

use byway_spec::base::feature::TemperatureThreshold;
use byway_spec::base::log::SmartLog;
use zerocopy::{FromZeros, IntoBytes};

use crate::error::CommandError;
use crate::subsystem::{SPARE_THRESHOLD_PERCENT, Subsystem, WARNING_K};

/// Critical temperature (Identify Controller CCTEMP).
pub(super) const CRITICAL_K: u16 = 353;

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

    /// Whether a temperature is past one of them.
    pub fn are_crossed_by(&self, temperature_k: u16) -> bool {
        temperature_k >= self.over_k || temperature_k <= self.under_k
    }
}

const NO_SENSOR: CommandError = CommandError::invalid_field("no such temperature sensor").at_byte(46);

/// The critical warnings now.
pub(super) fn critical_warning(subsystem: &Subsystem, thresholds: &Thresholds) -> u8 {
    subsystem.critical_warning(|temperature_k| thresholds.are_crossed_by(temperature_k))
}

/// The log page.
pub(super) fn page(subsystem: &Subsystem, thresholds: &Thresholds) -> Vec<u8> {
    let (counters, health) = (subsystem.flash().counters(), subsystem.health());
    let host = counters.host;
    let mut log = SmartLog::new_zeroed();
    log.critical_warning = critical_warning(subsystem, thresholds);
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
    log.error_entries = u128::from(counters.error_entries).into();
    log.as_bytes().to_vec()
}
