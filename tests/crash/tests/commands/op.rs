//! Commands, what stands between them, and how they are drawn.

use byway_kit::Random;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// Keys that commands use: so few that they meet again, and together as much as the namespace holds.
pub const KEYS: u16 = 400;

/// Logical blocks that commands use, at the front of the namespace; all of it where they are of 4 KiB.
pub const BLOCKS: u32 = 512;

/// One command, or an event between commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    Put {
        key: u16,
        len: u32,
    },
    /// A put that wants that the key is not there.
    PutNew {
        key: u16,
        len: u32,
    },
    /// A put that needs an existing key.
    PutOver {
        key: u16,
        len: u32,
    },
    /// A put through the controller memory buffer.
    PutByBytes {
        key: u16,
        len: u32,
    },
    Delete {
        key: u16,
    },
    Get {
        key: u16,
    },
    Exists {
        key: u16,
    },
    /// A list from that key on.
    List {
        key: u16,
    },
    /// Many pairs by one command.
    Bulk {
        first: u16,
        pairs: u16,
        len: u32,
    },
    /// Many pairs, packed by the host.
    Load {
        first: u16,
        pairs: u16,
        len: u32,
    },
    Write {
        lba: u32,
        blocks: u32,
    },
    Read {
        lba: u32,
        blocks: u32,
    },
    Trim {
        lba: u32,
        blocks: u32,
    },
    Zero {
        lba: u32,
        blocks: u32,
    },
    Flush,
    FormatPairs {
        erase: bool,
    },
    FormatBlocks {
        erase: bool,
    },
    Sanitize {
        overwrite: bool,
    },
    /// So many puts and writes that follow from the seed: what makes logs be compacted and blocks be collected.
    Churn {
        seed: u16,
        steps: u16,
    },
    /// The device is closed in order, and opened again.
    Close,
    /// The process goes on, and the device is dropped without being closed.
    Drop,
    /// Power is cut that many points from here on: before a store to protected memory, or an operation of the medium.
    Cut {
        points: u32,
    },
    /// Another process goes on from here, and is killed at that point.
    Kill {
        points: u32,
    },
    /// The device is exchanged for a snapshot of it, taken while it is open.
    Snapshot,
    /// The device is opened anew with `flush=media`, and real power is lost that many operations of its file from there on, with
    /// what was not synced: at the latest before the next of these that are no commands.
    Lose {
        events: u16,
    },
    /// The device, and its namespace of blocks, get that many MiB.
    Resize {
        mib: u8,
        blocks_mib: u8,
    },
}

impl Op {
    /// Whether it is one command, or some, on an open device, which another process can do as well.
    pub fn is_command(self) -> bool {
        !matches!(
            self,
            Self::Close
                | Self::Drop
                | Self::Cut { .. }
                | Self::Kill { .. }
                | Self::Lose { .. }
                | Self::Snapshot
                | Self::Resize { .. }
        )
    }

    /// Whether a first part of it may be done though it was refused.
    pub fn has_parts(self) -> bool {
        matches!(self, Self::Bulk { .. } | Self::Load { .. })
    }
}

/// Expands each [`Op::Churn`].
pub fn expand(ops: Vec<Op>) -> Vec<Op> {
    let steps = |op| match op {
        Op::Churn { seed, steps } => churn(seed.into(), steps),
        op => vec![op],
    };
    ops.into_iter().flat_map(steps).collect()
}

fn churn(seed: u64, steps: u16) -> Vec<Op> {
    let mut random = Random::starting_at(seed, 1);
    let mut step = |_| {
        let key = random.below(KEYS.into()) as u16;
        match random.below(16) {
            0..2 => Op::Delete { key },
            2..6 => Op::Put { key, len: random.below(700) as u32 },
            6..11 => Op::Put { key, len: random.below(9000) as u32 },
            11 => Op::Put { key, len: random.below(60_000) as u32 },
            12 => Op::Put { key, len: 4096 },
            _ => Op::Write {
                lba: random.below(u64::from(BLOCKS) - 16) as u32,
                blocks: 1 + random.below(15) as u32,
            },
        }
    };
    (0..steps).map(&mut step).collect()
}

fn any_len() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0u32..300, 2 => 300u32..5000, 1 => 5000u32..40_000, 1 => Just(4096), 1 => Just(8192)]
}

fn any_pairs() -> impl Strategy<Value = (u16, u16, u32)> {
    (0..KEYS - 32, 1u16..32, prop_oneof![4 => 0u32..200, 1 => 200u32..4000])
}

fn any_blocks() -> impl Strategy<Value = (u32, u32)> {
    prop_oneof![4 => 1u32..16, 1 => 16u32..100].prop_flat_map(|blocks| (0..BLOCKS - blocks, Just(blocks)))
}

/// From the next store on to thousands of them later.
fn any_points() -> impl Strategy<Value = u32> {
    prop_oneof![2 => 0u32..40, 2 => 40u32..1500, 1 => 1500u32..20_000]
}

fn any_command() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..KEYS, any_len()).prop_map(|(key, len)| Op::Put { key, len }),
        1 => (0..KEYS, any_len()).prop_map(|(key, len)| Op::PutNew { key, len }),
        1 => (0..KEYS, any_len()).prop_map(|(key, len)| Op::PutOver { key, len }),
        1 => (0..KEYS, any_len()).prop_map(|(key, len)| Op::PutByBytes { key, len }),
        3 => (0..KEYS).prop_map(|key| Op::Delete { key }),
        2 => (0..KEYS).prop_map(|key| Op::Get { key }),
        1 => (0..KEYS).prop_map(|key| Op::Exists { key }),
        1 => (0..KEYS).prop_map(|key| Op::List { key }),
        1 => any_pairs().prop_map(|(first, pairs, len)| Op::Bulk { first, pairs, len }),
        1 => any_pairs().prop_map(|(first, pairs, len)| Op::Load { first, pairs, len }),
        5 => any_blocks().prop_map(|(lba, blocks)| Op::Write { lba, blocks }),
        2 => any_blocks().prop_map(|(lba, blocks)| Op::Read { lba, blocks }),
        2 => any_blocks().prop_map(|(lba, blocks)| Op::Trim { lba, blocks }),
        1 => any_blocks().prop_map(|(lba, blocks)| Op::Zero { lba, blocks }),
        1 => Just(Op::Flush),
        6 => (any::<u16>(), 1u16..500).prop_map(|(seed, steps)| Op::Churn { seed, steps }),
    ]
}

fn any_break() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => Just(Op::Close),
        1 => Just(Op::Drop),
        6 => any_points().prop_map(|points| Op::Cut { points }),
        1 => any_points().prop_map(|points| Op::Kill { points }),
        1 => Just(Op::Snapshot),
        1 => (5u8..16, 1u8..6).prop_map(|(mib, blocks_mib)| Op::Resize { mib, blocks_mib }),
        1 => any::<bool>().prop_map(|erase| Op::FormatPairs { erase }),
        1 => any::<bool>().prop_map(|erase| Op::FormatBlocks { erase }),
        1 => any::<bool>().prop_map(|overwrite| Op::Sanitize { overwrite }),
        3 => prop_oneof![0u16..30, 0u16..300].prop_map(|events| Op::Lose { events }),
    ]
}

/// Some dozens of commands with something between them now and then.
pub fn any_ops() -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(prop_oneof![5 => any_command(), 1 => any_break()], 1..120)
}
