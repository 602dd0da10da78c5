//! One query: shared by the thread that executes it and the controller that its host asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use byway_controller::{QueryFailure, QueryId, QueryProgress, QueryRequest, QueryState};
use byway_spec::Status;
use parking_lot::{Condvar, Mutex};

use super::read_time::ReadTime;
use super::result::ResultBytes;

/// Bytes of a result that are worth an answer to a host before the query has ended.
const STREAM_BYTES: usize = 64 << 10;

/// Bytes of a result that a query makes ahead of its host.
const AHEAD_BYTES: usize = 1 << 20;

/// Longest time that a query waits for its host to take a part of the result: then its thread is needed for others.
const HOST_WAITS_MAX: Duration = Duration::from_secs(30);

/// A query.
#[derive(Debug)]
pub(super) struct Job {
    pub id: QueryId,
    buffers_whole_result: bool,
    pub cancelled: Arc<AtomicBool>,
    /// When a thread must have begun it.
    pub start_deadline: Instant,
    pub read_time: ReadTime,
    state: Mutex<State>,
    taken: Condvar,
}

#[derive(Debug)]
struct State {
    /// Until a thread has begun it.
    request: Option<QueryRequest>,
    result: ResultBytes,
    outcome: Option<Result<(), QueryFailure>>,
    /// The host took nothing of the result for too long.
    is_given_up: bool,
}

fn given_up() -> QueryFailure {
    let text = format!("the host took nothing of the result for {} s", HOST_WAITS_MAX.as_secs());
    QueryFailure { status: Status::QUERY_LIMIT_EXCEEDED, text }
}

impl Job {
    pub fn new(id: QueryId, request: QueryRequest, start_deadline: Instant) -> Self {
        let buffers_whole_result = request.buffers_whole_result;
        let read_time = ReadTime::begun_at(request.begun_ps);
        let state = State {
            request: Some(request),
            result: ResultBytes::default(),
            outcome: None,
            is_given_up: false,
        };
        Self {
            id,
            buffers_whole_result,
            cancelled: Arc::default(),
            start_deadline,
            read_time,
            state: Mutex::new(state),
            taken: Condvar::new(),
        }
    }

    /// Takes what is to be done, once.
    pub fn take_request(&self) -> Option<QueryRequest> {
        self.state.lock().request.take()
    }

    /// Adds bytes to the result. Whether the query has an answer with them that it had not before.
    #[must_use]
    pub fn add(&self, bytes: &[u8]) -> bool {
        let mut state = self.state.lock();
        let was = state.result.len();
        state.result.add(bytes);
        let crosses = was < STREAM_BYTES && state.result.len() >= STREAM_BYTES;
        crosses && !self.buffers_whole_result
    }

    /// Waits until the host has taken enough of the result. False once the query is cancelled, which it is too where the host takes
    /// nothing for [`HOST_WAITS_MAX`].
    pub fn wait_for_host(&self) -> bool {
        let mut state = self.state.lock();
        while !self.buffers_whole_result && state.result.len() >= AHEAD_BYTES && !self.is_cancelled() {
            let ready_bytes = state.result.len();
            let waited = self.taken.wait_for(&mut state, HOST_WAITS_MAX);
            if waited.timed_out() && state.result.len() == ready_bytes {
                state.is_given_up = true;
                return false;
            }
        }
        !self.is_cancelled()
    }

    /// Notes how the query ended.
    pub fn complete(&self, outcome: Result<(), QueryFailure>) {
        let mut state = self.state.lock();
        state.outcome = Some(if state.is_given_up { Err(given_up()) } else { outcome });
    }

    /// Cancels it.
    pub fn cancel(&self) {
        // Under the lock, so that a thread which is about to wait sees it.
        let _state = self.state.lock();
        self.cancelled.store(true, SeqCst);
        self.taken.notify_all();
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    /// How far it is.
    pub fn progress(&self) -> QueryProgress {
        let state = self.state.lock();
        let ready_bytes = state.result.len() as u64;
        let state = match &state.outcome {
            None if ready_bytes >= STREAM_BYTES as u64 => QueryState::Streaming,
            None => QueryState::Running,
            Some(Ok(())) => QueryState::Ended,
            Some(Err(failure)) => QueryState::Failed(failure.clone()),
        };
        QueryProgress { ready_bytes, state, at_ps: self.read_time.ended_ps() }
    }

    /// A copy of the next bytes of the result.
    pub fn peek(&self, max_bytes: usize) -> Vec<u8> {
        self.state.lock().result.peek(max_bytes)
    }

    /// Takes bytes of the result.
    pub fn take(&self, bytes: usize) {
        self.state.lock().result.take(bytes);
        self.taken.notify_all();
    }
}
