//! Queries of a device: threads that execute them, beside the controller that they came over.
//!
//! | file | what it does |
//! |---|---|
//! | `engine.rs` | the controller's side |
//! | `job.rs` | one query, shared by its thread and the controller |
//! | `object.rs` | reads what a query is of, in slices |
//! | `pool.rs` | the threads |
//! | `read_time.rs` | modelled time of what a query reads |
//! | `result.rs` | bytes of a result on their way |
//! | `runner.rs` | the boundary to what understands a query's text |

mod engine;
mod job;
mod object;
mod pool;
mod read_time;
mod result;
mod runner;

pub(crate) use engine::PoolEngine;
pub(crate) use pool::QueryPool;
pub use runner::{ObjectRead, ObjectReadError, QueryOptions, QueryRunner, QueryTask, ResultSink};
