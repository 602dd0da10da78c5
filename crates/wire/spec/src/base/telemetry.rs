//! Telemetry log pages (07h and 08h; Base 2.1, sections 5.1.12.1.8 and 5.1.12.1.9): a header, then blocks of data.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::log::LogPage;

/// Bytes of the header and of each block of data. Offsets and lengths are multiples of it.
pub const TELEMETRY_BLOCK_BYTES: usize = 512;

open_enum! {
    /// What a telemetry page is of.
    pub struct TelemetryScope(u8) {
        NOT_REPORTED = 0x0 "not reported",
        CONTROLLER = 0x1 "controller",
        SUBSYSTEM = 0x2 "NVM subsystem",
    }
}

/// Log specific parameter of the host-initiated page (LSP, 7 bits of CDW10 from bit 8 on).
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct TelemetryLsp {
    /// Capture the state anew (CTHID).
    pub create: bool,
    /// Last data area to create (MCDA), where the entry of page 07h in the supported pages has bit 0 of its own set.
    #[bits(3)]
    pub last_area: u8,
    #[bits(4)]
    __: u8,
}

/// Header of both pages. Each data area begins at block 1: a later area holds those before it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct TelemetryHeader {
    /// Which of both pages it is.
    pub lid: LogPage,
    /// Reserved.
    pub reserved_1: [u8; 4],
    /// IEEE OUI of the vendor that can read the data, 0 for none.
    pub ieee: [u8; 3],
    /// Last block of data areas 1 to 3; 0 for no data.
    pub last_blocks: [u16; 3],
    /// Reserved.
    pub reserved_14: [u8; 2],
    /// Last block of data area 4, of a controller that has it (LPA bit 6).
    pub area4_last_block: u32,
    /// Reserved.
    pub reserved_20: [u8; 360],
    /// Scope of the host-initiated page; reserved in the other.
    pub host_scope: TelemetryScope,
    /// Host-initiated page: its generation, which goes up with each capture, and after FFh to 0. The other: its [scope](Self::scope).
    pub host_generation: u8,
    /// 1 while the controller-initiated page holds data.
    pub controller_data: u8,
    /// Generation of the controller-initiated page.
    pub controller_generation: u8,
    /// What the controller was in when it captured: vendor specific.
    pub reason: [u8; 128],
}

assert_size! { TelemetryHeader = TELEMETRY_BLOCK_BYTES; }
assert_offset! { TelemetryHeader {
    ieee = 5, last_blocks = 8, area4_last_block = 16, host_scope = 380, host_generation = 381, controller_data = 382,
    controller_generation = 383, reason = 384,
} }

impl TelemetryHeader {
    /// What the page is of.
    #[must_use]
    pub fn scope(&self) -> TelemetryScope {
        match self.lid {
            LogPage::TELEMETRY_CONTROLLER => TelemetryScope(self.host_generation),
            _ => self.host_scope,
        }
    }

    /// Last block of data areas 1 to `area`; 0 for no data.
    #[must_use]
    pub fn last_block(&self, area: u8) -> u32 {
        let last = self.last_blocks.iter().take(area.into()).max().map_or(0, |last| u32::from(*last));
        if area > 3 { last.max(self.area4_last_block) } else { last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn each_area_ends_where_the_header_says_and_holds_those_before_it() {
        let header = TelemetryHeader {
            last_blocks: [1, 2, 0x103],
            area4_last_block: 0x1_0000,
            ..TelemetryHeader::new_zeroed()
        };
        assert_eq!([1, 2, 3, 4].map(|area| header.last_block(area)), [1, 2, 0x103, 0x1_0000]);
        let without = TelemetryHeader { area4_last_block: 0, ..header };
        assert_eq!(without.last_block(4), 0x103, "a controller without area 4");
        assert_eq!(header.as_bytes()[8..20], [1, 0, 2, 0, 3, 1, 0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn scope_is_at_byte_380_of_page_07h_and_at_381_of_page_08h() {
        let mut header = TelemetryHeader::new_zeroed();
        (header.lid, header.host_scope, header.host_generation) =
            (LogPage::TELEMETRY_HOST, TelemetryScope::CONTROLLER, 2);
        assert_eq!(header.scope(), TelemetryScope::CONTROLLER);
        assert_eq!(header.as_bytes()[380..382], [1, 2]);
        header.lid = LogPage::TELEMETRY_CONTROLLER;
        assert_eq!(header.scope(), TelemetryScope::SUBSYSTEM);
    }

    #[test]
    fn create_is_bit_0_and_the_last_area_bits_3_to_1() {
        assert_eq!(TelemetryLsp::new().with_create(true).with_last_area(4).into_bits(), 0b1001);
    }
}
