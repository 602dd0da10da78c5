//! The boundary between the threads that execute queries and what understands their text.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use byway_controller::{AtOnce, QueryFailure, ShortQuery};
use byway_spec::vendor::QueryFormat;

/// Bytes of an object, on any thread.
pub trait ObjectRead: Send + Sync + fmt::Debug {
    /// Its size in bytes.
    fn len_bytes(&self) -> u64;

    /// Fills `into` from byte `at` on. All of it lies inside.
    ///
    /// # Errors
    /// See [`ObjectReadError`].
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), ObjectReadError>;
}

/// An object could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectReadError {
    /// It was overwritten or deleted since the query began.
    #[error("the object was changed or deleted while the query read it")]
    Changed,
    /// The device could not read it.
    #[error("{0}")]
    Unreadable(&'static str),
}

/// Where a result goes.
pub trait ResultSink {
    /// Takes the next bytes of a result. Waits until the host has taken enough of what came before. False once the query was cancelled.
    #[must_use]
    fn put(&self, bytes: &[u8]) -> bool;
}

/// A query to execute.
pub struct QueryTask<'a> {
    /// Its text.
    pub text: &'a str,
    /// What it reads.
    pub object: Arc<dyn ObjectRead>,
    /// The object was copied as the command came: such a query may be [executed at once](QueryRunner::run_at_once) when it comes again.
    pub is_copied: bool,
    /// How its result is written.
    pub format: QueryFormat,
    /// CSV: the first line names the columns.
    pub has_header: bool,
    /// The result says what the query would read and move, instead of its rows.
    pub explains: bool,
    /// Longest result in bytes: the device keeps all of it until the query has ended. `None` where it is taken as it is made.
    pub result_max_bytes: Option<usize>,
    /// Set once the query is cancelled.
    pub cancelled: &'a Arc<AtomicBool>,
    /// Where its result goes.
    pub result: &'a dyn ResultSink,
}

impl fmt::Debug for QueryTask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryTask")
            .field("text", &self.text)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// What understands the text of a query, and executes it.
pub trait QueryRunner: Send + Sync + fmt::Debug {
    /// Longest text in bytes.
    fn text_max_bytes(&self) -> u32;

    /// Executes a short query over `value`, if that takes no longer than other commands may wait: the run lock is held. Else a thread
    /// executes it, and `value` is what it was.
    fn run_at_once(&self, _query: ShortQuery<'_>, _value: &mut Vec<u8>) -> AtOnce {
        AtOnce::NotCached
    }

    /// Executes a query to its end, on the calling thread.
    ///
    /// # Errors
    /// The status and a sentence for the host. It may have given a part of the result.
    fn run(&self, task: &QueryTask<'_>) -> Result<(), QueryFailure>;
}

/// How a device executes queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryOptions {
    /// Most queries that run at a time, each on a thread. More wait.
    pub running: u16,
    /// Most queries that run, wait, or have a result that was not taken.
    pub kept: u16,
    /// Longest time that a query waits for a thread. Then its command ends with Query Not Begun. With the longest time of a query it is
    /// less than the 30 s after which hosts give a command up.
    pub wait_max: Duration,
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self { running: 4, kept: 64, wait_max: Duration::from_secs(8) }
    }
}
