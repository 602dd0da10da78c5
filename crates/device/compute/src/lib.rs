#![doc = include_str!("../README.md")]

mod error;
mod evaluate;
mod explain;
mod group;
mod limits;
mod object;
mod order;
mod output;
mod parallel;
mod plan;
mod prepared;
mod recent;
mod run;
mod scan;
mod selectivity;
mod sql;

pub use error::{Limit, QueryError, Refusal};
pub use explain::{Advice, Explanation};
pub use limits::{Cancellation, Limits};
pub use object::{Object, ObjectError};
pub use output::Format;
pub use prepared::Prepared;
pub use recent::{NoResult, RecentQueries};
pub use run::QueryResult;
pub use sql::Query;
