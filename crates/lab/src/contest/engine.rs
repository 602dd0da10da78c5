//! The engines that are compared, in their configurations.

use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::store::{Opening, Store};

/// An engine, in one of its configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Engine {
    /// The embedded device, over its whole NVMe path.
    Byway,
    /// fjall, an LSM tree.
    Fjall,
    /// fjall with values kept beside the tree.
    #[value(skip)]
    FjallBlob,
    /// LMDB, a memory-mapped B+tree; one transaction for each put.
    Lmdb,
    /// LMDB with a thousand puts in each transaction.
    #[value(skip)]
    LmdbBatch,
    /// RocksDB, an LSM tree, where its library is installed.
    Rocksdb,
}

impl Engine {
    /// As rows name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Byway => "byway",
            Self::Fjall => "fjall",
            Self::FjallBlob => "fjall-blob",
            Self::Lmdb => "lmdb",
            Self::LmdbBatch => "lmdb-1000",
            Self::Rocksdb => "rocksdb",
        }
    }

    /// Whether it can be used here.
    pub fn is_there(self) -> bool {
        self != Self::Rocksdb || super::rocksdb::is_there()
    }

    /// The configurations that stand for this engine where values are so long.
    pub fn configurations(self, value_bytes: u32) -> Vec<Self> {
        match self {
            Self::Fjall if value_bytes >= super::fjall::SEPARATED_BYTES => vec![Self::Fjall, Self::FjallBlob],
            Self::Lmdb => vec![Self::Lmdb, Self::LmdbBatch],
            other => vec![other],
        }
    }

    /// How many puts are acknowledged at once.
    pub fn puts_acknowledged_together(self) -> u64 {
        if self == Self::LmdbBatch { super::lmdb::BATCH_PUTS } else { 1 }
    }

    /// Opens the store in `folder`, making it if it is not there.
    ///
    /// # Errors
    /// What the engine says.
    pub fn open(self, folder: &Path, opening: &Opening) -> Result<Box<dyn Store>> {
        let opened: Result<Box<dyn Store>> = match self {
            Self::Byway => super::byway::open(folder, opening),
            Self::Fjall => super::fjall::open(folder, opening, false),
            Self::FjallBlob => super::fjall::open(folder, opening, true),
            Self::Lmdb => super::lmdb::open(folder, opening, 1),
            Self::LmdbBatch => super::lmdb::open(folder, opening, super::lmdb::BATCH_PUTS),
            Self::Rocksdb => super::rocksdb::open(folder, opening),
        };
        opened.with_context(|| format!("open {} in {}", self.name(), folder.display()))
    }
}
