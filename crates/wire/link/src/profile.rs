//! Profiles: named sets of link, flash and firmware parameters, and the habits of a controller.

use serde::Serialize;

use crate::cxl::CxlLink;
use crate::pcie::{LinkError, PcieLink};
use crate::profiles;

/// A named model of one device and its host. The source of each parameter is given where it is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// Name by which it is chosen.
    pub name: &'static str,
    /// The PCI Express link.
    pub link: PcieLink,
    /// The CXL.mem link. `cxl` methods can be measured under every profile, over this link; `cxl_native` says whether
    /// the modelled device has it.
    pub cxl: CxlLink,
    /// Whether the modelled device itself has a CXL link.
    pub cxl_native: bool,
    /// Latencies of the link.
    pub times: LinkTimes,
    /// Time of each step in the controller.
    pub firmware: Firmware,
    /// Time of each step in the host.
    pub host: HostCosts,
    /// The NAND array.
    pub flash: FlashProfile,
    /// How the controller and its host perform a transfer.
    pub habits: Habits,
    /// Limits that the device announces.
    pub limits: TransferLimits,
}

/// Latencies of a link that do not depend on its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkTimes {
    /// From the last byte of a posted write leaving one end to its effect at the other, in picoseconds.
    pub propagation_ps: u64,
    /// From a read request leaving the device to the first byte of host memory arriving, in picoseconds.
    pub read_latency_ps: u64,
    /// Minimum time between two read requests of the device, in picoseconds.
    pub read_gap_ps: u64,
}

/// One step of a controller's work on its firmware core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Take a fetched command and decode it.
    Command,
    /// Take one fetched 64-byte chunk of an inline payload.
    Chunk,
    /// Set up the transfer of one page of a PRP.
    PrpPage,
    /// Set up the transfer of one SGL descriptor.
    SglDescriptor,
    /// Build and post a completion.
    Completion,
    /// Copy payload within device memory.
    MemCopy {
        /// Bytes copied.
        bytes: u32,
    },
    /// Read one node or page of an index held in device memory.
    IndexProbe,
}

/// Time of each step in the controller, in picoseconds of its one firmware core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Firmware {
    /// [`Work::Command`].
    pub command_ps: u64,
    /// [`Work::Chunk`].
    pub chunk_ps: u64,
    /// [`Work::PrpPage`].
    pub prp_page_ps: u64,
    /// [`Work::SglDescriptor`].
    pub sgl_descriptor_ps: u64,
    /// [`Work::Completion`].
    pub completion_ps: u64,
    /// One 64-byte line of [`Work::MemCopy`].
    pub copy_line_ps: u64,
    /// [`Work::IndexProbe`].
    pub index_probe_ps: u64,
}

impl Firmware {
    /// How long a step takes, in picoseconds.
    #[inline]
    pub const fn ps(&self, work: Work) -> u64 {
        match work {
            Work::Command => self.command_ps,
            Work::Chunk => self.chunk_ps,
            Work::PrpPage => self.prp_page_ps,
            Work::SglDescriptor => self.sgl_descriptor_ps,
            Work::Completion => self.completion_ps,
            Work::MemCopy { bytes } => self.copy_line_ps * (bytes as u64).div_ceil(64),
            Work::IndexProbe => self.index_probe_ps,
        }
    }
}

/// One step of the host's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStep {
    /// Build a command and place it in a ring.
    Submit,
    /// Copy one 64-byte chunk into a ring.
    Chunk,
    /// Make one page of a buffer ready for a device.
    MapPage,
    /// Write a doorbell.
    Doorbell,
    /// Take a completion.
    Completion,
    /// Handle the interrupt and wake the thread.
    Wake,
    /// Store cache lines into device memory and push them out.
    CxlStore {
        /// Number of cache lines.
        lines: u64,
    },
    /// Fence, then read back the last line.
    CxlReadBack,
    /// Store bytes into a controller memory buffer.
    ByteStore {
        /// Number of bytes.
        bytes: u32,
    },
}

/// Time of each step in the host, in picoseconds of the submitting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostCosts {
    /// [`HostStep::Submit`].
    pub submit_ps: u64,
    /// [`HostStep::Chunk`].
    pub chunk_ps: u64,
    /// [`HostStep::MapPage`].
    pub map_page_ps: u64,
    /// [`HostStep::Doorbell`].
    pub doorbell_ps: u64,
    /// [`HostStep::Completion`].
    pub completion_ps: u64,
    /// [`HostStep::Wake`].
    pub wake_ps: u64,
    /// One line of [`HostStep::CxlStore`].
    pub cxl_line_ps: u64,
    /// [`HostStep::CxlReadBack`].
    pub cxl_read_back_ps: u64,
    /// One 64-byte line of [`HostStep::ByteStore`].
    pub byte_store_line_ps: u64,
}

