//! Looks up names and gives operands the types that their operators need.

use arrow_schema::{DataType, TimeUnit};
use sqlparser::ast;

use super::aggregate::AggregateCall;
use super::bound::{Bound, Constant};
use super::columns::Columns;
use super::types::{self, as_decimal, common, common_number, is_float, is_integer, is_numeric, sql_name};
use crate::error::Refusal;
use crate::evaluate;
use crate::sql::{Aggregate, ArithmeticOp, CompareOp, Expression, Literal, LogicOp, Name, Position, Text};

/// Binds expressions to columns.
pub(super) struct Binder<'a> {
    pub text: &'a Text,
    pub columns: &'a Columns,
    /// Whether aggregates may stand here, and those that stood here so far.
    pub aggregates: Option<Aggregates>,
}

/// What a query groups by and aggregates. Behind the grouping an expression reads these as columns: first the keys.
#[derive(Debug, Default)]
pub(super) struct Aggregates {
    pub keys: Vec<Bound>,
    pub calls: Vec<AggregateCall>,
}

type Binding = Result<Bound, Refusal>;

/// Longest string of a query in bytes: it may stand in each row of a batch.
const STRING_MAX_BYTES: usize = 4096;

impl Binder<'_> {
    /// Binds an expression. Behind a grouping, parts of it that are keys become columns of the groups.
    pub fn bind(&mut self, expression: &Expression) -> Binding {
        match self.key_of(expression) {
            Some(key) => Ok(key),
            None => self.bind_one(expression).and_then(|bound| self.folded(bound, expression)),
        }
    }

    fn bind_one(&mut self, expression: &Expression) -> Binding {
        match expression {
            Expression::Column(name) => self.column(name),
            Expression::Literal(Literal::Text(text), at) if text.len() > STRING_MAX_BYTES => {
                Err(self.text.refuse(*at, format!("a string has at most {STRING_MAX_BYTES} bytes")))
            }
            Expression::Literal(literal, at) => {
                let constant =
                    Constant::of(literal).ok_or_else(|| self.text.refuse(*at, "no type holds this value"));
                constant.map(Bound::Constant)
            }
            Expression::Negate(value) => self.negate(value),
            Expression::Arithmetic(op, left, right) => self.arithmetic(*op, left, right),
            Expression::Compare(op, left, right) => self.compare(*op, left, right),
            Expression::Logic(op, operands) => self.logic(*op, operands),
            Expression::Not(value) => Ok(Bound::Not(Box::new(self.condition(value)?))),
            Expression::IsNull(value) => Ok(Bound::IsNull(Box::new(self.bind(value)?))),
            Expression::In(value, list) => self.in_list(value, list),
            Expression::Like(value, pattern) => {
                let bound = self.bind(value)?;
                if !matches!(bound.data_type(), DataType::Utf8 | DataType::Null) {
                    let why = format!("LIKE is for VARCHAR, and this is {}", sql_name(&bound.data_type()));
                    return Err(self.text.refuse(pattern.at, why));
                }
                let value = Box::new(coerced(bound, &DataType::Utf8));
                Ok(Bound::Like { value, pattern: pattern.clone() })
            }
            Expression::Cast(value, to, at) => self.cast(value, to, *at),
            Expression::Aggregate(aggregate) => self.aggregate(aggregate),
        }
    }

    /// Binds an expression that is true or false.
    pub fn condition(&mut self, expression: &Expression) -> Binding {
        let bound = self.bind(expression)?;
        match bound.data_type() {
            DataType::Boolean => Ok(bound),
            DataType::Null => Ok(coerced(bound, &DataType::Boolean)),
            other => {
                let why = format!("a condition stands here, and this is {}", sql_name(&other));
                Err(self.text.refuse(expression.position(), why))
            }
        }
    }

    /// The value of an expression of constants.
    fn folded(&self, bound: Bound, expression: &Expression) -> Binding {
        let operands = bound.operands();
        if operands.is_empty() || !operands.iter().all(Bound::is_constant) {
            return Ok(bound);
        }
        let value = evaluate::constant(&bound);
        let value = value.map_err(|error| self.text.refuse(expression.position(), error.to_string()))?;
        Ok(Bound::Constant(Constant { value, literal: None }))
    }

    /// The column of the groups that an expression is, if it is one of their keys.
    fn key_of(&mut self, expression: &Expression) -> Option<Bound> {
        let aggregates = self.aggregates.as_ref()?;
        if aggregates.keys.is_empty() || matches!(expression, Expression::Literal(..)) {
            return None;
        }
        let mut plain = Binder { text: self.text, columns: self.columns, aggregates: None };
        let bound = plain.bind(expression).ok()?;
        let index = aggregates.keys.iter().position(|key| key.is_same(&bound))?;
        Some(Bound::Column { index, data_type: bound.data_type() })
    }

    fn column(&self, name: &Name) -> Binding {
        let (index, data_type) = self.columns.find(name).map_err(|why| self.text.refuse(name.at, why))?;
        match &self.aggregates {
            None => Ok(Bound::Column { index, data_type }),
            Some(_) => {
                let why = "a column beside aggregates must be one of GROUP BY";
                Err(self.text.refuse(name.at, why))
            }
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Binding {
        let Some(mut aggregates) = self.aggregates.take() else {
            return Err(self.text.refuse(aggregate.at, "no aggregate may stand here"));
        };
        let argument = aggregate.argument.as_ref().map(|argument| self.bind(argument)).transpose()?;
        let call = AggregateCall::new(aggregate.function, argument);
        let call = call.map_err(|why| self.text.refuse(aggregate.at, why))?;
        let data_type = call.data_type();
        let index = aggregates.keys.len() + aggregates.place_of(call);
        self.aggregates = Some(aggregates);
        Ok(Bound::Column { index, data_type })
    }

    fn negate(&mut self, value: &Expression) -> Binding {
        let bound = self.bind(value)?;
        if !is_numeric(&bound.data_type()) {
            return Err(self.text.refuse(value.position(), "only a number has a sign"));
        }
        Ok(Bound::Negate(Box::new(bound)))
    }

    fn arithmetic(&mut self, op: ArithmeticOp, left: &Expression, right: &Expression) -> Binding {
        let (at, left, right) = (right.position(), self.bind(left)?, self.bind(right)?);
        if let Some(moved) = moved_date(op, &left, &right) {
            return Ok(moved);
        }
        let (left, right) = (numeric_null(left), numeric_null(right));
        let (left_type, right_type) = (left.data_type(), right.data_type());
        if !is_numeric(&left_type) || !is_numeric(&right_type) {
            let why = format!("no arithmetic of {} and {}", sql_name(&left_type), sql_name(&right_type));
            return Err(self.text.refuse(at, why));
        }
        let operands = if is_float(&left_type) || is_float(&right_type) {
            let wanted = common_number(&left_type, &right_type);
            [coerced(left, &wanted), coerced(right, &wanted)]
        } else if op == ArithmeticOp::Divide {
            [coerced(left, &DataType::Float64), coerced(right, &DataType::Float64)]
        } else if is_integer(&left_type) && is_integer(&right_type) {
            [coerced(left, &DataType::Int64), coerced(right, &DataType::Int64)]
        } else {
            match op {
                ArithmeticOp::Add | ArithmeticOp::Subtract => of_one_scale(decimal(left), decimal(right)),
                _ => [decimal(left), decimal(right)],
            }
        };
        let data_type =
            evaluate::arithmetic_type(op, &operands).map_err(|why| self.text.refuse(at, why.to_string()))?;
        Ok(Bound::Arithmetic { op, operands: Box::new(operands), data_type })
    }

    fn compare(&mut self, op: CompareOp, left: &Expression, right: &Expression) -> Binding {
        let at = right.position();
        let (left, right) = (self.bind(left)?, self.bind(right)?);
        self.comparison(op, left, right, at)
    }

    fn comparison(&self, op: CompareOp, left: Bound, right: Bound, at: Position) -> Binding {
        let operands = met(left, right).map_err(|(left, right)| {
            let why = format!("{} cannot be compared with {}", sql_name(&left), sql_name(&right));
            self.text.refuse(at, why)
        })?;
        Ok(Bound::Compare { op, operands: Box::new(operands) })
    }

    fn logic(&mut self, op: LogicOp, operands: &[Expression]) -> Binding {
        let operands = operands.iter().map(|operand| self.condition(operand)).collect::<Result<_, _>>()?;
        Ok(Bound::Logic { op, operands })
    }

    fn in_list(&mut self, value: &Expression, list: &[Expression]) -> Binding {
        let bound = self.bind(value)?;
        let equal = |item: &Expression| {
            let right = self.bind(item)?;
            let equal = self.comparison(CompareOp::Equal, bound.clone(), right, item.position())?;
            self.folded(equal, item)
        };
        Ok(Bound::Logic { op: LogicOp::Or, operands: list.iter().map(equal).collect::<Result<_, _>>()? })
    }

    fn cast(&mut self, value: &Expression, to: &ast::DataType, at: Position) -> Binding {
        let to = cast_target(to)
            .ok_or_else(|| self.text.refuse(at, format!("the device does not cast to {to}")))?;
        let bound = self.bind(value)?;
        if !arrow_cast::can_cast_types(&bound.data_type(), &to) {
            let why = format!("{} cannot be cast to {}", sql_name(&bound.data_type()), sql_name(&to));
            return Err(self.text.refuse(at, why));
        }
        Ok(match coerced(bound, &to) {
            // It has the type of the cast from now on, whatever it was written as.
            Bound::Constant(constant) => Bound::Constant(Constant { literal: None, ..constant }),
            other => other,
        })
    }
}

impl Aggregates {
    /// Where a call's result stands among the calls, which it joins unless it is there.
    fn place_of(&mut self, call: AggregateCall) -> usize {
        let place = self.calls.iter().position(|other| other.is_same(&call));
        place.unwrap_or_else(|| {
            self.calls.push(call);
            self.calls.len() - 1
        })
    }
}

/// A date moved by an interval.
fn moved_date(op: ArithmeticOp, left: &Bound, right: &Bound) -> Option<Bound> {
    let is_moved = matches!(op, ArithmeticOp::Add | ArithmeticOp::Subtract)
        && matches!(left.data_type(), DataType::Date32 | DataType::Timestamp(..))
        && matches!(right.data_type(), DataType::Interval(_));
    if !is_moved {
        return None;
    }
    let has_time = matches!(right, Bound::Constant(Constant { literal: Some(Literal::Interval { nanoseconds, .. }), .. }) if *nanoseconds != 0);
    let left = match left.data_type() {
        DataType::Date32 if has_time => {
            coerced(left.clone(), &DataType::Timestamp(TimeUnit::Microsecond, None))
        }
        _ => left.clone(),
    };
    let data_type = left.data_type();
    Some(Bound::Arithmetic { op, operands: Box::new([left, right.clone()]), data_type })
}

/// Two operands in a type that both have; their types, if there is none.
fn met(left: Bound, right: Bound) -> Result<[Bound; 2], (DataType, DataType)> {
    let (left_type, right_type) = (left.data_type(), right.data_type());
    if let Some(right) = as_constant_of(&right, &left_type).filter(|_| !left.is_constant()) {
        return Ok([left, right]);
    }
    if let Some(left) = as_constant_of(&left, &right_type).filter(|_| !right.is_constant()) {
        return Ok([left, right]);
    }
    let wanted = common(&left_type, &right_type).filter(|wanted| !matches!(wanted, DataType::Interval(_)));
    let Some(wanted) = wanted else { return Err((left_type, right_type)) };
    Ok([coerced(left, &wanted), coerced(right, &wanted)])
}

fn as_constant_of(bound: &Bound, wanted: &DataType) -> Option<Bound> {
    match bound {
        Bound::Constant(constant) => constant.exactly(wanted).map(Bound::Constant),
        _ => None,
    }
}

/// The expression as a value of `wanted`.
pub(super) fn coerced(bound: Bound, wanted: &DataType) -> Bound {
    if &bound.data_type() == wanted {
        return bound;
    }
    as_constant_of(&bound, wanted)
        .unwrap_or_else(|| Bound::Cast { value: Box::new(bound), to: wanted.clone() })
}

/// NULL among numbers is a number.
fn numeric_null(bound: Bound) -> Bound {
    if bound.data_type() == DataType::Null { coerced(bound, &DataType::Int64) } else { bound }
}

/// A number as a decimal.
fn decimal(bound: Bound) -> Bound {
    let default = as_decimal(&bound.data_type());
    let (digits, scale) = match &bound {
        Bound::Constant(Constant { literal: Some(Literal::Number(text)), .. }) if default.1 == 0 => {
            (text.trim_start_matches('-').len().clamp(1, types::DECIMAL_DIGITS_MAX as usize) as u8, 0)
        }
        _ => default,
    };
    coerced(bound, &DataType::Decimal128(digits, scale))
}

/// Two decimals, of which a constant has the scale of the other where that is larger.
fn of_one_scale(left: Bound, right: Bound) -> [Bound; 2] {
    let scaled = |bound: Bound, other: &Bound| {
        let ((digits, scale), (_, wanted)) = (as_decimal(&bound.data_type()), as_decimal(&other.data_type()));
        let digits = digits.saturating_add(wanted.saturating_sub(scale).max(0) as u8);
        if wanted <= scale || digits > types::DECIMAL_DIGITS_MAX {
            return bound;
        }
        as_constant_of(&bound, &DataType::Decimal128(digits, wanted)).unwrap_or(bound)
    };
    let left = scaled(left, &right);
    let right = scaled(right, &left);
    [left, right]
}

fn cast_target(to: &ast::DataType) -> Option<DataType> {
    use ast::DataType as Sql;
    Some(match to {
        Sql::Int(None) | Sql::Integer(None) => DataType::Int32,
        Sql::BigInt(None) => DataType::Int64,
        Sql::Real | Sql::Float(ast::ExactNumberInfo::None) => DataType::Float32,
        Sql::Double(_) | Sql::DoublePrecision => DataType::Float64,
        Sql::Varchar(None) | Sql::Text | Sql::String(None) => DataType::Utf8,
        Sql::Boolean | Sql::Bool => DataType::Boolean,
        Sql::Date => DataType::Date32,
        Sql::Timestamp(None, _) => DataType::Timestamp(TimeUnit::Microsecond, None),
        Sql::Decimal(ast::ExactNumberInfo::PrecisionAndScale(digits, scale)) => {
            let digits = u8::try_from(*digits)
                .ok()
                .filter(|digits| (1..=types::DECIMAL_DIGITS_MAX).contains(digits))?;
            let scale = i8::try_from(*scale).ok().filter(|scale| (0..=digits as i8).contains(scale))?;
            DataType::Decimal128(digits, scale)
        }
        _ => return None,
    })
}
