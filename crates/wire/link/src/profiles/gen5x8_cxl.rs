//! `gen5x8-cxl`: a hybrid drive whose page buffer is host-managed memory on a Gen5 x8 CXL link, as BandSlim's
//! CXL method supposes. The times of device memory are those of a memory expander, as in the paper, not of an
//! FPGA prototype (about 800 ns a hit).

use super::{gen4x4, gen5x4, ns};
use crate::cxl::{CxlLink, Flit};
use crate::pcie::PcieLink;
use crate::profile::{HostCosts, Profile};

pub fn profile() -> Profile {
    Profile {
        name: "gen5x8-cxl",
        link: PcieLink::usual(5, 8),
        // CXL 2.0 at 32 GT/s: 68-byte flits.
        cxl: CxlLink { flit: Flit::Bytes68 },
        cxl_native: true,
        times: gen4x4::LINK_TIMES,
        firmware: gen5x4::FIRMWARE,
        host: HOST,
        flash: gen5x4::FLASH,
        habits: gen4x4::HABITS,
        limits: gen4x4::LIMITS,
    }
}

const HOST: HostCosts = HostCosts {
    // Lines leave back to back: 64 bytes at about 4 GB/s for one thread of flushed stores. Assumed.
    cxl_line_ps: ns(16),
    // Fence and one load from an expander: 250 to 400 ns in published measurements. Assumed.
    cxl_read_back_ps: ns(300),
    ..gen4x4::HOST
};