impl HostCosts {
    /// How long a step takes, in picoseconds.
    #[inline]
    pub const fn ps(&self, step: HostStep) -> u64 {
        match step {
            HostStep::Submit => self.submit_ps,
            HostStep::Chunk => self.chunk_ps,
            HostStep::MapPage => self.map_page_ps,
            HostStep::Doorbell => self.doorbell_ps,
            HostStep::Completion => self.completion_ps,
            HostStep::Wake => self.wake_ps,
            HostStep::CxlStore { lines } => self.cxl_line_ps * lines,
            HostStep::CxlReadBack => self.cxl_read_back_ps,
            HostStep::ByteStore { bytes } => self.byte_store_line_ps * (bytes as u64).div_ceil(64),
        }
    }
}

/// The NAND array of a device. The flash model scales the number of blocks per plane to its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlashProfile {
    /// Channels of the array.
    pub channels: u32,
    /// Ways (dies) a channel.
    pub ways: u32,
    /// Planes a die.
    pub planes: u32,
    /// Blocks a plane of the real part.
    pub blocks_per_plane: u32,
    /// Pages a block.
    pub pages_per_block: u32,
    /// Data bytes of a page.
    pub page_bytes: u32,
    /// Spare bytes of a page.
    pub spare_bytes: u32,
    /// Array to page register, in nanoseconds.
    pub read_ns: u64,
    /// Page register to array, in nanoseconds.
    pub program_ns: u64,
    /// Erase of one block, in nanoseconds.
    pub erase_ns: u64,
    /// Channel rate, in megabytes (1e6) a second.
    pub bus_mb_s: u32,
    /// Raw capacity beyond the announced, in percent of the announced.
    pub over_provisioning_percent: u32,
    /// Pages of power-protected buffer.
    pub buffer_pages: u32,
}

/// Habits of a profile: how its controller and its host perform a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Habits {
    /// PRP moves whole 4 KiB pages, not only the bytes the command needs.
    pub whole_page_prp: bool,
    /// Chunks are fetched in bursts of up to the read request size, not one 64-byte read each.
    pub chunk_burst: bool,
    /// Piggyback fragments are submitted one by one, each waiting for the last.
    pub fragments_one_by_one: bool,
    /// One interrupt for a burst of completions.
    pub coalesce_interrupts: bool,
    /// Submission queue entries the hardware fetches ahead of the firmware; 0: each is fetched when asked for.
    pub fetch_ahead: u8,
    /// The firmware core waits for each transfer of payload.
    pub firmware_waits: bool,
    /// The driver maps a payload's pages even if the payload goes inline.
    pub inline_maps_pages: bool,
    /// The host sleeps for the interrupt; otherwise it polls.
    pub host_sleeps: bool,
    /// How the controller applies the configured read request size.
    pub read_requests: ReadRequestRule,
}

/// How a controller applies the configured maximum read request size (MRRS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadRequestRule {
    /// As configured.
    AsConfigured,
    /// 256 and 512 as configured; any other value means 128 (Cosmos+ RTL).
    OnlyHalfKiB,
}

impl ReadRequestRule {
    /// The size that the controller splits its reads at.
    pub const fn applied(self, mrrs_bytes: u32) -> u32 {
        match (self, mrrs_bytes) {
            (Self::AsConfigured, size) | (Self::OnlyHalfKiB, size @ (256 | 512)) => size,
            (Self::OnlyHalfKiB, _) => 128,
        }
    }
}

/// The transfer-method limits that a device announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TransferLimits {
    /// Largest payload of one inline command; at least 8 KiB in every profile.
    pub inline_max_bytes: u32,
    /// Largest payload of one piggybacked value; at least 8 KiB in every profile.
    pub piggyback_max_bytes: u32,
    /// Segment size of a queue's window of device memory; no record spans the end of a segment. The default of
    /// key-value namespaces: a device announces its own value.
    pub cxl_segment_bytes: u32,
    /// Largest packet payload (MPS) the controller sends.
    pub mps_max_bytes: u32,
}

