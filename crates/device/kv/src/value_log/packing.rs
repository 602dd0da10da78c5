//! Where a record goes: the packing policies (BandSlim, in-device value packing).
//!
//! A value that the device moves by DMA is best placed on a 4 KiB boundary, uncopied; small values are best
//! packed. A policy decides how much space alignment may cost.

use std::str::FromStr;

/// DMA targets are aligned to this.
pub(crate) const DMA_ALIGN_BYTES: u64 = 4096;

/// How values are packed into flash pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// Every value is copied to the write pointer: dense, and pays the copy.
    All,
    /// Small values are packed; a value that came by DMA lands on the next 4 KiB boundary and the write pointer goes
    /// on after it.
    Selective,
    /// As `Selective`, and the write pointer stays in the gap before the aligned value, for small values to fill.
    #[default]
    SelectiveBackfill,
}

impl Packing {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::All, Self::Selective, Self::SelectiveBackfill];

    /// The name reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Selective => "selective",
            Self::SelectiveBackfill => "selective-backfill",
        }
    }
}

/// A name that is none of [`Packing::name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a packing policy: all, selective, selective-backfill")]
pub struct UnknownPacking(String);

impl FromStr for Packing {
    type Err = UnknownPacking;

    fn from_str(name: &str) -> Result<Self, UnknownPacking> {
        Self::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| UnknownPacking(name.to_owned()))
    }
}

/// How a value arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In commands, chunks or capsules: it is copied in any case.
    #[default]
    Packed,
    /// By DMA, which wants an aligned target.
    Dma,
}

/// What packing cost, since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackingCounters {
    /// Value bytes the device copied to pack them.
    pub copied_bytes: u64,
    /// Value bytes that landed in their place without a copy: by DMA, or stored there by the host.
    pub placed_bytes: u64,
    /// Bytes left empty for alignment, at a window's end, or where a gap was closed.
    pub wasted_bytes: u64,
    /// Bytes of gaps that were filled after all.
    pub backfilled_bytes: u64,
}

/// Where a value's alignment puts its record, if the next free byte is `from`: the record begins so that its value
/// is aligned.
#[inline]
pub(crate) fn aligned_start(from: u64, preamble_bytes: u64) -> u64 {
    (from + preamble_bytes).next_multiple_of(DMA_ALIGN_BYTES) - preamble_bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_aligned_record_begins_at_most_a_boundary_further() {
        for from in 0..10_000 {
            let start = aligned_start(from, 36);
            assert!(start >= from && start < from + DMA_ALIGN_BYTES);
            assert_eq!((start + 36) % DMA_ALIGN_BYTES, 0);
        }
    }

    #[test]
    fn policies_have_names_that_parse() {
        assert!(Packing::ALL.into_iter().all(|p| p.name().parse() == Ok(p)));
        assert!("dense".parse::<Packing>().is_err());
    }
}
