//! What a host asks for.

use byway::{Command, Key, KvCommand, LbaRange, LbaRanges, Nsid, NvmCommand, Payload, StoreOptions};
use byway_forgetful::Random;
use byway_kit::tagged;

pub const PAIRS: Nsid = Nsid::FIRST;
pub const BLOCK_BYTES: usize = 512;
pub const VALUE_MAX: usize = 9000;
pub const KEYS: u64 = 60;
pub const BLOCKS: u64 = 1024;
/// Blocks that are written again and again.
const HOT_BLOCKS: u64 = 64;

pub fn blocks_nsid() -> Nsid {
    Nsid::new(2).unwrap()
}

/// Something that holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Pair(u64),
    Block(u64),
}

impl Target {
    pub fn all() -> impl Iterator<Item = Self> {
        (0..KEYS).map(Self::Pair).chain((0..BLOCKS).map(Self::Block))
    }
}

/// Content; empty for none, and for a block of zeroes.
pub type Value = Vec<u8>;

/// One command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Put { key: u64, len: usize },
    Delete { key: u64 },
    Write { first: u64, blocks: u64 },
    Trim { first: u64, blocks: u64 },
    Flush { nsid: Nsid },
}

impl Step {
    pub fn any(random: &mut Random) -> Self {
        let key = random.below(KEYS);
        let (blocks, end) = match random.below(4) {
            0 => (1 + random.below(48), BLOCKS),
            1 => (8, BLOCKS),
            _ => (1 + random.below(12), HOT_BLOCKS),
        };
        let first = random.below(end - blocks);
        match random.below(32) {
            0 => Self::Flush { nsid: PAIRS },
            1 => Self::Flush { nsid: blocks_nsid() },
            2..5 => Self::Delete { key },
            5..8 => Self::Trim { first, blocks },
            8..18 => Self::Write { first, blocks },
            18..28 => Self::Put { key, len: 8 + random.below(300) as usize },
            28..30 => Self::Put { key: key % 4, len: 8 + random.below(40) as usize },
            _ => Self::Put { key, len: 8 + random.below((VALUE_MAX - 8) as u64) as usize },
        }
    }

    /// The same at a place that is one host's of so many: keys and blocks that no other changes, though blocks may share a unit.
    pub fn of_host(self, host: u64, hosts: u64) -> Self {
        let (share, key_of) = (BLOCKS / hosts, |key: u64| key - key % hosts + host);
        let first_of = |first: u64, blocks: u64| host * share + first % (share - blocks);
        match self {
            Self::Put { key, len } => Self::Put { key: key_of(key), len },
            Self::Delete { key } => Self::Delete { key: key_of(key) },
            Self::Write { first, blocks } => Self::Write { first: first_of(first, blocks), blocks },
            Self::Trim { first, blocks } => Self::Trim { first: first_of(first, blocks), blocks },
            Self::Flush { nsid } => Self::Flush { nsid },
        }
    }

    pub fn nsid(self) -> Nsid {
        match self {
            Self::Put { .. } | Self::Delete { .. } => PAIRS,
            Self::Write { .. } | Self::Trim { .. } => blocks_nsid(),
            Self::Flush { nsid } => nsid,
        }
    }

    /// What is at each target once step `number` is done.
    pub fn effects(self, number: u64) -> Vec<(Target, Value)> {
        let blocks_of = |first, blocks| first..first + blocks;
        match self {
            Self::Put { key, len } => vec![(Target::Pair(key), tagged(number, key, len))],
            Self::Delete { key } => vec![(Target::Pair(key), Value::new())],
            Self::Write { first, blocks } => blocks_of(first, blocks)
                .map(|at| (Target::Block(at), tagged(number, at, BLOCK_BYTES)))
                .collect(),
            Self::Trim { first, blocks } => {
                blocks_of(first, blocks).map(|at| (Target::Block(at), Value::new())).collect()
            }
            Self::Flush { .. } => Vec::new(),
        }
    }

    pub fn command(self, number: u64) -> Command {
        let nsid = self.nsid();
        let bytes: Vec<u8> = self.effects(number).into_iter().flat_map(|(_, value)| value).collect();
        let payload = Payload::copy_of(&bytes).unwrap();
        match self {
            Self::Put { key, .. } => {
                KvCommand::Store { nsid, key: key_of(key), value: payload, options: StoreOptions::NONE }
                    .into()
            }
            Self::Delete { key } => KvCommand::Delete { nsid, key: key_of(key) }.into(),
            Self::Write { first, blocks } => {
                NvmCommand::Write { nsid, slba: first, blocks: blocks as u32, data: payload }.into()
            }
            Self::Trim { first, blocks } => {
                let ranges = LbaRanges::new(&[LbaRange { slba: first, blocks: blocks as u32 }]).unwrap();
                NvmCommand::Deallocate { nsid, ranges }.into()
            }
            Self::Flush { nsid } => NvmCommand::Flush { nsid }.into(),
        }
    }
}

pub fn key_of(key: u64) -> Key {
    Key::new(&key.to_be_bytes()).unwrap()
}
