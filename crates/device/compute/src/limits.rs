//! Bounds of one query, and the watch that a running query is stopped by.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use parquet::errors::ParquetError;

use crate::error::{Limit, QueryError};

/// Bounds of one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Longest text of a query in bytes.
    pub text_bytes: usize,
    /// Most memory in bytes that groups, rows to be sorted and a page of the object take, each.
    pub memory_bytes: usize,
    /// Largest result in bytes.
    pub result_bytes: usize,
    /// Longest time that a query runs.
    pub time: Duration,
    /// Threads that scan an object of more than one part. Results do not depend on their number.
    pub threads: NonZero<usize>,
}

impl Default for Limits {
    /// 64 KiB of text, 256 MiB of memory, results up to 64 MiB, 60 s, one thread.
    fn default() -> Self {
        Self {
            text_bytes: 64 << 10,
            memory_bytes: 256 << 20,
            result_bytes: 64 << 20,
            time: Duration::from_secs(60),
            threads: NonZero::<usize>::MIN,
        }
    }
}

/// Cancels a query from another thread. Clones cancel the same query.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

/// The flag cancels the query once it is set.
impl From<Arc<AtomicBool>> for Cancellation {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

impl Cancellation {
    /// Cancels the query: it ends with [`QueryError::Cancelled`] after the batch or page that it is at.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the query was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What stops a running query, and what it has read.
#[derive(Debug)]
pub(crate) struct Watch {
    pub limits: Limits,
    cancellation: Cancellation,
    /// `None` where the time is beyond what the clock counts.
    deadline: Option<Instant>,
    /// Time that was spent outside the query: its consumer took the result.
    given_ns: AtomicU64,
    read_bytes: AtomicU64,
    /// What failed first below the Parquet reader, which passes errors on as text.
    failure: Mutex<Option<QueryError>>,
}

impl Watch {
    /// Begins to watch a query.
    pub fn new(limits: Limits, cancellation: Cancellation) -> Self {
        let deadline = Instant::now().checked_add(limits.time);
        Self {
            limits,
            cancellation,
            deadline,
            given_ns: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            failure: Mutex::new(None),
        }
    }

    /// Ends the query if it was cancelled or its time is over. Called for each page and each batch.
    pub fn check(&self) -> Result<(), QueryError> {
        if self.cancellation.is_cancelled() {
            return Err(QueryError::Cancelled);
        }
        let given = Duration::from_nanos(self.given_ns.load(Ordering::Relaxed));
        if self
            .deadline
            .is_some_and(|deadline| Instant::now().checked_sub(given).is_some_and(|now| now > deadline))
        {
            return Err(QueryError::Over(Limit::Time(self.limits.time)));
        }
        Ok(())
    }

    /// Ends the query if it holds more memory than it may.
    pub fn check_memory(&self, held_bytes: usize) -> Result<(), QueryError> {
        if held_bytes > self.limits.memory_bytes {
            return Err(QueryError::Over(Limit::Memory {
                held_bytes,
                limit_bytes: self.limits.memory_bytes,
            }));
        }
        Ok(())
    }

    /// Keeps what failed below the Parquet reader, and gives that reader an error to end with.
    pub fn note_failure(&self, error: QueryError) -> ParquetError {
        let text = error.to_string();
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        ParquetError::General(text)
    }

    /// What the query failed by: the failure noted first, or `error` where there is none.
    pub fn cause_of(&self, error: impl Into<QueryError>) -> QueryError {
        let noted = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        noted.unwrap_or_else(|| error.into())
    }

    /// Leaves the time of `give`, which takes a part of the result, out of the query's.
    pub fn while_given<T>(&self, give: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let given = give();
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.given_ns.fetch_add(ns, Ordering::Relaxed);
        given
    }

    /// Counts bytes read of the object.
    pub fn note_read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes read of the object so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }
}
