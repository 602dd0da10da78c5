//! Queries that were executed lately on small objects, kept ready to be executed again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::limits::{Cancellation, Limits};
use crate::output::Format;
use crate::prepared::Prepared;
use crate::sql::Query;

/// Most queries that are kept.
const KEPT_MAX: usize = 32;

/// Bounds of an execution that other work waits for. One that reaches them is left to be executed in another way.
const TIME_MAX: Duration = Duration::from_micros(200);
const MEMORY_BYTES: usize = 256 << 10;
const RESULT_BYTES: usize = 64 << 10;

/// Failures in a row before attempts become rare. A thread without a processor reaches the limit of time as well, but not each time.
const FAILURES_MAX: u32 = 4;

/// The number of full runs between two attempts doubles with each failure up to 2 to this power: a query that fails for certain costs
/// 1 attempt in 1024 full runs.
const WAIT_MAX_LOG2: u32 = 10;

/// Queries of small objects that were executed lately.
#[derive(Debug)]
pub struct RecentQueries {
    /// An execution that takes longer is stopped.
    time_max: Duration,
    /// The last used is the last.
    kept: Mutex<Vec<Kept>>,
}

/// Why the cache of prepared queries gave no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoResult {
    /// No plan is cached for this text and object kind, or it failed lately; no time was spent.
    NotCached,
    /// The run reached its time or memory limit, or failed.
    Aborted,
}

#[derive(Debug)]
struct Kept {
    text: String,
    prepared: Box<Prepared>,
    /// Failed attempts in a row.
    failures: u32,
    /// Successful [full runs](Query::run) before the next attempt.
    runs_to_wait: u32,
}

impl Default for RecentQueries {
    /// With a limit of 0.2 ms for an execution.
    fn default() -> Self {
        Self::with_time_max(TIME_MAX)
    }
}

impl RecentQueries {
    /// Keeps queries of which each execution may take `time_max`.
    #[must_use]
    pub const fn with_time_max(time_max: Duration) -> Self {
        Self { time_max, kept: Mutex::new(Vec::new()) }
    }

    /// The result of a query on `object`, if it is kept ready for objects of that kind and ends within its limit of time.
    ///
    /// # Errors
    /// Why there is none. Whatever else becomes of the query is to be found out by [`Query::run`].
    pub fn run(&self, text: &str, object: &Bytes, format: Format) -> Result<Vec<u8>, NoResult> {
        let mut kept = self.kept.try_lock().map_err(|_| NoResult::NotCached)?;
        let is_ready = |kept: &Kept| kept.runs_to_wait == 0 && kept.is_for(text, object);
        // A query that waits keeps its place, so that others replace it.
        let at = kept.iter().rposition(is_ready).ok_or(NoResult::NotCached)?;
        kept[at..].rotate_left(1);
        let query = kept.last_mut().ok_or(NoResult::NotCached)?;
        let result = run(&mut query.prepared, object, format, &limits(self.time_max));
        query.note_attempt(result.is_some());
        result.ok_or(NoResult::Aborted)
    }

    /// Keeps a query that was executed on `object` ready, if such objects are small. Call it after each successful [full run](Query::run): a
    /// query that failed here is tried again after some.
    pub fn keep(&self, text: &str, query: &Query, object: &Bytes) {
        if self.note_full_run(text, object) {
            return;
        }
        let Ok(prepared) = query.prepare(object, &limits(self.time_max)) else { return };
        if !prepared.is_of_small_objects() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.iter().any(|kept| kept.is_for(text, object)) {
            return;
        }
        if kept.len() == KEPT_MAX {
            kept.remove(0);
        }
        let prepared = Box::new(prepared);
        kept.push(Kept { text: text.to_owned(), prepared, failures: 0, runs_to_wait: 0 });
    }

    /// Whether the query is kept. It then waits for one run less.
    fn note_full_run(&self, text: &str, object: &[u8]) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let query = kept.iter_mut().find(|kept| kept.is_for(text, object));
        query.map(|query| query.runs_to_wait = query.runs_to_wait.saturating_sub(1)).is_some()
    }
}

impl Kept {
    fn note_attempt(&mut self, is_success: bool) {
        self.failures = if is_success { 0 } else { self.failures.saturating_add(1) };
        if let Some(excess) = self.failures.checked_sub(FAILURES_MAX) {
            self.runs_to_wait = 1 << excess.min(WAIT_MAX_LOG2);
        }
    }

    fn is_for(&self, text: &str, object: &[u8]) -> bool {
        self.text == text && self.prepared.fits(object)
    }
}

fn limits(time_max: Duration) -> Limits {
    let mut limits = Limits::default();
    (limits.time, limits.memory_bytes, limits.result_bytes) = (time_max, MEMORY_BYTES, RESULT_BYTES);
    limits
}

fn run(prepared: &mut Prepared, object: &Bytes, format: Format, limits: &Limits) -> Option<Vec<u8>> {
    let mut result = Vec::new();
    let mut give = |bytes: &[u8]| {
        result.extend_from_slice(bytes);
        true
    };
    prepared.run_into(object, format, limits, &Cancellation::default(), &mut give).ok()?;
    Some(result)
}
