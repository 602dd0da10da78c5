//! Telemetry (log pages 07h and 08h; Base 2.1, sections 5.1.12.1.8, 5.1.12.1.9 and 8.1.27).
//!
//! A host has its controller capture state, then reads the capture in parts. The capture stays the same until the next one, over resets
//! of the controller too. Its data is [one JSON text](super::telemetry_report) in data area 1. Areas 2 and 3 end where area 1 does,
//! and there is no area 4 (LPA bit 6).
//!
//! The controller captures nothing by itself: page 08h is its header. What fails is announced by SMART and its events and stands in the
//! error log, and a host that sees it captures. Data of page 08h would have to be kept in the image over power cycles, and what
//! would be in it the image keeps already: health and counters.

use byway_spec::base::log::LogPage;
use byway_spec::base::telemetry::{TELEMETRY_BLOCK_BYTES, TelemetryHeader, TelemetryScope};
use zerocopy::{FromZeros, IntoBytes};

use super::context::Context;
use super::{AdminState, health, telemetry_report};
use crate::error::CommandError;
use crate::subsystem::{WARN_READ_ONLY, WARN_RELIABILITY, WARN_SPARE, WARN_TEMPERATURE};

/// Reason identifier of a capture without critical warnings.
const HEALTHY: &str = "healthy";

/// Words of the reason identifier for each critical warning.
const WARNINGS: [(u8, &str); 4] = [
    (WARN_SPARE, "spare"),
    (WARN_TEMPERATURE, "temperature"),
    (WARN_RELIABILITY, "reliability"),
    (WARN_READ_ONLY, "read-only"),
];

/// The host-initiated page.
#[derive(Debug, Default)]
pub(super) struct Telemetry {
    /// Captures so far, modulo 256.
    generation: u8,
    /// What describes the state, ASCII: reason identifier of the last capture.
    reason: String,
    /// The last capture, whole blocks. Empty before the first.
    data: Vec<u8>,
}

impl Telemetry {
    fn keep(&mut self, reason: String, mut data: Vec<u8>) {
        // JSON may end in spaces.
        data.resize(data.len().next_multiple_of(TELEMETRY_BLOCK_BYTES), b' ');
        *self = Self { generation: self.generation.wrapping_add(1), reason, data };
    }

    /// The page as it was last captured; the header alone before the first capture.
    pub fn host_page(&self) -> Vec<u8> {
        // A report has at most 1 MiB (`telemetry_report`): 2048 blocks.
        let last_block = (self.data.len() / TELEMETRY_BLOCK_BYTES) as u16;
        let mut header = TelemetryHeader {
            lid: LogPage::TELEMETRY_HOST,
            last_blocks: [last_block; 3],
            host_scope: TelemetryScope::CONTROLLER,
            host_generation: self.generation,
            ..TelemetryHeader::new_zeroed()
        };
        header.reason.iter_mut().zip(self.reason.bytes()).for_each(|(to, from)| *to = from);
        [header.as_bytes(), &self.data].concat()
    }
}

/// The controller-initiated page: a header without data.
pub(super) fn controller_page() -> Vec<u8> {
    let header = TelemetryHeader {
        lid: LogPage::TELEMETRY_CONTROLLER,
        host_generation: TelemetryScope::CONTROLLER.0,
        ..TelemetryHeader::new_zeroed()
    };
    header.as_bytes().to_vec()
}

/// Refuses parts of a telemetry page that are not whole blocks.
pub(super) fn check(offset_bytes: u64, len_bytes: u64) -> Result<(), CommandError> {
    const BLOCK: u64 = TELEMETRY_BLOCK_BYTES as u64;
    if !offset_bytes.is_multiple_of(BLOCK) {
        let cause = "an offset into telemetry is a multiple of 512";
        return Err(CommandError::invalid_field(cause).at_byte(48));
    }
    if !len_bytes.is_multiple_of(BLOCK) {
        return Err(CommandError::invalid_field("telemetry is read by blocks of 512 bytes").at_byte(42));
    }
    Ok(())
}

impl AdminState {
    /// Captures the state anew.
    pub(super) fn capture_telemetry(&mut self, cx: &Context<'_, '_>) {
        let warnings = health::critical_warning(cx.subsystem, self.features.thresholds());
        let report = telemetry_report::report(cx, &self.errors, self.now_ps);
        self.telemetry.keep(reason(warnings), report);
    }
}

/// Words for the critical warnings.
fn reason(warnings: u8) -> String {
    let words: Vec<&str> =
        WARNINGS.into_iter().filter(|(bit, _)| warnings & bit != 0).map(|(_, word)| word).collect();
    if words.is_empty() { HEALTHY.to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_names_every_critical_warning_and_fits_its_field() {
        assert_eq!(reason(0), "healthy");
        assert_eq!(reason(WARN_SPARE | WARN_READ_ONLY), "spare read-only");
        assert!(reason(u8::MAX).len() <= 128);
    }
}
