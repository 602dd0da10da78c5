//! `cosmos`: the Cosmos+ OpenSSD card of the ByteExpress and BandSlim papers, driven through kernel pass-through.
//!
//! [R] read in public source, [S] stated by the authors, [P] public page: docs/reference/link-model.md. *Assumed*
//! where there is no source. Nothing here is fitted to a figure of the papers.

use super::ns;
use crate::cxl::{CxlLink, Flit};
use crate::pcie::PcieLink;
use crate::profile::{
    Firmware, FlashProfile, Habits, HostCosts, LinkTimes, Profile, ReadRequestRule, TransferLimits,
};

/// One uncached 32-bit read of a register in the FPGA by the processor beside it. The Zynq-7000 reference manual
/// (UG585, comparison of data movement methods) gives programmed I/O less than 25 MB/s: 4 bytes in 160 ns. [M]
const REGISTER_READ_PS: u64 = ns(160);
/// One write of such a register: posted, so it costs about half of a read. Assumed.
const REGISTER_WRITE_PS: u64 = ns(80);
/// One 32-bit store into cached device memory by a 667 MHz in-order core. Assumed.
const DRAM_STORE_PS: u64 = ns(3);

pub fn profile() -> Profile {
    Profile {
        name: "cosmos",
        // Gen2 x8 [S]. The papers' counts agree with MPS 256 and MRRS 512 (section 6).
        link: PcieLink::usual(2, 8),
        // The card has no CXL: the papers simulated it on Gen5 hardware, with 68-byte flits [S].
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

const LINK_TIMES: LinkTimes = LinkTimes {
    // Assumed: a third of the read's round trip.
    propagation_ps: ns(280),
    // About 850 ns for a round trip between a Virtex-7 endpoint and a host processor, Gen3 x8 (hackingnasdaq
    // 2014, [P]); weak, for it is not this core nor this host.
    read_latency_ps: ns(850),
    // 8 cycles of the 250 MHz core [R].
    read_gap_ps: ns(32),
};

pub(super) const FIRMWARE: Firmware = Firmware {
    // 1 + 16 reads, 2 writes [R].
    command_ps: 17 * REGISTER_READ_PS + 2 * REGISTER_WRITE_PS,
    // 1 + 16 reads, 16 stores to device memory, 1 write [R].
    chunk_ps: 17 * REGISTER_READ_PS + 16 * DRAM_STORE_PS + REGISTER_WRITE_PS,
    // 3 writes and, at least, one poll that finds the transfer done [R].
    prp_page_ps: 3 * REGISTER_WRITE_PS + REGISTER_READ_PS,
    // The card has no SGL. An exact-length transfer exists in the same DMA engine and is set up alike [R].
    sgl_descriptor_ps: 3 * REGISTER_WRITE_PS + REGISTER_READ_PS,
    // Status, slot and trigger: 3 writes. Assumed.
    completion_ps: 3 * REGISTER_WRITE_PS,
    // 16 loads and 16 stores of cached device memory. Assumed.
    copy_line_ps: 32 * DRAM_STORE_PS,
    // One dependent access to DDR3. Assumed.
    index_probe_ps: ns(100),
};

pub(super) const HOST: HostCosts = HostCosts {
    // The kernel's I/O stack takes about 1.5 µs a request [S-B], halved between the way in and the way out.
    submit_ps: ns(750),
    // Zero 64 bytes of stack, then two copies of 64 bytes [R]; the time is assumed.
    chunk_ps: ns(10),
    // Pin and map one user page. Assumed; kernel developers call it a large part of a pass-through request [P].
    map_page_ps: ns(250),
    // An uncached store leaving the core. Assumed.
    doorbell_ps: ns(100),
    completion_ps: ns(750),
    // Interrupt, wake-up and switch to the waiting thread. Assumed.
    wake_ps: ns(2000),
    // The papers measured an expander on Gen5 with a flush after every write [S-E] and gave no figure; a flushed
    // line of local memory takes about 400 ns with its fence (facts/tdm.md), most of it the fence. Assumed.
    cxl_line_ps: ns(30),
    // A load from an expander in the same host. Assumed, from published loaded latencies of 200 to 400 ns.
    cxl_read_back_ps: ns(400),
    // A write-combined line leaving the core. Assumed.
    byte_store_line_ps: ns(60),
};

const FLASH: FlashProfile = FlashProfile {
    // 4 channels of 8 ways in the papers [S]; the card takes 8 × 8 [R].
    channels: 4,
    ways: 8,
    // 2 LUNs a die, addressed one by one [R].
    planes: 2,
    blocks_per_plane: 4096,
    // MLC [R].
    pages_per_block: 256,
    page_bytes: 16_384,
    spare_bytes: 1_664,
    // Not sourced: an illustrative third-party profile of MLC toggle NAND [P]. To be swept, not quoted.
    read_ns: 60_000,
    program_ns: 1_300_000,
    erase_ns: 3_800_000,
    // Assumed.
    bus_mb_s: 200,
    // [R].
    over_provisioning_percent: 10,
    // One open page a die. Assumed.
    buffer_pages: 32,
};

const HABITS: Habits = Habits {
    // Pages of 4 KiB only (MPSMIN = MPSMAX = 0) [R].
    whole_page_prp: true,
    // Every submission queue entry is its own read of 64 bytes [R].
    chunk_burst: false,
    // Each fragment is a synchronous ioctl with its completion [R].
    fragments_one_by_one: true,
    coalesce_interrupts: false,
    // A 3-bit tag: at most 8 such reads in flight [R].
    fetch_ahead: 8,
    // The firmware polls for the end of a transfer [R].
    firmware_waits: true,
    // The driver still prepares the PRPs of an inline command [R].
    inline_maps_pages: true,
    host_sleeps: true,
    read_requests: ReadRequestRule::OnlyHalfKiB,
};

const LIMITS: TransferLimits = TransferLimits {
    // A ring of 256 bounds one payload to 254 slots [R]; two more stay for commands.
    inline_max_bytes: 252 * 64,
    piggyback_max_bytes: 16_384,
    cxl_segment_bytes: 64 << 10,
    // Capability of the core [R].
    mps_max_bytes: 512,
};
