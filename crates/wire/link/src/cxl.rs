//! CXL.mem: the cost in flits of stores into and loads from device memory.
//!
//! A 68-byte flit holds four 16-byte slots, 2 bytes of CRC and 2 of protocol identifier; a 256-byte flit holds
//! fifteen slots and 16 bytes of header, CRC and FEC (docs/reference/link-model.md). A line that is stored is
//! one header slot and four data slots down, and one response slot up. A line that is loaded is one request slot
//! down, and one header slot and four data slots up.
//!
//! Slots that carry data fill whole flits, since a burst of stores ends with a fence. A lone request or response
//! slot shares its flit with other traffic, so it costs its share of one: 17 bytes of a 68-byte flit. That is the
//! reading under which the notes' 85 bytes for a packed line (five slots) holds.

use serde::Serialize;

use crate::cost::Cost;

/// A cache line, the unit of CXL.mem.
const LINE_BYTES: u64 = 64;
/// Slots that move one line with its header.
const LINE_SLOTS: u64 = 5;
/// Payload bytes that the papers count per line, for either flit: 64 bytes and their four slots' share of the flit's
/// frame.
const LINE_PAYLOAD_BYTES: u64 = 68;

/// How CXL traffic is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flit {
    /// CXL 1.1 and 2.0, and links at 32 GT/s or less.
    Bytes68,
    /// CXL 3.x at 64 GT/s.
    Bytes256,
}

impl Flit {
    /// Size of a flit, and slots in it.
    const fn shape(self) -> (u64, u64) {
        match self {
            Self::Bytes68 => (68, 4),
            Self::Bytes256 => (256, 15),
        }
    }

    /// Bytes of the whole flits that hold this many slots.
    const fn whole(self, slots: u64) -> u64 {
        let (bytes, held) = self.shape();
        bytes * slots.div_ceil(held)
    }

    /// Bytes of this many slots that share their flits with other traffic.
    const fn shared(self, slots: u64) -> u64 {
        let (bytes, held) = self.shape();
        (bytes * slots).div_ceil(held)
    }
}

/// The cache lines that a range of device memory touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines touched.
    pub count: u64,
    /// Those of them that the range covers only in part.
    pub partial: u64,
}

impl Lines {
    /// The lines of `len` bytes from `offset`.
    pub const fn of(offset: u64, len: u64) -> Self {
        if len == 0 {
            return Self { count: 0, partial: 0 };
        }
        let end = offset + len;
        let (first, last) = (offset / LINE_BYTES, (end - 1) / LINE_BYTES);
        let count = last - first + 1;
        let head = !offset.is_multiple_of(LINE_BYTES);
        let tail = !end.is_multiple_of(LINE_BYTES);
        let partial = if count == 1 { (head || tail) as u64 } else { head as u64 + tail as u64 };
        Self { count, partial }
    }
}

/// One CXL.mem link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CxlLink {
    /// How its traffic is framed.
    pub flit: Flit,
}

impl CxlLink {
    /// The host stores `lines` cache lines, then fences.
    ///
    /// `partial_lines` of them were cached and partly written, so each was first read for ownership. That read counts
    /// as wire bytes only: the papers do not count it.
    pub const fn store(&self, lines: u64, partial_lines: u64) -> Cost {
        let ownership = self.load(partial_lines);
        Cost {
            payload_bytes: LINE_PAYLOAD_BYTES * lines,
            down_bytes: self.flit.whole(LINE_SLOTS * lines) + ownership.down_bytes,
            up_bytes: self.flit.shared(lines) + ownership.up_bytes,
        }
    }

    /// The host loads `lines` cache lines.
    pub const fn load(&self, lines: u64) -> Cost {
        Cost {
            payload_bytes: LINE_PAYLOAD_BYTES * lines,
            down_bytes: self.flit.shared(lines),
            up_bytes: self.flit.whole(LINE_SLOTS * lines),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: CxlLink = CxlLink { flit: Flit::Bytes68 };
    const LARGE: CxlLink = CxlLink { flit: Flit::Bytes256 };

    #[test]
    fn a_line_alone_takes_two_small_flits_and_four_lines_take_five() {
        assert_eq!(SMALL.store(1, 0), Cost { payload_bytes: 68, down_bytes: 136, up_bytes: 17 });
        assert_eq!(SMALL.store(4, 0), Cost { payload_bytes: 272, down_bytes: 4 * 85, up_bytes: 4 * 17 });
        assert_eq!(SMALL.store(0, 0), Cost::ZERO);
    }

    #[test]
    fn a_large_flit_holds_three_lines() {
        assert_eq!(LARGE.store(1, 0).down_bytes, 256);
        assert_eq!(LARGE.store(3, 0), Cost { payload_bytes: 204, down_bytes: 256, up_bytes: 52 });
        assert_eq!(LARGE.store(4, 0).down_bytes, 512);
    }

    #[test]
    fn a_partial_line_is_read_for_ownership_on_the_wire_alone() {
        let (whole, partial) = (SMALL.store(2, 0), SMALL.store(2, 1));
        assert_eq!(partial.payload_bytes, whole.payload_bytes);
        assert_eq!(partial.down_bytes, whole.down_bytes + 17);
        assert_eq!(partial.up_bytes, whole.up_bytes + 136);
    }

    proptest! {
        #[test]
        fn stores_follow_the_table(lines in 0u64..1000) {
            let cost = SMALL.store(lines, 0);
            prop_assert_eq!(cost.payload_bytes, 68 * lines);
            prop_assert_eq!(cost.down_bytes, 68 * (5 * lines).div_ceil(4));
            prop_assert_eq!(cost.up_bytes, 17 * lines);
        }

        #[test]
        fn lines_are_those_that_hold_a_byte_of_the_range(offset in 0u64..500, len in 0u64..500) {
            let covered = |line: u64| (line * 64..line * 64 + 64).filter(|at| (offset..offset + len).contains(at)).count();
            let touched: Vec<usize> = (0..20).map(covered).filter(|&bytes| bytes > 0).collect();
            let partial = touched.iter().filter(|&&bytes| bytes < 64).count();
            let expected = Lines { count: touched.len() as u64, partial: partial as u64 };
            prop_assert_eq!(Lines::of(offset, len), expected);
        }
    }
}
