//! Queries: SQL over an object, executed by an engine outside the controller, and their results as streams.
//!
//! | file | what it does |
//! |---|---|
//! | `command.rs` | commands about queries, parsed |
//! | `engine.rs` | the boundary to the engine |
//! | `object.rs` | what a query reads, and how it learns that this has changed |
//! | `plans.rs` | texts that come in parts |
//! | `table.rs` | queries that have not ended, with their controllers |
//! | `watch.rs` | ranges of blocks that must not change meanwhile |

pub(crate) mod command;
mod engine;
mod object;
mod plans;
mod table;
mod watch;

pub use engine::{
    AtOnce, QueryEngine, QueryFailure, QueryLimits, QueryProgress, QueryRequest, QueryState, ShortQuery,
};
pub(crate) use object::COPIED_MAX_BYTES;
pub use object::{BlockObjectReader, QueryObject, ValueVersion};
pub(crate) use plans::{Plans, Written};
pub(crate) use table::{Answered, QueryTable};
pub use watch::RangeWatch;
pub(crate) use watch::RangeWatches;
