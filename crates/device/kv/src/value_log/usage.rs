//! Use of a segment, as its row in the segment table has it: free, a piece of a stream, or a piece of a run.

/// Runs are numbered below this.
pub(crate) const RUN_END: u64 = 1 << 32;
const ORDER_BITS: u32 = 12;
/// Highest [`Use::Index::order`] of a row; later segments of a run have it too.
const ORDER_MAX: u64 = (1 << ORDER_BITS) - 1;

const ORDINAL_BITS: u32 = 44;
const ORDINAL_MASK: u64 = (1 << ORDINAL_BITS) - 1;

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Free,
    /// A piece of a stream: its ordinal there.
    Log {
        stream: u8,
        ordinal: u64,
    },
    /// Pages of a run. `order` is the segment's place in the run's key order; rows hold at most `ORDER_MAX`.
    Index {
        run: u64,
        order: u64,
    },
}

impl Use {
    pub(super) fn encode(self) -> u64 {
        let (class, stream, ordinal) = match self {
            Self::Free => (0, 0, 0),
            Self::Log { stream, ordinal } => (1, stream, ordinal),
            Self::Index { run, order } => (2, 0, run << ORDER_BITS | order.min(ORDER_MAX)),
        };
        class << 52 | u64::from(stream) << ORDINAL_BITS | ordinal & ORDINAL_MASK
    }

    pub(super) fn decode(word: u64) -> Option<Self> {
        let (stream, ordinal) = ((word >> ORDINAL_BITS) as u8, word & ORDINAL_MASK);
        match word >> 52 {
            0 => Some(Self::Free),
            1 => Some(Self::Log { stream, ordinal }),
            2 => Some(Self::Index { run: ordinal >> ORDER_BITS, order: ordinal & ORDER_MAX }),
            _ => None,
        }
    }
}

/// The place of a segment in the streams, as one number.
#[inline]
pub(super) fn place_of(stream: u8, ordinal: u64) -> u64 {
    u64::from(stream) << ORDINAL_BITS | ordinal & ORDINAL_MASK
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sealed;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn segment_use_round_trips_through_its_encoding(stream: u8, ordinal in 0..=ORDINAL_MASK) {
            let index = Use::Index { run: ordinal >> ORDER_BITS, order: ordinal & ORDER_MAX };
            for used in [Use::Free, Use::Log { stream, ordinal }, index] {
                prop_assert!(used.encode() <= sealed::SEALED_MAX);
                prop_assert_eq!(Use::decode(used.encode()), Some(used));
            }
        }
    }
}