impl Profile {
    /// The profile of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        profiles::ALL.iter().map(|make| make()).find(|profile| profile.name == name)
    }

    /// The names of all profiles.
    pub fn names() -> Vec<&'static str> {
        profiles::ALL.iter().map(|make| make().name).collect()
    }

    /// The same device on another link, written `gen2x8`; packet sizes stay.
    ///
    /// # Errors
    /// A text that names no link.
    pub fn with_link(mut self, text: &str) -> Result<Self, LinkError> {
        let asked: PcieLink = text.parse()?;
        self.link =
            PcieLink::new(asked.generation(), asked.width(), self.link.mps_bytes(), self.link.mrrs_bytes())?;
        Ok(self)
    }

    /// Sets exactly this maximum payload size, ignoring the controller's own bound.
    ///
    /// # Errors
    /// No power of two from 128 to 4096.
    pub fn with_mps(mut self, mps_bytes: u32) -> Result<Self, LinkError> {
        let link = self.link;
        self.link = PcieLink::new(link.generation(), link.width(), mps_bytes, link.mrrs_bytes())?;
        Ok(self)
    }

    /// Sets exactly this maximum read request size, ignoring the controller's rule.
    ///
    /// # Errors
    /// No power of two from 128 to 4096.
    pub fn with_mrrs(mut self, mrrs_bytes: u32) -> Result<Self, LinkError> {
        let link = self.link;
        self.link = PcieLink::new(link.generation(), link.width(), link.mps_bytes(), mrrs_bytes)?;
        Ok(self)
    }

    /// Configures the device as a host would: its own bounds and its read request rule apply.
    ///
    /// # Errors
    /// A size that is no power of two from 128 to 4096.
    pub fn configured(self, mps_bytes: u32, mrrs_bytes: u32) -> Result<Self, LinkError> {
        let mps_bytes = mps_bytes.min(self.limits.mps_max_bytes);
        let mrrs_bytes = self.habits.read_requests.applied(mrrs_bytes);
        self.with_mps(mps_bytes)?.with_mrrs(mrrs_bytes)
    }

    /// Time at which the device sees a doorbell that the host finished writing at `rang_ps`.
    pub const fn doorbell_arrival_ps(&self, rang_ps: u64) -> u64 {
        rang_ps
            + self.times.propagation_ps
            + self.link.doorbell().down_bytes * self.link.femtoseconds_per_byte() / 1000
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_found_by_its_name() {
        for name in Profile::names() {
            assert_eq!(Profile::by_name(name).unwrap().name, name);
        }
        assert_eq!(Profile::names(), ["cosmos", "cosmos-fitted", "gen4x4", "gen5x4", "gen5x8-cxl"]);
        assert!(Profile::by_name("Cosmos").is_none());
    }

    #[test]
    fn fitted_profile_is_cosmos_but_for_times_of_firmware_and_host() {
        let (cosmos, fitted) =
            (Profile::by_name("cosmos").unwrap(), Profile::by_name("cosmos-fitted").unwrap());
        let Profile { name, firmware, host, .. } = cosmos.clone();
        assert_ne!(fitted, cosmos);
        assert_eq!(Profile { name, firmware, host, ..fitted }, cosmos);
    }

    #[test]
    fn every_profile_announces_eight_kib_inline_and_piggyback() {
        for name in Profile::names() {
            let limits = Profile::by_name(name).unwrap().limits;
            assert!(limits.inline_max_bytes >= 8192 && limits.piggyback_max_bytes >= 8192, "{name}");
        }
    }

    #[test]
    fn another_link_keeps_the_packet_sizes() {
        let profile = Profile::by_name("cosmos").unwrap().with_mps(128).unwrap().with_link("gen5x4").unwrap();
        assert_eq!(profile.link.to_string(), "gen5x4");
        assert_eq!((profile.link.mps_bytes(), profile.link.mrrs_bytes()), (128, 512));
    }

    #[test]
    fn cosmos_takes_an_unknown_read_request_size_for_128_unless_overridden() {
        let cosmos = Profile::by_name("cosmos").unwrap();
        let mrrs = |profile: Profile| profile.link.mrrs_bytes();
        assert_eq!(mrrs(cosmos.clone().configured(256, 4096).unwrap()), 128);
        assert_eq!(mrrs(cosmos.clone().configured(256, 256).unwrap()), 256);
        assert_eq!(cosmos.clone().configured(1024, 512).unwrap().link.mps_bytes(), 512);
        assert_eq!(mrrs(cosmos.with_mrrs(4096).unwrap()), 4096);
        assert_eq!(mrrs(Profile::by_name("gen4x4").unwrap().configured(256, 4096).unwrap()), 4096);
    }
}
