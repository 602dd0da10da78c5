//! Expressions: from the parser's tree, which holds every dialect's, to those that the device evaluates.

use sqlparser::ast::{self, BinaryOperator, Expr, Ident, Spanned, UnaryOperator, ValueWithSpan};

use super::functions;
use super::literal::Literal;
use super::source::{Position, Text};
use crate::error::Refusal;

/// An expression whose names were not looked up yet.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Column(Name),
    Literal(Literal, Position),
    /// `-x`.
    Negate(Box<Self>),
    Arithmetic(ArithmeticOp, Box<Self>, Box<Self>),
    Compare(CompareOp, Box<Self>, Box<Self>),
    /// Operands of one chain of ANDs or ORs.
    Logic(LogicOp, Vec<Self>),
    Not(Box<Self>),
    IsNull(Box<Self>),
    /// Whether the first is equal to one of the others.
    In(Box<Self>, Vec<Self>),
    Like(Box<Self>, Pattern),
    Cast(Box<Self>, ast::DataType, Position),
    Aggregate(Aggregate),
}

/// A name of a column, as written.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub text: String,
    pub at: Position,
}

/// An aggregate function and what it aggregates; `None` for `COUNT(*)`.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    pub function: AggregateFunction,
    pub argument: Option<Box<Expression>>,
    pub at: Position,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl CompareOp {
    /// The operator with its operands exchanged.
    pub fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogicOp {
    And,
    Or,
}

/// A pattern of LIKE, in which `%` and `_` are escaped by `\`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub text: String,
    pub ignores_case: bool,
    pub at: Position,
}

/// Deepest nesting of an expression. Chains of AND and OR are one level.
const DEPTH_MAX: usize = 64;

/// Converts one expression of the parser.
pub(super) struct Converter<'t> {
    pub text: &'t Text,
    depth: usize,
}

type Converted = Result<Expression, Refusal>;

impl<'t> Converter<'t> {
    pub fn new(text: &'t Text) -> Self {
        Self { text, depth: 0 }
    }

    /// Converts `expr`, counting how deep it is nested.
    pub fn convert(&mut self, expr: &Expr) -> Converted {
        if self.depth == DEPTH_MAX {
            let why = format!("expressions are nested deeper than {DEPTH_MAX} levels");
            return Err(self.text.refuse(expr.span(), why));
        }
        self.depth += 1;
        let converted = self.convert_one(expr);
        self.depth -= 1;
        converted
    }

