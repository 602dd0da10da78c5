//! Byway beside embedded stores, in one process, by turns, at the same guarantee.

mod byway;
mod engine;
mod fjall;
mod key;
mod lmdb;
mod mixgraph;
mod op;
mod page;
mod rocksdb;
mod rocksdb_library;
mod run;
mod score;
mod show;
mod stopwatch;
mod store;
mod work;
mod ycsb;

pub use engine::Engine;
pub use op::Op;
pub use page::page;
pub use run::{Contest, Plan};
pub use score::KvRow;
pub use show::table;
pub use ycsb::Letter;
