//! The clauses of a SELECT.

use sqlparser::ast::{
    self, Expr, GroupByExpr, LimitClause, OrderByKind, SelectItem, SetExpr, Spanned, Statement, TableFactor,
    Value, ValueWithSpan,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

use super::expression::Converter;
use super::source::{DIALECT, Text};
use super::{Item, OrderBy, Query};
use crate::error::Refusal;

/// Deepest nesting that the parser follows.
const PARSER_DEPTH_MAX: usize = 64;

/// Words that only stand where a clause begins which the device does not take.
const REFUSED: &[Keyword] = &[
    Keyword::WITH,
    Keyword::DISTINCT,
    Keyword::HAVING,
    Keyword::JOIN,
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::OVER,
    Keyword::QUALIFY,
    Keyword::WINDOW,
    Keyword::FETCH,
    Keyword::LATERAL,
    Keyword::INTO,
    Keyword::EXISTS,
    Keyword::PREWHERE,
    Keyword::ROLLUP,
    Keyword::CUBE,
    Keyword::TABLESAMPLE,
];

/// Parses the query that `text` is.
pub(super) fn query(text: Text) -> Result<Query, Refusal> {
    if let Some(refusal) = text.refuse_first_of(REFUSED) {
        return Err(refusal);
    }
    let parser = Parser::new(&DIALECT).with_recursion_limit(PARSER_DEPTH_MAX);
    let statements = parser.with_tokens_with_locations(text.tokens().to_vec()).parse_statements();
    let statements = statements.map_err(|error| syntax_error(&text, error))?;
    let mut statements = statements.into_iter();
    let (Some(Statement::Query(query)), None) = (statements.next(), statements.next()) else {
        return Err(text.refuse_token(text.tokens().first(), "the device takes one SELECT".to_owned()));
    };
    clauses(text, &query)
}

fn clauses(text: Text, query: &ast::Query) -> Result<Query, Refusal> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Err(text.refuse(query.body.span(), "the device takes one SELECT"));
    };
    check_nothing_else(&text, query, select)?;
    let tables = tables(&text, select)?;
    let text = text.with_tables(tables);
    if select.projection.is_empty() {
        let behind = text.tokens().iter().find(|token| token.span.start > select.select_token.0.span.end);
        return Err(text.refuse_token(behind, "SELECT lists expressions".to_owned()));
    }
    let items = select.projection.iter().map(|item| select_item(&text, item)).collect::<Result<_, _>>()?;
    let filter = select.selection.as_ref().map(|filter| Converter::new(&text).convert(filter)).transpose()?;
    let group_by = group_by(&text, &select.group_by)?;
    let order_by = order_by(&text, query)?;
    let (limit, offset) = limit(&text, query)?;
    Ok(Query { items, filter, group_by, order_by, limit, offset, text })
}

/// Refuses every clause that the parser knows and this file does not name, of whatever dialect.
fn check_nothing_else(text: &Text, query: &ast::Query, select: &ast::Select) -> Result<(), Refusal> {
    let plain_query = query.with.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty();
    let plain_list = select.distinct.is_none()
        && select.top.is_none()
        && select.exclude.is_none()
        && select.into.is_none()
        && select.value_table_mode.is_none()
        && select.select_modifiers.is_none();
    let plain_clauses = select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.having.is_none()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && select.flavor == ast::SelectFlavor::Standard;
    if plain_query && plain_list && plain_clauses {
        return Ok(());
    }
    let why = "the device takes SELECT, FROM, WHERE, GROUP BY, ORDER BY, LIMIT and OFFSET alone";
    Err(text.refuse(query.span(), why))
}

/// The names of the one table of FROM: the object that the query is given, whatever it is called.
fn tables(text: &Text, select: &ast::Select) -> Result<Vec<String>, Refusal> {
    let [from] = select.from.as_slice() else {
        let second = select.from.get(1).map_or(select.span(), Spanned::span);
        return Err(text.refuse(second, "FROM names one object"));
    };
    if let Some(join) = from.joins.first() {
        return Err(text.refuse(join.span(), "joins are not for the device"));
    }
    match &from.relation {
        TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints,
            version: None,
            sample: None,
            json_path: None,
            partitions,
            ..
        } if with_hints.is_empty()
            && partitions.is_empty()
            && alias.as_ref().is_none_or(|alias| alias.columns.is_empty()) =>
        {
            let own = name.0.last().map(|part| part.to_string().trim_matches('"').to_owned());
            Ok(own.into_iter().chain(alias.as_ref().map(|alias| alias.name.value.clone())).collect())
        }
        other => Err(text.refuse(other.span(), "FROM names one object")),
    }
}

