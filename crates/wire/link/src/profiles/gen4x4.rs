//! `gen4x4`: an enterprise drive of the PM9A3 class, driven from user space.
//!
//! [P] public page: docs/reference/link-model.md. *Assumed* where there is no source: makers publish no step times.

use super::ns;
use crate::cxl::{CxlLink, Flit};
use crate::pcie::PcieLink;
use crate::profile::{
    Firmware, FlashProfile, Habits, HostCosts, LinkTimes, Profile, ReadRequestRule, TransferLimits,
};

pub fn profile() -> Profile {
    Profile {
        name: "gen4x4",
        link: PcieLink::usual(4, 4),
        // No CXL in the device: where it is measured, it is as the papers did, 68-byte flits.
        cxl: CxlLink { flit: Flit::Bytes68 },
        cxl_native: false,
        times: LINK_TIMES,
        firmware: FIRMWARE,
        host: HOST,
        flash: FLASH,
        habits: HABITS,
        limits: LIMITS,
    }
}

pub const LINK_TIMES: LinkTimes = LinkTimes {
    // Assumed: a third of the read's round trip.
    propagation_ps: ns(180),
    // About 550 ns for a 64-byte read of host memory on a Xeon (Neugebauer et al., SIGCOMM 2018, from memory).
    read_latency_ps: ns(550),
    // Requests leave back to back.
    read_gap_ps: 0,
};

pub const FIRMWARE: Firmware = Firmware {
    // 900 K reads a second [P] bound the share of a command in all cores' work to about 1.1 µs. One core's part
    // is assumed to be a third of that.
    command_ps: ns(350),
    // A copy of 64 bytes within on-chip memory. Assumed.
    chunk_ps: ns(20),
    // One DMA descriptor. Assumed.
    prp_page_ps: ns(50),
    sgl_descriptor_ps: ns(50),
    completion_ps: ns(100),
    // 64 bytes at about 6.4 GB/s. Assumed.
    copy_line_ps: ns(10),
    // One dependent access to device memory. Assumed.
    index_probe_ps: ns(80),
};

pub const HOST: HostCosts = HostCosts {
    // A user-space driver: an empty command takes 7 to 12 ns in a library loop, and 19 to 100 ns with an
    // application's bookkeeping (facts/xnvme.md, measured).
    submit_ps: ns(40),
    // A copy of 64 bytes that stays in the cache. Assumed.
    chunk_ps: ns(5),
    // Buffers are mapped beforehand; the copy into them is 64 lines at most. Assumed.
    map_page_ps: ns(20),
    // An uncached store leaving the core. Assumed.
    doorbell_ps: ns(100),
    completion_ps: ns(40),
    // Not paid: the host polls. Assumed as under `cosmos`.
    wake_ps: ns(2000),
    // As under `cosmos`.
    cxl_line_ps: ns(30),
    cxl_read_back_ps: ns(400),
    byte_store_line_ps: ns(60),
};

const FLASH: FlashProfile = FlashProfile {
    // 8 channels are usual for the class. Assumed.
    channels: 8,
    ways: 4,
    planes: 4,
    // Scaled to the image.
    blocks_per_plane: 1024,
    pages_per_block: 768,
    page_bytes: 16_384,
    spare_bytes: 2_048,
    // TLC of its time: read 40 to 60 µs, program 0.4 to 0.7 ms. Assumed; the FEMU default has 40 µs and 200 µs [R].
    read_ns: 45_000,
    program_ns: 600_000,
    erase_ns: 3_500_000,
    // ONFI 4 and Toggle 4 rates. Assumed.
    bus_mb_s: 1_200,
    // Assumed: 7 percent, as in drives for one write a day.
    over_provisioning_percent: 7,
    // One open page a plane. Assumed.
    buffer_pages: 128,
};

pub const HABITS: Habits = Habits {
    whole_page_prp: false,
    chunk_burst: true,
    fragments_one_by_one: false,
    coalesce_interrupts: true,
    // Commands of one doorbell are fetched together. Assumed.
    fetch_ahead: 16,
    firmware_waits: false,
    inline_maps_pages: false,
    host_sleeps: false,
    read_requests: ReadRequestRule::AsConfigured,
};

pub const LIMITS: TransferLimits = TransferLimits {
    inline_max_bytes: 32_768,
    piggyback_max_bytes: 16_384,
    cxl_segment_bytes: 64 << 10,
    mps_max_bytes: 512,
};