    fn convert_one(&mut self, expr: &Expr) -> Converted {
        match expr {
            Expr::Identifier(name) => Ok(column(name)),
            Expr::CompoundIdentifier(parts) => self.qualified(parts),
            Expr::Nested(inner) => self.convert(inner),
            Expr::Value(value) => self.literal(value),
            Expr::TypedString(typed) => functions::typed_string(self.text, typed),
            Expr::Interval(interval) => functions::interval(self.text, interval),
            Expr::UnaryOp { op, expr: inner } => self.unary(*op, inner, expr),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::IsNull(inner) => Ok(Expression::IsNull(self.boxed(inner)?)),
            Expr::IsNotNull(inner) => Ok(not(Expression::IsNull(self.boxed(inner)?))),
            Expr::Between { expr, negated, low, high } => self.between(expr, low, high, *negated),
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), *negated, false)
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), *negated, true)
            }
            Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => Ok(Expression::Cast(self.boxed(expr)?, data_type.clone(), expr.span().into())),
            Expr::Function(function) => functions::aggregate(self, function),
            other => Err(self.text.refuse(other.span(), "the device does not take this expression")),
        }
    }

    pub fn boxed(&mut self, expr: &Expr) -> Result<Box<Expression>, Refusal> {
        self.convert(expr).map(Box::new)
    }

    /// A name behind that of the table: there is one table.
    fn qualified(&self, parts: &[Ident]) -> Converted {
        match parts {
            [table, name] if self.text.has_table(&table.value) => Ok(column(name)),
            [first, ..] => Err(self
                .text
                .refuse(first.span, "no object of that name, and fields of nested columns cannot be named")),
            [] => Err(self.text.refuse_token(None, "a name is missing".to_owned())),
        }
    }

    fn literal(&self, value: &ValueWithSpan) -> Converted {
        use ast::Value;
        let literal = match &value.value {
            Value::Number(digits, false) => Literal::Number(digits.clone()),
            Value::SingleQuotedString(text) => Literal::Text(text.clone()),
            Value::Boolean(value) => Literal::Boolean(*value),
            Value::Null => Literal::Null,
            _ => return Err(self.text.refuse(value.span, "the device does not take this kind of literal")),
        };
        Ok(Expression::Literal(literal, value.span.into()))
    }

    fn unary(&mut self, op: UnaryOperator, inner: &Expr, whole: &Expr) -> Converted {
        match op {
            UnaryOperator::Plus => self.convert(inner),
            UnaryOperator::Not => Ok(not(self.convert(inner)?)),
            UnaryOperator::Minus => Ok(match self.convert(inner)? {
                Expression::Literal(Literal::Number(digits), at) if !digits.starts_with('-') => {
                    Expression::Literal(Literal::Number(format!("-{digits}")), at)
                }
                other => Expression::Negate(Box::new(other)),
            }),
            _ => Err(self.text.refuse(whole.span(), "the device does not take this operator")),
        }
    }

    fn binary(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Converted {
        if let Some(op) = logic(op) {
            return self.chain(op, left, right);
        }
        if let Some(op) = arithmetic(op) {
            return Ok(Expression::Arithmetic(op, self.boxed(left)?, self.boxed(right)?));
        }
        match compare(op) {
            Some(op) => Ok(Expression::Compare(op, self.boxed(left)?, self.boxed(right)?)),
            None => Err(self.operator_refused(left, op)),
        }
    }

    /// An operator stands behind its left side, whose span may leave out what closes it.
    fn operator_refused(&self, left: &Expr, op: &BinaryOperator) -> Refusal {
        let end = left.span().end;
        let is_it = |token: &&sqlparser::tokenizer::TokenWithSpan| {
            (token.span.start.line, token.span.start.column) >= (end.line, end.column)
                && token.token.to_string().eq_ignore_ascii_case(&op.to_string())
        };
        let token = self.text.tokens().iter().find(is_it);
        self.text.refuse_token(token, "the device does not take this operator".to_owned())
    }

    /// The operands of a chain of one operator, which the parser makes a tree as deep as the chain is long.
    fn chain(&mut self, op: LogicOp, left: &Expr, right: &Expr) -> Converted {
        let mut operands = vec![self.convert(right)?];
        let mut next = left;
        while let Expr::BinaryOp { left, op: same, right } = next {
            if logic(same) != Some(op) {
                break;
            }
            operands.push(self.convert(right)?);
            next = left;
        }
        operands.push(self.convert(next)?);
        operands.reverse();
        Ok(Expression::Logic(op, operands))
    }

    fn between(&mut self, expr: &Expr, low: &Expr, high: &Expr, negated: bool) -> Converted {
        let value = self.convert(expr)?;
        self.check_copied(&value, expr)?;
        let low = Expression::Compare(CompareOp::GreaterOrEqual, Box::new(value.clone()), self.boxed(low)?);
        let high = Expression::Compare(CompareOp::LessOrEqual, Box::new(value), self.boxed(high)?);
        Ok(negate_if(negated, Expression::Logic(LogicOp::And, vec![low, high])))
    }

    /// Refuses conditions inside of what BETWEEN and IN compare more than once: nested, they would double with each level.
    fn check_copied(&self, value: &Expression, expr: &Expr) -> Result<(), Refusal> {
        if value.has_condition() {
            return Err(self.text.refuse(expr.span(), "BETWEEN and IN compare no conditions"));
        }
        Ok(())
    }

    fn in_list(&mut self, expr: &Expr, list: &[Expr], negated: bool) -> Converted {
        let value = self.boxed(expr)?;
        self.check_copied(&value, expr)?;
        let list = list.iter().map(|item| self.convert(item)).collect::<Result<_, _>>()?;
        Ok(negate_if(negated, Expression::In(value, list)))
    }

    fn like(
        &mut self,
        expr: &Expr,
        pattern: &Expr,
        escape: Option<&ValueWithSpan>,
        negated: bool,
        ignores_case: bool,
    ) -> Converted {
        let Expr::Value(ValueWithSpan { value: ast::Value::SingleQuotedString(text), span }) = pattern else {
            return Err(self.text.refuse(pattern.span(), "a pattern is a string"));
        };
        let text = match escape.map(|escape| (&escape.value, escape.span)) {
            None => text.replace('\\', "\\\\"),
            Some((ast::Value::SingleQuotedString(escape), _)) if is_char(escape) => escaped(text, escape),
            Some((_, at)) => return Err(self.text.refuse(at, "an escape is one character")),
        };
        let pattern = Pattern { text, ignores_case, at: (*span).into() };
        Ok(negate_if(negated, Expression::Like(self.boxed(expr)?, pattern)))
    }
}

