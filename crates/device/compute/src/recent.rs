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

/// A thread that had no processor for a while reaches the bound of time as well, but not each time.
const FAILURES_MAX: u32 = 4;

/// Queries of small objects that were executed lately.
#[derive(Debug)]
pub struct RecentQueries {
    /// An execution that takes longer is stopped.
    time_max: Duration,
    /// The last used is the last.
    kept: Mutex<Vec<Kept>>,
}

/// Why a query has no result that was executed lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoResult {
    /// It is not kept ready, and took no time.
    NotReady,
    /// It reached its limit of time or memory, or failed.
    Stopped,
}

#[derive(Debug)]
struct Kept {
    text: String,
    prepared: Box<Prepared>,
    /// How often in a row it reached a bound or failed: with [`FAILURES_MAX`] it is not tried again here.
    failures: u32,
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
        let mut kept = self.kept.try_lock().map_err(|_| NoResult::NotReady)?;
        let at = kept.iter().rposition(|kept| kept.is_for(text, object)).ok_or(NoResult::NotReady)?;
        kept[at..].rotate_left(1);
        let query = kept.last_mut().filter(|query| query.failures < FAILURES_MAX);
        let query = query.ok_or(NoResult::NotReady)?;
        let result = run(&mut query.prepared, object, format, &limits(self.time_max));
        query.failures = if result.is_some() { 0 } else { query.failures + 1 };
        result.ok_or(NoResult::Stopped)
    }

    /// Keeps a query that was executed on `object` ready, if such objects are small.
    pub fn keep(&self, text: &str, query: &Query, object: &Bytes) {
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
        kept.push(Kept { text: text.to_owned(), prepared: Box::new(prepared), failures: 0 });
    }
}

impl Kept {
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
