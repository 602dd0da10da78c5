//! The kinds of work.

use clap::ValueEnum;

use super::engine::Engine;
use super::ycsb::Letter;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Op {
    /// Every key is stored once, in random order.
    Put,
    /// Every key is stored again, 32 at a time: 32 commands outstanding, or a batch or transaction of 32.
    #[value(name = "put_qd32")]
    PutQd32,
    /// Every key is stored again, 32 in one atomic batch or transaction.
    #[value(name = "put_batch32")]
    PutBatch32,
    /// Values of random keys are read.
    Get,
    /// The same, 32 at a time: by one call for all, or one after another where an engine has none.
    #[value(name = "get_qd32")]
    GetQd32,
    /// All keys are listed in order.
    List,
    /// All keys are listed in order, each with its value.
    ListGet,
    /// Ranges of 100 pairs, from random keys on.
    Scan,
    /// RocksDB's mixgraph.
    Mixgraph,
    /// A workload of YCSB.
    #[value(skip)]
    Ycsb(Letter),
    /// Values are stored and synced to the medium, one at a time.
    PutFlush,
    /// The same, 32 at a time: 32 commands outstanding, or a batch or transaction of 32.
    #[value(name = "put_flush_qd32")]
    PutFlushQd32,
}

impl Op {
    /// As rows name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::PutQd32 => "put_qd32",
            Self::PutBatch32 => "put_batch32",
            Self::Get => "get",
            Self::GetQd32 => "get_qd32",
            Self::List => "list",
            Self::ListGet => "list_get",
            Self::Scan => "scan",
            Self::Mixgraph => "mixgraph",
            Self::Ycsb(letter) => letter.name(),
            Self::PutFlush => "put_flush",
            Self::PutFlushQd32 => "put_flush_qd32",
        }
    }

    /// Whether each put is synced.
    pub fn is_synced(self) -> bool {
        matches!(self, Self::PutFlush | Self::PutFlushQd32)
    }

    /// Whether several clients can do it together.
    pub fn takes_threads(self) -> bool {
        matches!(self, Self::Put | Self::Get)
    }

    /// Whether an engine's configuration differs from its others in this work.
    pub fn concerns(self, engine: Engine) -> bool {
        engine != Engine::LmdbBatch || self == Self::Put
    }
}
