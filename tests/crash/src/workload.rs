//! Workloads: what a writer does, step by step, from nothing but a seed.

use std::fmt;
use std::str::FromStr;

use byway::{CreateOptions, NewNamespace};

use crate::content::Slot;
use byway_kit::{Random, mix};

/// What a writer spends its life with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// New keys, and old ones again after some time.
    Put,
    /// A few keys over and over.
    Overwrite,
    /// Deletions and puts by turns.
    Delete,
    /// Lists while keys come and go.
    List,
    /// Pairs, blocks, lists, closing and opening: with small memtables, so that flushes and merges are always under way.
    Mixed,
    /// Overwrites and deletions in a namespace that is nearly full.
    Full,
    /// A bit of everything over and over on a small image with much alive in it: logs are compacted and blocks collected all
    /// the time.
    Worn,
    /// Many pairs by one command.
    Bulk,
    /// Writes, trims and zeroes of logical blocks.
    Blocks,
    /// Both namespaces are formatted, again and again, and filled in between.
    Format,
    /// The image is being made.
    Create,
    /// A bit of everything on a small image: what is done again and again with a fault at another place each time.
    Script,
}

/// One command, or an event between commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are what they are called")]
pub enum Op {
    Put {
        key: u16,
        len: u32,
    },
    Delete {
        key: u16,
    },
    Get {
        key: u16,
    },
    List,
    /// Pairs of the keys from `first` on, by one command.
    Bulk {
        first: u16,
        pairs: u16,
    },
    Write {
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
    FormatPairs,
    FormatBlocks,
    /// The device is closed in order, and opened again.
    Reopen,
}

impl Workload {
    /// Every workload that writers are killed in.
    pub const ALL: [Self; 11] = [
        Self::Put,
        Self::Overwrite,
        Self::Delete,
        Self::List,
        Self::Mixed,
        Self::Full,
        Self::Worn,
        Self::Bulk,
        Self::Blocks,
        Self::Format,
        Self::Create,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Overwrite => "overwrite",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Mixed => "mixed",
            Self::Full => "full",
            Self::Worn => "worn",
            Self::Bulk => "bulk",
            Self::Blocks => "blocks",
            Self::Format => "format",
            Self::Create => "create",
            Self::Script => "script",
        }
    }

    /// Keys it uses.
    #[must_use]
    pub const fn keys(self) -> u16 {
        match self {
            Self::Put | Self::Bulk => 1000,
            Self::Overwrite => 24,
            Self::Delete | Self::List | Self::Mixed | Self::Create => 300,
            Self::Full => 120,
            Self::Worn => 440,
            Self::Script => 80,
            Self::Format => 60,
            Self::Blocks => 1,
        }
    }

    /// Logical blocks it uses: half of the namespace's, so that both mapped and unmapped ones are met.
    #[must_use]
    pub const fn blocks(self) -> u32 {
        match self {
            Self::Script => 1024,
            Self::Worn => 2048,
            _ => 4096,
        }
    }

    /// The image it runs on: a namespace of pairs and one of blocks.
    #[must_use]
    pub fn image(self) -> CreateOptions {
        let (pairs, blocks) = match self {
            Self::Full => (3 << 20, 3 << 20),
            Self::Script | Self::Worn => (3 << 20, 1 << 20),
            _ => (24 << 20, 4 << 20),
        };
        let kv = NewNamespace { size_bytes: Some(pairs), ..NewNamespace::KV };
        let nvm = NewNamespace { size_bytes: Some(blocks), ..NewNamespace::NVM };
        let options = CreateOptions::new(pairs + blocks).namespaces([kv, nvm]);
        match self {
            // So little is left over that blocks are collected.
            Self::Script | Self::Worn => options.over_provisioning_percent(10),
            _ => options,
        }
    }

    /// Whether its memtables are small in every life, so that flushes and merges never end.
    #[must_use]
    pub const fn has_small_memtables(self) -> bool {
        matches!(self, Self::Mixed | Self::Full | Self::Worn | Self::Script)
    }

