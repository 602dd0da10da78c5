//! PCI Express: what a transaction costs on the wire, and how fast the wire is.
//!
//! A memory request with a 64-bit address is 16 bytes of header, 4 of framing and sequence number and 4 of
//! LCRC: 24 bytes beside its data. A completion, and a request to an address below 4 GiB, has a 12-byte header:
//! 20 bytes. Data travels in whole 4-byte words. Link-layer packets are not counted
//! (docs/reference/link-model.md; PCI Express Base, transaction layer packet format).
//!
//! Packets are counted alike for every generation. Generation 6 sends them in 256-byte flits without framing
//! of their own; that shows in [`PcieLink::femtoseconds_per_byte`], not in the count.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::cost::Cost;

/// Overhead of a memory request with a 64-bit address: header, framing, sequence number, LCRC.
const REQUEST_BYTES: u64 = 24;
/// Overhead of a completion, or of a request with a 32-bit address.
const SHORT_BYTES: u64 = 20;
/// The write-combining buffer of a processor is one cache line.
const COMBINED_BYTES: u64 = 64;
/// An uncached load is never combined; the widest scalar one takes 8 bytes.
const LOAD_BYTES: u64 = 8;

/// A generation of PCI Express, 1 to 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Generation(u8);

impl Generation {
    /// A generation, if there is one of that number.
    pub const fn new(number: u8) -> Option<Self> {
        if number >= 1 && number <= 6 { Some(Self(number)) } else { None }
    }

    /// Its number, 1 to 6.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The signalling rate, in megatransfers a second for each bit of width.
    pub const fn megatransfers(self) -> u64 {
        match self.0 {
            1 => 2_500,
            2 => 5_000,
            3 => 8_000,
            4 => 16_000,
            5 => 32_000,
            _ => 64_000,
        }
    }

    /// Useful bits and bits sent: 8b/10b, 128b/130b, or 236 bytes of packets in a 256-byte flit.
    const fn coding(self) -> (u64, u64) {
        match self.0 {
            1 | 2 => (8, 10),
            3..=5 => (128, 130),
            _ => (236, 256),
        }
    }
}

/// Why a requested link is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A size that the device control register cannot express.
    #[error("{what} of {bytes} bytes: expected 128, 256, 512, 1024, 2048 or 4096")]
    Size {
        /// Which size.
        what: &'static str,
        /// The value requested.
        bytes: u32,
    },
    /// An invalid link width.
    #[error("a link of width x{0}: expected x1, x2, x4, x8 or x16")]
    Width(u8),
    /// A text that is not of the form `gen4x4`.
    #[error("unknown link {0:?}: expected gen1x1 to gen6x16, such as gen4x4")]
    Text(String),
}

/// One PCI Express link and the two sizes that shape its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PcieLink {
    generation: Generation,
    width: u8,
    mps_bytes: u32,
    mrrs_bytes: u32,
}

impl PcieLink {
    /// A link with its maximum payload size and maximum read request size.
    ///
    /// # Errors
    /// A width other than 1, 2, 4, 8 or 16, or a size that is no power of two from 128 to 4096.
    pub const fn new(
        generation: Generation,
        width: u8,
        mps_bytes: u32,
        mrrs_bytes: u32,
    ) -> Result<Self, LinkError> {
        if !width.is_power_of_two() || width > 16 {
            return Err(LinkError::Width(width));
        }
        if !is_packet_size(mps_bytes) {
            return Err(LinkError::Size { what: "maximum payload size", bytes: mps_bytes });
        }
        if !is_packet_size(mrrs_bytes) {
            return Err(LinkError::Size { what: "maximum read request size", bytes: mrrs_bytes });
        }
        Ok(Self { generation, width, mps_bytes, mrrs_bytes })
    }

    /// The packet sizes of the table in docs/reference/link-model.md, MPS 256 and MRRS 512, which hosts commonly configure.
    pub(crate) const fn usual(generation: u8, width: u8) -> Self {
        assert!(generation >= 1 && generation <= 6 && width.is_power_of_two() && width <= 16);
        Self { generation: Generation(generation), width, mps_bytes: 256, mrrs_bytes: 512 }
    }

    /// PCI Express generation.
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// Link width: 1, 2, 4, 8 or 16.
    pub const fn width(&self) -> u8 {
        self.width
    }

    /// The largest payload of one packet (MPS).
    pub const fn mps_bytes(&self) -> u32 {
        self.mps_bytes
    }

    /// The largest read one request may ask for (MRRS).
    pub const fn mrrs_bytes(&self) -> u32 {
        self.mrrs_bytes
    }

