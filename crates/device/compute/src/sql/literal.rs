//! Literals of a query, as written: what type one has depends on what it is compared with.

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    /// `NULL`.
    Null,
    /// `TRUE` or `FALSE`.
    Boolean(bool),
    /// A number, in the digits of the text.
    Number(String),
    /// A string.
    Text(String),
    /// `DATE '…'`.
    Date(String),
    /// `TIMESTAMP '…'`.
    Timestamp(String),
    /// `INTERVAL '…'`.
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Seconds, in nanoseconds.
        nanoseconds: i64,
    },
}
