//! Device memory that the policy divides.

use byway_tdm_policy::Config;

use crate::options::Promotion;

/// Bandwidth of the device assumed until measured, from the study.
const ASSUMED_BYTES_PER_S: u64 = 4_000_000_000;

/// Bytes for logs and resident files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rooms {
    /// Bytes for logs.
    pub(super) logs_bytes: u64,
    /// Bytes of each log.
    pub(super) log_bytes: u64,
    /// Bytes for files promoted by measured benefit; zero if only pinned files are promoted.
    pub(super) resident_bytes: u64,
}

impl Rooms {
    /// `logs_bytes` for logs of `log_bytes` each; half as many for files promoted by measured benefit.
    pub(crate) const fn new(logs_bytes: u64, log_bytes: u64, promotion: Promotion) -> Self {
        let resident_bytes = match promotion {
            Promotion::Pinned => 0,
            Promotion::ByBenefit => logs_bytes / 2,
        };
        Self { logs_bytes, log_bytes, resident_bytes }
    }

    /// The device as the policy sees it: a resident file takes places of a log's length.
    pub(super) fn config(&self) -> Config {
        Config::new(self.logs_bytes, ASSUMED_BYTES_PER_S)
            .pinned_bytes(self.resident_bytes)
            .logs_bytes(self.logs_bytes)
            .log_bytes(self.log_bytes)
            .place_bytes(self.log_bytes)
    }
}