    /// What step `step` does.
    #[must_use]
    pub fn op(self, seed: u64, step: u64) -> Op {
        let mut random = Random::starting_at(mix(seed, step), 1);
        let key = random.below(self.keys().into()) as u16;
        let dice = random.below(100);
        match self {
            Self::Put | Self::Overwrite => Op::Put { key, len: self.len(seed, step, key) },
            Self::Delete if dice < 45 => Op::Delete { key },
            Self::List if dice < 20 => Op::List,
            Self::List if dice < 40 => Op::Delete { key },
            Self::Full if dice < 10 => Op::Delete { key },
            Self::Mixed | Self::Script | Self::Worn => self.mixed_op(seed, step, key, dice),
            Self::Bulk if dice < 70 => {
                let pairs = 1 + random.below(30) as u16;
                Op::Bulk { first: key.min(self.keys() - pairs), pairs }
            }
            Self::Blocks => self.block_op(&mut random, dice),
            Self::Format if dice < 2 => Op::FormatPairs,
            Self::Format if dice < 4 => Op::FormatBlocks,
            Self::Format if dice < 30 => self.block_op(&mut random, dice + 30),
            _ => Op::Put { key, len: self.len(seed, step, key) },
        }
    }

    fn mixed_op(self, seed: u64, step: u64, key: u16, dice: u64) -> Op {
        match dice {
            0..40 => Op::Put { key, len: self.len(seed, step, key) },
            40..55 => Op::Delete { key },
            55..60 => Op::Get { key },
            60 if step.is_multiple_of(7) => Op::Reopen,
            60..62 => Op::List,
            62..65 => Op::Bulk { first: key.min(self.keys() - 8), pairs: 8 },
            _ => self.block_op(&mut Random::starting_at(mix(seed, !step), 1), dice),
        }
    }

    fn block_op(self, random: &mut Random, dice: u64) -> Op {
        let blocks = match random.below(8) {
            0 => 1 + random.below(u64::from(self.blocks()) / 16),
            1..4 => 8,
            _ => 1 + random.below(20),
        } as u32;
        let lba = random.below(u64::from(self.blocks() - blocks)) as u32;
        match dice {
            0..12 => Op::Trim { lba, blocks },
            12..20 => Op::Zero { lba, blocks },
            20..22 => Op::Flush,
            _ => Op::Write { lba, blocks },
        }
    }

    /// Length of the value that step `step` stores to a key: mostly short, some of a page and more.
    #[must_use]
    pub fn len(self, seed: u64, step: u64, key: u16) -> u32 {
        let mut random = Random::starting_at(mix(seed ^ 0x4c, step) ^ u64::from(key) << 40, 1);
        let len = match (self, random.below(16)) {
            (Self::Full, 0..8) => random.below(16_000),
            (Self::Worn, 0..9) => random.below(9000),
            (_, 0) => random.below(8192),
            (_, 1) => 4096,
            (Self::Script, 2) => random.below(20_000),
            (_, 2) if !matches!(self, Self::Bulk) => random.below(60_000),
            (_, 3..6) => random.below(36),
            _ => random.below(300),
        };
        len as u32
    }

    /// The slots that an op of this workload changes, and whether each holds the step's content afterwards.
    #[must_use]
    pub fn effects(self, op: Op) -> Vec<(Slot, bool)> {
        let blocks = |lba, blocks, holds| (lba..lba + blocks).map(|at| (Slot::Block(at), holds)).collect();
        match op {
            Op::Put { key, .. } => vec![(Slot::Pair(key), true)],
            Op::Delete { key } => vec![(Slot::Pair(key), false)],
            Op::Bulk { first, pairs } => (first..first + pairs).map(|key| (Slot::Pair(key), true)).collect(),
            Op::Write { lba, blocks: count } => blocks(lba, count, true),
            Op::Trim { lba, blocks: count } | Op::Zero { lba, blocks: count } => blocks(lba, count, false),
            Op::FormatPairs => (0..self.keys()).map(|key| (Slot::Pair(key), false)).collect(),
            Op::FormatBlocks => blocks(0, self.blocks(), false),
            Op::Get { .. } | Op::List | Op::Flush | Op::Reopen => Vec::new(),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<_> = Self::ALL.iter().map(|workload| workload.name()).collect();
        let found = Self::ALL.into_iter().find(|workload| workload.name() == text);
        found.ok_or_else(|| format!("there is no workload {text:?}; there are {}", names.join(", ")))
    }
}
