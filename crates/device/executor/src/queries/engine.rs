//! The controller's side of the queries.

use std::sync::Arc;

use byway_controller::{
    AtOnce, CommandError, QueryEngine, QueryFailure, QueryId, QueryLimits, QueryProgress, QueryRequest,
    QueryState, ShortQuery,
};
use byway_spec::Status;

use super::pool::QueryPool;

/// The threads as the controller's engine for queries.
#[derive(Debug)]
pub(crate) struct PoolEngine(pub Arc<QueryPool>);

impl QueryEngine for PoolEngine {
    fn limits(&self) -> QueryLimits {
        QueryLimits { text_bytes: self.0.text_max_bytes(), queries: self.0.options().kept }
    }

    fn run_at_once(&mut self, query: ShortQuery<'_>, value: &mut Vec<u8>) -> AtOnce {
        self.0.run_at_once(query, value)
    }

    fn begin(&mut self, id: QueryId, request: QueryRequest) -> Result<(), CommandError> {
        self.0.begin(id, request).map_err(|_| NO_THREAD)
    }

    fn progress(&self, id: QueryId) -> QueryProgress {
        self.0.job(id).map_or_else(stopped, |job| job.progress())
    }

    fn peek(&self, id: QueryId, max_bytes: usize) -> Vec<u8> {
        self.0.job(id).map_or_else(Vec::new, |job| job.peek(max_bytes))
    }

    fn take(&mut self, id: QueryId, bytes: usize) {
        self.0.job(id).iter().for_each(|job| job.take(bytes));
    }

    fn cancel(&mut self, id: QueryId) {
        self.0.cancel(id);
    }

    fn mark_ready(&mut self, id: QueryId) {
        self.0.mark_ready(id);
    }

    fn next_ready(&mut self) -> Option<QueryId> {
        self.0.next_ready()
    }
}

/// The progress of a query whose threads have ended.
fn stopped() -> QueryProgress {
    let failure = QueryFailure { status: Status::ABORT_REQUESTED, text: "the device closes".into() };
    QueryProgress { ready_bytes: 0, state: QueryState::Failed(failure), at_ps: 0 }
}

const NO_THREAD: CommandError =
    CommandError::new(Status::QUERY_RESOURCES_EXCEEDED, "the system has no thread for a query");
