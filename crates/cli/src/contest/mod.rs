//! Byway beside embedded stores, in one process, by turns, at the same guarantee.

mod byway;
mod engine;
mod fjall;
mod key;
mod lmdb;
mod mixgraph;
mod op;
mod run;
mod score;
mod show;
mod stopwatch;
mod work;

pub use engine::Engine;
pub use op::Op;
pub use run::{Contest, Plan};
pub use show::table;