fn is_char(text: &str) -> bool {
    text.chars().count() == 1
}

/// A pattern with its escape character, which is one character, made `\`.
fn escaped(pattern: &str, escape: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        if escape.starts_with(c) {
            text.push('\\');
            text.extend(characters.next());
        } else if c == '\\' {
            text.push_str("\\\\");
        } else {
            text.push(c);
        }
    }
    text
}

fn column(name: &Ident) -> Expression {
    Expression::Column(Name { text: name.value.clone(), at: name.span.into() })
}

fn not(expression: Expression) -> Expression {
    Expression::Not(Box::new(expression))
}

fn negate_if(negated: bool, expression: Expression) -> Expression {
    if negated { not(expression) } else { expression }
}

fn logic(op: &BinaryOperator) -> Option<LogicOp> {
    match op {
        BinaryOperator::And => Some(LogicOp::And),
        BinaryOperator::Or => Some(LogicOp::Or),
        _ => None,
    }
}

fn arithmetic(op: &BinaryOperator) -> Option<ArithmeticOp> {
    match op {
        BinaryOperator::Plus => Some(ArithmeticOp::Add),
        BinaryOperator::Minus => Some(ArithmeticOp::Subtract),
        BinaryOperator::Multiply => Some(ArithmeticOp::Multiply),
        BinaryOperator::Divide => Some(ArithmeticOp::Divide),
        BinaryOperator::Modulo => Some(ArithmeticOp::Remainder),
        _ => None,
    }
}

fn compare(op: &BinaryOperator) -> Option<CompareOp> {
    match op {
        BinaryOperator::Eq => Some(CompareOp::Equal),
        BinaryOperator::NotEq => Some(CompareOp::NotEqual),
        BinaryOperator::Lt => Some(CompareOp::Less),
        BinaryOperator::LtEq => Some(CompareOp::LessOrEqual),
        BinaryOperator::Gt => Some(CompareOp::Greater),
        BinaryOperator::GtEq => Some(CompareOp::GreaterOrEqual),
        _ => None,
    }
}

impl Expression {
    /// Where it begins in the text.
    pub fn position(&self) -> Position {
        match self {
            Self::Column(name) => name.at,
            Self::Literal(_, at) | Self::Cast(_, _, at) => *at,
            Self::Aggregate(aggregate) => aggregate.at,
            Self::Logic(_, operands) => {
                operands.first().map_or(Position { line: 1, column: 1 }, Self::position)
            }
            Self::Negate(value)
            | Self::Arithmetic(_, value, _)
            | Self::Compare(_, value, _)
            | Self::Not(value)
            | Self::IsNull(value)
            | Self::In(value, _)
            | Self::Like(value, _) => value.position(),
        }
    }

    /// Whether a condition stands in it.
    pub fn has_condition(&self) -> bool {
        match self {
            Self::Compare(..)
            | Self::Logic(..)
            | Self::Not(_)
            | Self::IsNull(_)
            | Self::In(..)
            | Self::Like(..) => true,
            Self::Column(_) | Self::Literal(..) => false,
            Self::Arithmetic(_, left, right) => left.has_condition() || right.has_condition(),
            Self::Negate(value) | Self::Cast(value, ..) => value.has_condition(),
            Self::Aggregate(aggregate) => {
                aggregate.argument.as_ref().is_some_and(|argument| argument.has_condition())
            }
        }
    }

    /// Whether an aggregate stands in it.
    pub fn has_aggregate(&self) -> bool {
        match self {
            Self::Aggregate(_) => true,
            Self::Column(_) | Self::Literal(..) => false,
            Self::Logic(_, operands) => operands.iter().any(Self::has_aggregate),
            Self::Arithmetic(_, left, right) | Self::Compare(_, left, right) => {
                left.has_aggregate() || right.has_aggregate()
            }
            Self::In(value, list) => value.has_aggregate() || list.iter().any(Self::has_aggregate),
            Self::Negate(value)
            | Self::Not(value)
            | Self::IsNull(value)
            | Self::Like(value, _)
            | Self::Cast(value, ..) => value.has_aggregate(),
        }
    }
}
