//! What a host does in a life.

use byway_forgetful::Random;
use byway_kv::Placement;

use crate::life::{KEYS, Model, Value, pattern};

/// Changes of a batch at most.
const BATCH_MAX: u64 = 8;
/// Longer than a ring.
const LONG_BYTES: u64 = 20 << 10;

/// One thing a host does.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    Put {
        key: u64,
        len: u64,
        placement: Placement,
        step: u64,
    },
    PutInPlace {
        key: u64,
        len: u64,
        step: u64,
    },
    PutByDma {
        key: u64,
        len: u64,
        step: u64,
    },
    Delete {
        key: u64,
    },
    /// Stores and deletes so many keys at once.
    Batch {
        first: u64,
        count: u64,
        step: u64,
    },
    WriteOut,
    Reclaim,
    Format,
    Create,
}

impl Step {
    pub fn any(random: &mut Random, step: u64) -> Self {
        let key = random.below(KEYS);
        let len = match random.below(40) {
            0 => LONG_BYTES + random.below(20_000),
            1..=8 => random.below(7000),
            _ => random.below(400),
        };
        match random.below(400) {
            0 => Self::Format,
            1 => Self::Create,
            2 | 3 => Self::Reclaim,
            4..=9 => Self::WriteOut,
            10..=49 => Self::Delete { key },
            50..=109 => Self::PutInPlace { key, len: len.min(6000), step },
            110..=139 => Self::PutByDma { key, len: 1 + len.min(6000), step },
            140..=179 => Self::Put { key, len: 1 + len, placement: Placement::Dma, step },
            _ => Self::Put { key, len, placement: Placement::Packed, step },
        }
    }

    pub fn any_batch(random: &mut Random, step: u64) -> Self {
        Self::Batch { first: random.below(KEYS), count: 2 + random.below(BATCH_MAX - 1), step }
    }

    /// The changes of a batch; one in four is a deletion.
    pub fn changes(first: u64, count: u64, step: u64) -> Vec<(u64, Value)> {
        let change = |n: u64| {
            let key = (first + n * 11) % KEYS;
            let len = 8 + (step * 31 + n * 257) % 1000;
            (key, (n % 4 != 3).then(|| pattern(step, key, len)))
        };
        (0..count).map(change).collect()
    }

    /// The content once the step is done.
    pub fn effects(self, model: &Model) -> Vec<(u64, Value)> {
        match self {
            Self::Put { key, len, step, .. }
            | Self::PutInPlace { key, len, step }
            | Self::PutByDma { key, len, step } => vec![(key, Some(pattern(step, key, len)))],
            Self::Delete { key } => vec![(key, None)],
            Self::Batch { first, count, step } => Self::changes(first, count, step),
            Self::Format | Self::Create => model.targets().map(|(key, _)| (key, None)).collect(),
            Self::WriteOut | Self::Reclaim => Vec::new(),
        }
    }
}
