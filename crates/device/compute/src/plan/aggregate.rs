//! Calls of aggregate functions.

use arrow_schema::DataType;

use super::binder::coerced;
use super::bound::Bound;
use super::types::{DECIMAL_DIGITS_MAX, is_float, is_numeric, sql_name};
use crate::sql::AggregateFunction;

/// A call of an aggregate function over bound rows.
#[derive(Debug, Clone)]
pub(crate) struct AggregateCall {
    pub function: AggregateFunction,
    /// What is aggregated; `None` counts rows.
    pub argument: Option<Bound>,
}

impl AggregateCall {
    /// A call whose argument has a type that the function takes.
    ///
    /// # Errors
    /// Why it does not take it.
    pub fn new(function: AggregateFunction, argument: Option<Bound>) -> Result<Self, String> {
        let argument = argument.map(|argument| match argument.data_type() {
            DataType::Null => coerced(argument, &DataType::Int64),
            _ => argument,
        });
        let data_type = argument.as_ref().map(Bound::data_type);
        match data_type {
            Some(other) if is_sum(function) && !is_numeric(&other) => {
                Err(format!("sums and averages are of numbers, and this is {}", sql_name(&other)))
            }
            Some(DataType::Interval(_)) => Err("intervals are not aggregated".to_owned()),
            Some(DataType::Float32) if is_sum(function) => {
                let argument = argument.map(|argument| coerced(argument, &DataType::Float64));
                Ok(Self { function, argument })
            }
            _ => Ok(Self { function, argument }),
        }
    }

    /// The type of its result.
    pub fn data_type(&self) -> DataType {
        let argument = self.argument.as_ref().map_or(DataType::Int64, Bound::data_type);
        match self.function {
            AggregateFunction::Count => DataType::Int64,
            AggregateFunction::Avg => DataType::Float64,
            AggregateFunction::Min | AggregateFunction::Max => argument,
            AggregateFunction::Sum => match argument {
                float if is_float(&float) => DataType::Float64,
                DataType::Decimal128(_, scale) => DataType::Decimal128(DECIMAL_DIGITS_MAX, scale),
                _ => DataType::Decimal128(DECIMAL_DIGITS_MAX, 0),
            },
        }
    }

    /// Whether its result depends on the order in which values are added.
    pub fn depends_on_order(&self) -> bool {
        is_sum(self.function)
            && self.argument.as_ref().is_some_and(|argument| is_float(&argument.data_type()))
    }

    /// Whether two calls are the same by form.
    pub fn is_same(&self, other: &Self) -> bool {
        let same_argument = match (&self.argument, &other.argument) {
            (Some(a), Some(b)) => a.is_same(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        self.function == other.function && same_argument
    }
}

fn is_sum(function: AggregateFunction) -> bool {
    matches!(function, AggregateFunction::Sum | AggregateFunction::Avg)
}
