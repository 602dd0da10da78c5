//! `gen5x4`: the drive of `gen4x4` a generation on: twice the link, and NAND and firmware of its time.
//!
//! Only what a faster link and newer NAND change is set here. All of it is assumed; the rest is as in `gen4x4`.

use super::{gen4x4, ns};
use crate::cxl::{CxlLink, Flit};
use crate::pcie::PcieLink;
use crate::profile::{Firmware, FlashProfile, Profile};

pub fn profile() -> Profile {
    Profile {
        name: "gen5x4",
        link: PcieLink::usual(5, 4),
        cxl: CxlLink { flit: Flit::Bytes68 },
        cxl_native: false,
        // Latency does not shrink with the rate: the host's memory and the controller's logic make it.
        times: gen4x4::LINK_TIMES,
        firmware: FIRMWARE,
        host: gen4x4::HOST,
        flash: FLASH,
        habits: gen4x4::HABITS,
        limits: gen4x4::LIMITS,
    }
}

pub const FIRMWARE: Firmware = Firmware {
    // Drives of this class do 2.5 to 3 M reads a second: 0.35 µs of all cores' work, two thirds of it one core's.
    command_ps: ns(230),
    ..gen4x4::FIRMWARE
};

pub const FLASH: FlashProfile = FlashProfile {
    channels: 16,
    ways: 4,
    planes: 4,
    blocks_per_plane: 1024,
    pages_per_block: 1024,
    page_bytes: 16_384,
    spare_bytes: 2_048,
    read_ns: 40_000,
    program_ns: 450_000,
    erase_ns: 3_500_000,
    bus_mb_s: 2_400,
    over_provisioning_percent: 7,
    buffer_pages: 256,
};
