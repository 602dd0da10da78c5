//! Why a query failed.

use std::fmt;
use std::time::Duration;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::object::ObjectError;

/// A query was not executed, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The text is no query that the device takes.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The object is not a Parquet file, or a damaged one.
    #[error("the object is no sound Parquet file: {0}")]
    Damaged(String),
    /// The object could not be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A value for which an expression has no result: an overflow, a remainder by zero, a cast that fails.
    #[error("an expression has no result: {0}")]
    Value(String),
    /// A limit was reached.
    #[error("the query is over its limit of {0}")]
    Over(Limit),
    /// It was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
}

/// A limit that a query reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Time.
    Time(Duration),
    /// Memory, in bytes.
    Memory {
        /// What the query held.
        held_bytes: usize,
        /// What it may hold.
        limit_bytes: usize,
    },
    /// The result, in bytes.
    Result {
        /// Largest result.
        limit_bytes: usize,
    },
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "{} ms", time.as_millis()),
            Self::Memory { held_bytes, limit_bytes } => {
                write!(f, "{limit_bytes} bytes of memory: it needs {held_bytes}")
            }
            Self::Result { limit_bytes } => write!(f, "{limit_bytes} bytes of results"),
        }
    }
}

/// The text of a query was refused, at a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("SQL refused at line {line}, column {column}, at `{token}`: {why}")]
pub struct Refusal {
    /// The token that it stumbled on, as written.
    pub token: String,
    /// Line of the token, from 1.
    pub line: u64,
    /// Column of the token in characters, from 1.
    pub column: u64,
    /// What is wrong with it.
    pub why: String,
}

/// Errors of the Arrow kernels are errors of values: types were checked when the query was bound to the object.
impl From<ArrowError> for QueryError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::ParquetError(text) => Self::Damaged(text),
            ArrowError::DivideByZero => Self::Value("division by zero".to_owned()),
            other => Self::Value(other.to_string()),
        }
    }
}

impl From<ParquetError> for QueryError {
    fn from(error: ParquetError) -> Self {
        Self::Damaged(error.to_string())
    }
}