fn select_item(text: &Text, item: &SelectItem) -> Result<Item, Refusal> {
    let (expr, name) = match item {
        SelectItem::UnnamedExpr(expr) => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value.clone())),
        SelectItem::Wildcard(options) if options.to_string().is_empty() => {
            return Ok(Item::All(item.span().into()));
        }
        other => return Err(text.refuse(other.span(), "the device takes expressions and `*` here")),
    };
    // Converted first: this bounds how deep the expression is that is then written as its name.
    let expression = Converter::new(text).convert(expr)?;
    Ok(Item::Column { expression, name: name.unwrap_or_else(|| default_name(expr)) })
}

/// The name of a column for which the query has none: its expression, or the column's own name.
fn default_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.clone()).unwrap_or_default(),
        other => other.to_string(),
    }
}

fn group_by(text: &Text, clause: &GroupByExpr) -> Result<Vec<super::Expression>, Refusal> {
    match clause {
        GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => {
            keys.iter().map(|key| Converter::new(text).convert(key)).collect()
        }
        other => Err(text.refuse(other.span(), "GROUP BY takes expressions")),
    }
}

fn order_by(text: &Text, query: &ast::Query) -> Result<Vec<OrderBy>, Refusal> {
    let Some(clause) = &query.order_by else { return Ok(Vec::new()) };
    let OrderByKind::Expressions(keys) = &clause.kind else {
        return Err(text.refuse(clause.span(), "ORDER BY takes expressions"));
    };
    keys.iter().map(|key| order_key(text, key)).collect()
}

/// NULLs come last in both directions, unless the query says otherwise.
fn order_key(text: &Text, key: &ast::OrderByExpr) -> Result<OrderBy, Refusal> {
    if key.with_fill.is_some() {
        return Err(text.refuse(key.span(), "the device fills no gaps"));
    }
    Ok(OrderBy {
        expression: Converter::new(text).convert(&key.expr)?,
        is_descending: key.options.asc == Some(false),
        nulls_first: key.options.nulls_first == Some(true),
    })
}

fn limit(text: &Text, query: &ast::Query) -> Result<(Option<u64>, u64), Refusal> {
    let (limit, offset) = match &query.limit_clause {
        None => (None, None),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(other) => return Err(text.refuse(other.span(), "the device takes LIMIT n OFFSET m")),
    };
    let limit = limit.map(|limit| count(text, limit)).transpose()?;
    Ok((limit, offset.map_or(Ok(0), |offset| count(text, offset))?))
}

fn count(text: &Text, expr: &Expr) -> Result<u64, Refusal> {
    let digits = match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, false), .. }) => digits,
        _ => return Err(text.refuse(expr.span(), "a number of rows stands here")),
    };
    digits.parse().map_err(|_| text.refuse(expr.span(), "a number of rows stands here"))
}

/// The parser says in its text where it stopped; a depth is nowhere in particular.
fn syntax_error(text: &Text, error: ParserError) -> Refusal {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            let why = format!("the query is nested deeper than {PARSER_DEPTH_MAX} levels");
            return text.refuse_token(deepest(text), why);
        }
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
    };
    match message.rsplit_once(" at Line: ").and_then(|(what, place)| Some((what, position(place)?))) {
        Some((what, at)) => text.refuse(at, what),
        None => text.refuse_token(None, message),
    }
}

/// The token at which parentheses are nested deepest.
fn deepest(text: &Text) -> Option<&sqlparser::tokenizer::TokenWithSpan> {
    use sqlparser::tokenizer::Token;
    let (mut depth, mut deepest) = (0_i64, (0, None));
    for token in text.tokens() {
        depth += match token.token {
            Token::LParen => 1,
            Token::RParen => -1,
            _ => 0,
        };
        if depth > deepest.0 {
            deepest = (depth, Some(token));
        }
    }
    deepest.1.or(text.tokens().first())
}

fn position(place: &str) -> Option<super::Position> {
    let (line, column) = place.split_once(", Column: ")?;
    Some(super::Position { line: line.parse().ok()?, column: column.parse().ok()? })
}
