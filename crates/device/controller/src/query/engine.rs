//! The boundary between a controller and the engine that executes queries.
//!
//! **What an implementer must do.** Begin a query without waiting for it, give its result in pieces, and note each time that a query
//! which was waited for has more of it or has ended. A failure is a status with a sentence for the host.
//!
//! **What it may rely on.** One thread at a time calls it. No identifier is used after [`QueryEngine::cancel`].

use std::fmt;

use byway_spec::Status;
use byway_spec::vendor::QueryFormat;

use super::object::QueryObject;
use crate::error::CommandError;
use crate::id::QueryId;

/// A query to begin.
#[derive(Debug)]
pub struct QueryRequest {
    /// Its text.
    pub text: String,
    /// What it reads.
    pub object: QueryObject,
    /// How its result is written.
    pub format: QueryFormat,
    /// CSV: the first line names the columns.
    pub has_header: bool,
    /// The result says what the query would read and move, instead of its rows.
    pub explains: bool,
    /// The engine keeps all of the result until the query has ended: nothing of it is taken before.
    pub buffers_whole_result: bool,
    /// Modelled time of its command, in picoseconds: its first read begins then, whenever a thread comes to it.
    pub begun_ps: u64,
}

impl QueryRequest {
    /// The query and its object, if it may be executed before its command is answered.
    pub(super) fn as_short(&mut self) -> Option<(ShortQuery<'_>, &mut Vec<u8>)> {
        let Self { text, object, format, has_header, explains, .. } = self;
        let QueryObject::Copied(value) = object else { return None };
        let query = ShortQuery { text, format: *format, has_header: *has_header };
        (!*explains).then_some((query, value))
    }
}

/// A query whose object was [copied](QueryObject::Copied), and that may be executed before its command is answered.
#[derive(Debug, Clone, Copy)]
pub struct ShortQuery<'a> {
    /// Its text.
    pub text: &'a str,
    /// How its result is written.
    pub format: QueryFormat,
    /// CSV: the first line names the columns.
    pub has_header: bool,
}

/// Result of an attempt to run a short query under the run lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtOnce {
    /// The query's result.
    Done(Vec<u8>),
    /// No plan is cached for this text and object kind; no time was spent.
    NotCached,
    /// The run reached its time or memory limit, or failed.
    Aborted,
}

/// Limits of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLimits {
    /// Longest text in bytes.
    pub text_bytes: u32,
    /// Most queries at a time.
    pub queries: u16,
}

/// How far a query is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryProgress {
    /// Bytes of the result that can be taken now.
    pub ready_bytes: u64,
    /// Whether more come.
    pub state: QueryState,
    /// Modelled time at which its reads so far have ended, in picoseconds; 0 where time is not modelled.
    pub at_ps: u64,
}

/// Whether a query goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryState {
    /// It waits or runs, and its result has less than what is worth an answer.
    Running,
    /// It runs, and its result has enough for an answer.
    Streaming,
    /// It has ended, with all of its result.
    Ended,
    /// It has failed.
    Failed(QueryFailure),
}

/// Why a query failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryFailure {
    /// The status for the host.
    pub status: Status,
    /// A sentence for the host's error log.
    pub text: String,
}

/// An engine that executes queries. See the module's text for the contract.
pub trait QueryEngine: Send + Sync {
    /// Its limits. They do not change.
    fn limits(&self) -> QueryLimits;

    /// Executes a short query over `value`, if that takes no longer than other commands may wait. Else the query is
    /// [begun](Self::begin), and `value` is what it was.
    fn run_at_once(&mut self, _query: ShortQuery<'_>, _value: &mut Vec<u8>) -> AtOnce {
        AtOnce::NotCached
    }

    /// Begins query `id`.
    ///
    /// # Errors
    /// The status for a query that there are no resources for.
    fn begin(&mut self, id: QueryId, request: QueryRequest) -> Result<(), CommandError>;

    /// How far a query is.
    fn progress(&self, id: QueryId) -> QueryProgress;

    /// The next bytes of a result that are there, at most `max_bytes`. They stay until they are [taken](Self::take).
    fn peek(&self, id: QueryId, max_bytes: usize) -> Vec<u8>;

    /// Takes `bytes` of a result, which were peeked at.
    fn take(&mut self, id: QueryId, bytes: usize);

    /// Cancels a query, whatever it is at, and forgets it.
    fn cancel(&mut self, id: QueryId);

    /// Has [`next_ready`](Self::next_ready) name a query, whether or not it has more of its result.
    fn mark_ready(&mut self, id: QueryId);

    /// The next query that has more of its result than when it was last named here, or has ended. It may have been cancelled meanwhile.
    fn next_ready(&mut self) -> Option<QueryId>;
}

impl fmt::Debug for dyn QueryEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryEngine").field("limits", &self.limits()).finish_non_exhaustive()
    }
}
