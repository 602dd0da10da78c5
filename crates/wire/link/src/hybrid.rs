//! Hybrid SSDs: devices whose whole capacity is host-managed memory (CXL.mem), a DRAM cache in front of an NVMe drive.

use serde::Serialize;

use crate::cxl::{CxlLink, Flit};
use crate::pcie::PcieLink;
use crate::profile::Profile;
use crate::profiles::{gen4x4, ns};

/// A named model of one hybrid SSD. The source of each parameter is given where it is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HybridProfile {
    /// The name it is chosen by.
    pub name: &'static str,
    /// The physical link to the host.
    pub link: PcieLink,
    /// CXL.mem over that link.
    pub cxl: CxlLink,
    /// The cache.
    pub cache: CacheProfile,
    /// The drive that the cache is in front of, on its own link.
    pub drive: Profile,
}

/// The DRAM cache of a hybrid SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheProfile {
    /// Size in bytes.
    pub bytes: u64,
    /// Unit of fill and eviction, in bytes.
    pub page_bytes: u32,
    /// Load of a cached line, in picoseconds.
    pub hit_ps: u64,
    /// From the write-back of a line until a fence has returned, in picoseconds.
    pub persist_ps: u64,
    /// Streaming rate of one thread, in megabytes (1e6) per second.
    pub stream_mb_s: u32,
    /// Time of a miss in the cache's own logic, without the drive, in picoseconds.
    pub miss_ps: u64,
    /// Whether a host can pin a page.
    pub pins: bool,
}

impl HybridProfile {
    /// The profile of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        (name == "cmm-h").then(cmm_h)
    }

    /// The names of all profiles.
    pub const fn names() -> [&'static str; 1] {
        ["cmm-h"]
    }

    /// The same device with another hit time; the fence time changes by the same amount.
    #[must_use]
    pub const fn with_hit_ps(mut self, hit_ps: u64) -> Self {
        self.cache.hit_ps = hit_ps;
        self.cache.persist_ps = hit_ps;
        self
    }

    /// Time of a one-page miss on an idle device, in nanoseconds.
    pub fn typical_miss_ns(&self) -> u32 {
        let (flash, bytes) = (&self.drive.flash, u64::from(self.cache.page_bytes));
        let channel_ns = bytes * 1000 / u64::from(flash.bus_mb_s.max(1));
        let miss_ns = self.miss_overhead_ps(bytes) / 1000 + flash.read_ns + channel_ns;
        u32::try_from(miss_ns).unwrap_or(u32::MAX)
    }

    /// Time of a miss without the flash itself, in picoseconds: the cache's logic, one drive command, and `bytes`
    /// over the link between them.
    pub fn miss_overhead_ps(&self, bytes: u64) -> u64 {
        let firmware = &self.drive.firmware;
        let command_ps = firmware.command_ps + firmware.prp_page_ps + firmware.completion_ps;
        let link = &self.drive.link;
        let wire_ps = link.write(bytes).up_bytes * link.femtoseconds_per_byte() / 1000;
        self.cache.miss_ps + command_ps + 2 * self.drive.times.propagation_ps + wire_ps
    }
}

/// The FPGA prototype that the talk on transparent DAX mappings ran on.
///
/// [S] the talk itself; [N] what others measured of such a device; *assumed* where there is
/// no source.
fn cmm_h() -> HybridProfile {
    HybridProfile {
        name: "cmm-h",
        // CXL 2.0 x8 [S]: 32 GT/s, 68-byte flits.
        link: PcieLink::usual(5, 8),
        cxl: CxlLink { flit: Flit::Bytes68 },
        cache: CacheProfile {
            // [S].
            bytes: 48 << 30,
            // A host's page, and the unit that the drive maps. Assumed.
            page_bytes: 4096,
            // About 800 ns [N]. An emulator of the kind takes 150 ns, a summary of a study claims a mean below 1.5 µs: to be swept
            // between these, not quoted.
            hit_ps: ns(800),
            // A line written back is acknowledged by the same logic over the same link. Assumed.
            persist_ps: ns(800),
            // As `gen5x8-cxl`: 16 ns a line of one thread. Assumed; of the prototype it is only known that about four threads
            // saturate it [N].
            stream_mb_s: 4_000,
            // Look-up, choice of a victim, a command built for the drive, all in an FPGA. Assumed.
            miss_ps: ns(2_000),
            // "No explicit cache pinning currently possible" [S].
            pins: false,
        },
        // A PM9A3 of 960 GB behind PCIe 4.0 x4 [S]: the drive that `gen4x4` models, where its parameters have their sources.
        drive: gen4x4::profile(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_hybrid_is_found_by_its_name() {
        for name in HybridProfile::names() {
            assert_eq!(HybridProfile::by_name(name).unwrap().name, name);
        }
        assert!(HybridProfile::by_name("gen4x4").is_none());
    }

    #[test]
    fn prototype_miss_takes_the_published_time() {
        let hybrid = HybridProfile::by_name("cmm-h").unwrap();
        let miss_ns = hybrid.typical_miss_ns();
        assert!((50_000..100_000).contains(&miss_ns), "{miss_ns} ns");
    }

    #[test]
    fn a_swept_hit_time_moves_the_fence_along() {
        let hybrid = HybridProfile::by_name("cmm-h").unwrap().with_hit_ps(ns(150));
        assert_eq!((hybrid.cache.hit_ps, hybrid.cache.persist_ps), (150_000, 150_000));
    }
}