    /// The device reads `n` bytes of host memory.
    ///
    /// Requests go up, completions with data come down. Both split by size alone: buffers are page-aligned and
    /// contiguous on the bus. The root complex may cut at its 64-byte read completion boundary instead; the
    /// table does not count that.
    #[inline]
    pub const fn read(&self, n: u64) -> Cost {
        // A full request divides into whole completions, for both sizes are powers of two.
        let completion_bytes =
            if self.mps_bytes < self.mrrs_bytes { self.mps_bytes } else { self.mrrs_bytes };
        Cost {
            payload_bytes: n,
            down_bytes: SHORT_BYTES * pieces(n, completion_bytes) + whole_words(n),
            up_bytes: REQUEST_BYTES * pieces(n, self.mrrs_bytes),
        }
    }

    /// The device writes `n` bytes to host memory.
    #[inline]
    pub const fn write(&self, n: u64) -> Cost {
        let up_bytes = REQUEST_BYTES * pieces(n, self.mps_bytes) + whole_words(n);
        Cost { payload_bytes: n, down_bytes: 0, up_bytes }
    }

    /// The host writes a 4-byte doorbell.
    #[inline]
    pub const fn doorbell(&self) -> Cost {
        self.mmio_write(4)
    }

    /// The device raises a message-signalled interrupt: a 4-byte write to an address below 4 GiB.
    #[inline]
    pub const fn interrupt(&self) -> Cost {
        Cost { payload_bytes: 4, down_bytes: 0, up_bytes: SHORT_BYTES + 4 }
    }

    /// The host stores `n` bytes into device registers or a controller memory buffer.
    ///
    /// Stores combine into packets of at most one cache line.
    #[inline]
    pub const fn mmio_write(&self, n: u64) -> Cost {
        let down_bytes = REQUEST_BYTES * n.div_ceil(COMBINED_BYTES) + whole_words(n);
        Cost { payload_bytes: n, down_bytes, up_bytes: 0 }
    }

    /// The host loads `n` bytes from device registers or a controller memory buffer, at most 8 at a time.
    #[inline]
    pub const fn mmio_read(&self, n: u64) -> Cost {
        let loads = n.div_ceil(LOAD_BYTES);
        Cost {
            payload_bytes: n,
            down_bytes: REQUEST_BYTES * loads,
            up_bytes: SHORT_BYTES * loads + whole_words(n),
        }
    }

    /// How long one byte takes on the wire in one direction.
    pub const fn femtoseconds_per_byte(&self) -> u64 {
        let (useful, sent) = self.generation.coding();
        // 8 bits / (megatransfers · 1e6 · width) seconds, in femtoseconds.
        8_000_000_000 * sent / (self.generation.megatransfers() * self.width as u64 * useful)
    }
}

impl fmt::Display for PcieLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gen{}x{}", self.generation.number(), self.width)
    }
}

impl FromStr for PcieLink {
    type Err = LinkError;

    /// Parses `genNxM`, with a maximum payload size of 256 and a maximum read request size of 512.
    fn from_str(text: &str) -> Result<Self, LinkError> {
        let unknown = || LinkError::Text(text.to_owned());
        let (generation, width) =
            text.strip_prefix("gen").and_then(|rest| rest.split_once('x')).ok_or_else(unknown)?;
        let generation = generation.parse().ok().and_then(Generation::new).ok_or_else(unknown)?;
        let width = width.parse().map_err(|_| unknown())?;
        Self::new(generation, width, 256, 512).map_err(|_| unknown())
    }
}

/// Whether the device control register can express a packet size.
const fn is_packet_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && bytes >= 128 && bytes <= 4096
}

/// Packets of at most `size` bytes that `n` bytes need. `size` is a power of two, so a shift does.
#[inline]
const fn pieces(n: u64, size: u32) -> u64 {
    (n + (size as u64 - 1)) >> size.trailing_zeros()
}

