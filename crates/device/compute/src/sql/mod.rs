//! The subset of SELECT that the device takes, parsed and typed. Names are looked up when a query meets its object.

mod clauses;
mod expression;
mod functions;
mod literal;
mod source;

use crate::error::Refusal;
use crate::limits::Limits;

pub(crate) use expression::{
    Aggregate, AggregateFunction, ArithmeticOp, CompareOp, Expression, LogicOp, Name, Pattern,
};
pub(crate) use literal::Literal;
pub(crate) use source::{Position, Text};

/// A query that was parsed, and not yet bound to an object.
#[derive(Debug, Clone)]
pub struct Query {
    pub(crate) text: Text,
    pub(crate) items: Vec<Item>,
    pub(crate) filter: Option<Expression>,
    pub(crate) group_by: Vec<Expression>,
    pub(crate) order_by: Vec<OrderBy>,
    pub(crate) limit: Option<u64>,
    pub(crate) offset: u64,
}

/// One item of the SELECT list.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// `*`: every column of the object.
    All(Position),
    /// An expression and the name of its column in the result.
    Column { expression: Expression, name: String },
}

/// One key of ORDER BY.
#[derive(Debug, Clone)]
pub(crate) struct OrderBy {
    pub expression: Expression,
    pub is_descending: bool,
    pub nulls_first: bool,
}

impl Query {
    /// Parses a SELECT statement.
    ///
    /// ```
    /// use byway_compute::{Limits, Query};
    ///
    /// let query = Query::parse("SELECT min(x) AS low FROM s3object WHERE y > 1.5", &Limits::default());
    /// assert!(query.is_ok());
    /// let refusal = Query::parse("SELECT x FROM s3object HAVING x > 1", &Limits::default()).unwrap_err();
    /// assert_eq!((refusal.token.as_str(), refusal.line, refusal.column), ("HAVING", 1, 24));
    /// ```
    ///
    /// # Errors
    /// [`Refusal`] with the token at which the text stops being a query that the device takes.
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, Refusal> {
        let text = Text::tokenize(text, limits.text_bytes)?;
        clauses::query(text)
    }

    /// Bytes of its text.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.text.len_bytes()
    }
}
