//! Aggregate functions and typed literals.

use sqlparser::ast::{
    DataType, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Interval, Spanned, TypedString, Value, ValueWithSpan,
};

use super::expression::{Aggregate, AggregateFunction, Converter, Expression};
use super::literal::Literal;
use super::source::Text;
use crate::error::Refusal;

/// `COUNT`, `SUM`, `MIN`, `MAX` or `AVG` of one argument; `COUNT(*)`.
pub(super) fn aggregate(converter: &mut Converter<'_>, call: &Function) -> Result<Expression, Refusal> {
    let text = converter.text;
    let at = call.name.span();
    let name = call.name.to_string();
    let Some(function) = function(&name) else {
        return Err(text.refuse(at, "no such function: there are COUNT, SUM, MIN, MAX and AVG"));
    };
    let is_plain = call.parameters == FunctionArguments::None
        && call.filter.is_none()
        && call.null_treatment.is_none()
        && call.over.is_none()
        && call.within_group.is_empty()
        && !call.uses_odbc_syntax;
    let argument = match &call.args {
        FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses })
            if is_plain && clauses.is_empty() =>
        {
            single(args)
        }
        _ => None,
    };
    let argument = match argument {
        Some(FunctionArgExpr::Wildcard) if function == AggregateFunction::Count => None,
        Some(FunctionArgExpr::Expr(expr)) => Some(converter.boxed(expr)?),
        _ => return Err(text.refuse(at, "an aggregate has one argument, and nothing else")),
    };
    Ok(Expression::Aggregate(Aggregate { function, argument, at: at.into() }))
}

fn single(args: &[FunctionArg]) -> Option<&FunctionArgExpr> {
    match args {
        [FunctionArg::Unnamed(argument)] => Some(argument),
        _ => None,
    }
}

fn function(name: &str) -> Option<AggregateFunction> {
    Some(match name.to_ascii_lowercase().as_str() {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        "avg" => AggregateFunction::Avg,
        _ => return None,
    })
}

/// `DATE '…'` or `TIMESTAMP '…'`.
pub(super) fn typed_string(text: &Text, typed: &TypedString) -> Result<Expression, Refusal> {
    let at = typed.value.span;
    let Value::SingleQuotedString(value) = &typed.value.value else {
        return Err(text.refuse(at, "a date is written as a string"));
    };
    let literal = match typed.data_type {
        DataType::Date => Literal::Date(value.clone()),
        DataType::Timestamp(None, _) => Literal::Timestamp(value.clone()),
        _ => return Err(text.refuse(at, "only DATE and TIMESTAMP stand before a string")),
    };
    Ok(Expression::Literal(literal, at.into()))
}

/// `INTERVAL '90' DAY`, `INTERVAL 3 MONTH`.
pub(super) fn interval(text: &Text, interval: &Interval) -> Result<Expression, Refusal> {
    let at = interval.value.span();
    let count =
        count(&interval.value).ok_or_else(|| text.refuse(at, "an interval counts in whole numbers"))?;
    let is_plain = interval.leading_precision.is_none() && interval.last_field.is_none();
    let field = interval.leading_field.as_ref().filter(|_| is_plain);
    let literal = field.and_then(|field| duration(count, field));
    let refused =
        || text.refuse(at, "an interval has a unit from YEAR to SECOND behind it, and fits in 32 bits");
    Ok(Expression::Literal(literal.ok_or_else(refused)?, at.into()))
}

fn count(value: &Expr) -> Option<i32> {
    match value {
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(digits) | Value::Number(digits, _),
            ..
        }) => digits.trim().parse().ok(),
        _ => None,
    }
}

fn duration(count: i32, field: &DateTimeField) -> Option<Literal> {
    let months =
        |each: i32| Some(Literal::Interval { months: count.checked_mul(each)?, days: 0, nanoseconds: 0 });
    let days =
        |each: i32| Some(Literal::Interval { months: 0, days: count.checked_mul(each)?, nanoseconds: 0 });
    let seconds = |each: i64| {
        let nanoseconds = i64::from(count).checked_mul(each)?.checked_mul(1_000_000_000)?;
        Some(Literal::Interval { months: 0, days: 0, nanoseconds })
    };
    match field {
        DateTimeField::Year | DateTimeField::Years => months(12),
        DateTimeField::Month | DateTimeField::Months => months(1),
        DateTimeField::Week(None) | DateTimeField::Weeks => days(7),
        DateTimeField::Day | DateTimeField::Days => days(1),
        DateTimeField::Hour | DateTimeField::Hours => seconds(3600),
        DateTimeField::Minute | DateTimeField::Minutes => seconds(60),
        DateTimeField::Second | DateTimeField::Seconds => seconds(1),
        _ => None,
    }
}