/// `n` rounded up to the 4-byte words that packets carry.
#[inline]
const fn whole_words(n: u64) -> u64 {
    (n + 3) & !3
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(mps_bytes: u32, mrrs_bytes: u32) -> PcieLink {
        PcieLink::new(Generation::new(2).unwrap(), 8, mps_bytes, mrrs_bytes).unwrap()
    }

    /// Reference model of the table in docs/reference/link-model.md, packet by packet.
    fn naive_read(mps: u64, mrrs: u64, n: u64) -> Cost {
        let mut cost = Cost { payload_bytes: n, ..Cost::ZERO };
        let mut left = n;
        while left > 0 {
            let mut request = left.min(mrrs);
            left -= request;
            cost.up_bytes += 24;
            while request > 0 {
                let data = request.min(mps).min(mrrs);
                request -= data;
                cost.down_bytes += 20 + data.next_multiple_of(4);
            }
        }
        cost
    }

    fn naive_write(mps: u64, n: u64) -> Cost {
        let mut cost = Cost { payload_bytes: n, ..Cost::ZERO };
        let mut left = n;
        while left > 0 {
            let data = left.min(mps);
            left -= data;
            cost.up_bytes += 24 + data.next_multiple_of(4);
        }
        cost
    }

    #[test]
    fn the_rows_of_the_table_are_exact() {
        let link = link(256, 512);
        assert_eq!(link.doorbell(), Cost { payload_bytes: 4, down_bytes: 28, up_bytes: 0 });
        assert_eq!(link.interrupt(), Cost { payload_bytes: 4, down_bytes: 0, up_bytes: 24 });
        assert_eq!(link.read(64), Cost { payload_bytes: 64, down_bytes: 84, up_bytes: 24 });
        assert_eq!(link.write(16), Cost { payload_bytes: 16, down_bytes: 0, up_bytes: 40 });
        assert_eq!(link.read(4096), Cost { payload_bytes: 4096, down_bytes: 16 * 276, up_bytes: 8 * 24 });
    }

    #[test]
    fn zero_bytes_cost_nothing() {
        let link = link(256, 512);
        for cost in [link.read(0), link.write(0), link.mmio_write(0), link.mmio_read(0)] {
            assert_eq!(cost, Cost::ZERO);
        }
    }

    #[test]
    fn stores_combine_into_cache_lines_and_loads_do_not() {
        let link = link(256, 512);
        assert_eq!(link.mmio_write(65).down_bytes, 2 * 24 + 68);
        assert_eq!(link.mmio_read(8), Cost { payload_bytes: 8, down_bytes: 24, up_bytes: 28 });
        assert_eq!(link.mmio_read(9), Cost { payload_bytes: 9, down_bytes: 48, up_bytes: 52 });
    }

    #[test]
    fn link_is_as_fast_as_its_generation_and_width() {
        let femtoseconds = |text: &str| text.parse::<PcieLink>().unwrap().femtoseconds_per_byte();
        assert_eq!(femtoseconds("gen1x1"), 4_000_000);
        assert_eq!(femtoseconds("gen2x8"), 250_000);
        assert_eq!(femtoseconds("gen3x4"), 253_906);
        assert_eq!(femtoseconds("gen5x8"), 31_738);
        assert_eq!(femtoseconds("gen6x4"), 33_898);
    }

    #[test]
    fn a_page_for_32_bytes_takes_as_long_as_the_notes_say() {
        // docs/reference/link-model.md: 1.14 µs of Gen2 x8, 0.15 µs of Gen5 x8.
        let down_bytes = 2 * 28 + 84 + 16 * 276;
        let gen2: PcieLink = "gen2x8".parse().unwrap();
        let gen5: PcieLink = "gen5x8".parse().unwrap();
        assert_eq!(down_bytes * gen2.femtoseconds_per_byte() / 10_000_000, 113);
        assert_eq!(down_bytes * gen5.femtoseconds_per_byte() / 10_000_000, 14);
    }

    #[test]
    fn invalid_link_is_refused_with_the_value_named() {
        for text in ["", "gen", "gen0x4", "gen7x4", "gen4x3", "gen4x32", "4x4", "gen4x4 ", "gen4"] {
            let error = text.parse::<PcieLink>().unwrap_err();
            assert!(error.to_string().contains("gen4x4"), "{text}");
        }
        let generation = Generation::new(4).unwrap();
        assert!(PcieLink::new(generation, 4, 64, 512).is_err());
        assert!(PcieLink::new(generation, 4, 256, 8192).is_err());
        assert!(PcieLink::new(generation, 4, 384, 512).is_err());
    }

    #[test]
    fn link_round_trips_through_its_text() {
        for text in ["gen1x1", "gen2x8", "gen6x16"] {
            assert_eq!(text.parse::<PcieLink>().unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn reads_and_writes_cost_what_their_packets_cost(mps in 7u32..=12, mrrs in 7u32..=12, n in 0u64..70_000) {
            let (mps, mrrs) = (1u32 << mps, 1u32 << mrrs);
            let link = link(mps, mrrs);
            prop_assert_eq!(link.read(n), naive_read(mps.into(), mrrs.into(), n));
            prop_assert_eq!(link.write(n), naive_write(mps.into(), n));
        }
    }
}
