//! An engine of queries that gets on when an input says so, and checks what the controller asks of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_controller::{
    AtOnce, CommandError, QueryEngine, QueryFailure, QueryId, QueryLimits, QueryObject, QueryProgress,
    QueryRequest, QueryState, ShortQuery, Subsystem,
};
use byway_spec::Status;

/// Longest text in bytes.
pub const TEXT_MAX_BYTES: u32 = 4096;
/// Most queries at a time.
const QUERIES_MAX: u16 = 4;
/// Times that a result repeats the text of its query, at most.
const REPEATED_MAX: usize = 8;
/// Bytes that are read of an object at a time.
const READ_BYTES: usize = 512;

/// Queries that go on, shared by the controller's engine and the input.
#[derive(Debug, Clone, Default)]
pub struct Answers(Arc<Mutex<Queries>>);

#[derive(Debug, Default)]
struct Queries {
    open: BTreeMap<QueryId, Query>,
    ready: VecDeque<QueryId>,
}

#[derive(Debug)]
struct Query {
    object: QueryObject,
    /// The result from the first byte on that was not taken.
    result: Vec<u8>,
    /// How many of these bytes are there.
    ready_bytes: usize,
    has_failed: bool,
}

impl Answers {
    /// The engine for a controller.
    pub fn engine(&self) -> Box<dyn QueryEngine> {
        Box::new(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Queries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queries that were begun and have not ended.
    pub fn open(&self) -> usize {
        self.lock().open.len()
    }

    /// Gets a query on: it reads its object, and has more of its result, all of it, or fails.
    pub fn advance(&self, subsystem: &mut Subsystem, number: usize, step: u8) {
        let mut queries = self.lock();
        let Some(id) = queries.open.keys().nth(number % usize::from(QUERIES_MAX)).copied() else { return };
        queries.ready.push_back(id);
        let Some(query) = queries.open.get_mut(&id) else { return };
        query.has_failed |= step == 0 || !query.read(subsystem, u64::from(step));
        let more = if step & 1 == 0 { usize::from(step) } else { usize::MAX };
        query.ready_bytes = query.ready_bytes.saturating_add(more).min(query.result.len());
    }
}

impl Query {
    /// Reads a part of the object; whether it could.
    fn read(&self, subsystem: &mut Subsystem, at: u64) -> bool {
        let len = |len_bytes: u64| (len_bytes.saturating_sub(at) as usize).min(READ_BYTES);
        match &self.object {
            QueryObject::Value { nsid, key, len_bytes } => {
                let mut into = vec![0; len((*len_bytes).into())];
                subsystem.read_value_of(*nsid, key, None, at, &mut into, &mut 0).is_ok()
            }
            QueryObject::Blocks(blocks) => {
                let mut into = vec![0; len(blocks.len_bytes())];
                blocks.read(at, &mut into) || subsystem.read_blocks_of(blocks, at, &mut into, &mut 0).is_ok()
            }
            _ => true,
        }
    }

    fn progress(&self) -> QueryProgress {
        let failure = || QueryFailure { status: Status::QUERY_OBJECT_CHANGED, text: "changed".to_owned() };
        let state = match self.ready_bytes {
            _ if self.has_failed => QueryState::Failed(failure()),
            ready_bytes if ready_bytes == self.result.len() => QueryState::Ended,
            0 => QueryState::Running,
            _ => QueryState::Streaming,
        };
        QueryProgress { ready_bytes: self.ready_bytes as u64, state, at_ps: 0 }
    }
}

fn result_of(text: &str) -> Vec<u8> {
    text.repeat(text.len() % REPEATED_MAX).into_bytes()
}

impl QueryEngine for Answers {
    fn limits(&self) -> QueryLimits {
        QueryLimits { text_bytes: TEXT_MAX_BYTES, queries: QUERIES_MAX }
    }

    fn run_at_once(&mut self, query: ShortQuery<'_>, _: &mut Vec<u8>) -> AtOnce {
        match query.text.len() % 4 {
            0 => AtOnce::NotCached,
            2 => AtOnce::Aborted,
            _ => AtOnce::Done(result_of(query.text)),
        }
    }

    fn begin(&mut self, id: QueryId, request: QueryRequest) -> Result<(), CommandError> {
        let mut queries = self.lock();
        assert!(queries.open.len() < usize::from(QUERIES_MAX), "more queries than the engine's limit");
        assert!(request.text.len() <= TEXT_MAX_BYTES as usize, "a text over the engine's limit");
        let result = result_of(&request.text);
        let query = Query { object: request.object, result, ready_bytes: 0, has_failed: false };
        assert!(queries.open.insert(id, query).is_none(), "an identifier of a query that goes on");
        Ok(())
    }

    fn progress(&self, id: QueryId) -> QueryProgress {
        self.lock().open.get(&id).expect("a query that goes on").progress()
    }

    fn peek(&self, id: QueryId, max_bytes: usize) -> Vec<u8> {
        let queries = self.lock();
        let query = queries.open.get(&id).expect("a query that goes on");
        query.result[..query.ready_bytes.min(max_bytes)].to_vec()
    }

    fn take(&mut self, id: QueryId, bytes: usize) {
        let mut queries = self.lock();
        let query = queries.open.get_mut(&id).expect("a query that goes on");
        query.ready_bytes -= bytes;
        query.result.drain(..bytes);
    }

    fn cancel(&mut self, id: QueryId) {
        assert!(self.lock().open.remove(&id).is_some(), "a query is cancelled once");
    }

    fn mark_ready(&mut self, id: QueryId) {
        self.lock().ready.push_back(id);
    }

    fn next_ready(&mut self) -> Option<QueryId> {
        self.lock().ready.pop_front()
    }
}
