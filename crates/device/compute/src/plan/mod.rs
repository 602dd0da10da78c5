//! Plans: a query bound to the columns of an object.

mod aggregate;
mod binder;
mod bound;
mod columns;
mod constant;
mod types;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use self::binder::{Aggregates, Binder};
use crate::error::Refusal;
use crate::sql::{Expression, Item, Literal, LogicOp, OrderBy, Query};

pub(crate) use aggregate::AggregateCall;
pub(crate) use bound::{Bound, Constant};
pub(crate) use columns::Columns;
pub(crate) use constant::{STRICT, as_f64s};

/// What to read of an object, and what to make of it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Columns to read, by index in the object, ascending. Filters and groups read them by their place here.
    pub columns: Vec<usize>,
    /// The type that each of them is read as.
    pub column_types: Vec<DataType>,
    /// Conditions that all must be true of a row.
    pub filters: Vec<Bound>,
    /// How rows become rows of the result.
    pub grouping: Option<Arc<Grouping>>,
    /// Columns of the result, and behind them those that it is only sorted by: over what is read, or over the groups.
    pub items: Vec<Bound>,
    /// Columns and types of the result.
    pub schema: SchemaRef,
    pub order: Vec<SortKey>,
    pub limit: Option<u64>,
    pub offset: u64,
}

/// Keys and aggregates of a query that groups. Without keys all rows are one group.
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    pub keys: Vec<Bound>,
    pub calls: Vec<AggregateCall>,
}

/// An item that the result is sorted by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortKey {
    pub item: usize,
    pub is_descending: bool,
    pub nulls_first: bool,
}

impl Plan {
    /// Binds `query` to an object's columns.
    ///
    /// # Errors
    /// A name that the object does not have, or operands that do not fit together, with their token.
    pub fn bind(query: &Query, columns: &Columns) -> Result<Self, Refusal> {
        let mut rows = Binder { text: &query.text, columns, aggregates: None };
        let filters = conjuncts(query.filter.as_ref())
            .map(|filter| rows.condition(filter))
            .collect::<Result<_, _>>()?;
        let keys = group_keys(query, &mut rows)?;
        let is_grouped = !query.group_by.is_empty() || has_aggregate(query);
        let aggregates = is_grouped.then(|| Aggregates { keys, calls: Vec::new() });
        let mut binder = Binder { text: &query.text, columns, aggregates };
        let (mut items, names) = select_list(query, &mut binder)?;
        let order = order_keys(query, &mut binder, &mut items, &names)?;
        let schema = schema_of(&items, &names);
        let grouping = binder.aggregates.map(|Aggregates { keys, calls }| Arc::new(Grouping { keys, calls }));
        let (limit, offset) = (query.limit, query.offset);
        let plan = Self {
            columns: Vec::new(),
            column_types: Vec::new(),
            filters,
            grouping,
            items,
            schema,
            order,
            limit,
            offset,
        };
        Ok(plan.with_columns(columns))
    }

    /// Finds the columns to read, and has every expression name them by place.
    fn with_columns(mut self, of: &Columns) -> Self {
        let mut read = BTreeSet::new();
        self.over_rows().into_iter().for_each(|bound| bound.note_columns(&mut read));
        self.columns = read.into_iter().collect();
        let names = self.names_of_groups();
        let read_as = |index: &usize| match of.type_of(*index) {
            Ok(DataType::Utf8) if names.contains(index) => Some(names_type()),
            read_as => read_as.ok(),
        };
        self.column_types = self.columns.iter().filter_map(read_as).collect();
        let columns = std::mem::take(&mut self.columns);
        self.over_rows().into_iter().for_each(|bound| bound.renumber(&columns));
        self.columns = columns;
        self
    }

    /// Columns that are keys of groups and nothing else: of strings, numbers in a dictionary are all that is needed.
    fn names_of_groups(&self) -> BTreeSet<usize> {
        let Some(grouping) = &self.grouping else { return BTreeSet::new() };
        let (mut names, mut others) = (BTreeSet::new(), BTreeSet::new());
        self.filters.iter().for_each(|filter| filter.note_columns(&mut others));
        grouping
            .calls
            .iter()
            .filter_map(|call| call.argument.as_ref())
            .for_each(|one| one.note_columns(&mut others));
        for key in &grouping.keys {
            let is_column = matches!(key, Bound::Column { .. });
            key.note_columns(if is_column { &mut names } else { &mut others });
        }
        names.difference(&others).copied().collect()
    }

    /// Every expression over the rows that are read.
    fn over_rows(&mut self) -> Vec<&mut Bound> {
        let mut all: Vec<_> = self.filters.iter_mut().collect();
        match &mut self.grouping {
            None => all.extend(&mut self.items),
            Some(grouping) => {
                let grouping = Arc::make_mut(grouping);
                all.extend(&mut grouping.keys);
                all.extend(grouping.calls.iter_mut().filter_map(|call| call.argument.as_mut()));
            }
        }
        all
    }

    /// Columns, by their place, that more than filters read.
    pub fn read_behind_filters(&self) -> BTreeSet<usize> {
        let mut read = BTreeSet::new();
        match &self.grouping {
            None => self.items.iter().for_each(|item| item.note_columns(&mut read)),
            Some(grouping) => {
                let arguments = grouping.calls.iter().filter_map(|call| call.argument.as_ref());
                grouping.keys.iter().chain(arguments).for_each(|bound| bound.note_columns(&mut read));
            }
        }
        read
    }

    /// How many columns the result has.
    pub fn width(&self) -> usize {
        self.schema.fields().len()
    }

    /// Rows that are needed in order: those that are skipped, and those that are given.
    pub fn rows_needed(&self) -> Option<usize> {
        self.limit.map(|limit| limit.saturating_add(self.offset).min(usize::MAX as u64) as usize)
    }
}

/// The type that strings are read as which only name groups.
fn names_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The operands of the ANDs at the top of a condition.
fn conjuncts(filter: Option<&Expression>) -> impl Iterator<Item = &Expression> {
    let operands = match filter {
        Some(Expression::Logic(LogicOp::And, operands)) => operands.as_slice(),
        Some(other) => std::slice::from_ref(other),
        None => &[],
    };
    operands.iter()
}

fn has_aggregate(query: &Query) -> bool {
    let in_items = query.items.iter().any(|item| match item {
        Item::All(_) => false,
        Item::Column { expression, .. } => expression.has_aggregate(),
    });
    in_items || query.order_by.iter().any(|key| key.expression.has_aggregate())
}

/// The keys of GROUP BY: expressions, ordinals of the SELECT list, or names that it gives.
fn group_keys(query: &Query, rows: &mut Binder<'_>) -> Result<Vec<Bound>, Refusal> {
    let mut keys: Vec<Bound> = Vec::new();
    for key in &query.group_by {
        let key = rows.bind(selected(query, key, rows.columns)?.unwrap_or(key))?;
        if !keys.iter().any(|other| other.is_same(&key)) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// The item of the SELECT list that `key` means by its ordinal or by a name that is no column.
fn selected<'q>(
    query: &'q Query,
    key: &Expression,
    columns: &Columns,
) -> Result<Option<&'q Expression>, Refusal> {
    match key {
        Expression::Literal(Literal::Number(digits), at) => {
            let index = digits.parse::<usize>().ok().and_then(|ordinal| ordinal.checked_sub(1));
            match index.and_then(|index| query.items.get(index)) {
                Some(Item::Column { expression, .. }) => Ok(Some(expression)),
                _ => Err(query.text.refuse(*at, "the SELECT list has no such item")),
            }
        }
        Expression::Column(name) if columns.find(name).is_err() => {
            Ok(query.items.iter().find_map(|item| match item {
                Item::Column { expression, name: given } if given.eq_ignore_ascii_case(&name.text) => {
                    Some(expression)
                }
                _ => None,
            }))
        }
        _ => Ok(None),
    }
}

type Named = (Vec<Bound>, Vec<String>);

fn select_list(query: &Query, binder: &mut Binder<'_>) -> Result<Named, Refusal> {
    let (mut items, mut names) = (Vec::new(), Vec::new());
    for item in &query.items {
        match item {
            Item::Column { expression, name } => {
                items.push(binder.bind(expression)?);
                names.push(name.clone());
            }
            Item::All(at) if binder.aggregates.is_some() => {
                return Err(query.text.refuse(*at, "`*` has no value beside aggregates"));
            }
            Item::All(at) => {
                for index in 0..binder.columns.len() {
                    let data_type =
                        binder.columns.type_of(index).map_err(|why| query.text.refuse(*at, why))?;
                    items.push(Bound::Column { index, data_type });
                    names.push(binder.columns.name(index).to_owned());
                }
            }
        }
    }
    Ok((items, names))
}

/// The keys of ORDER BY: ordinals, names of the result, or expressions, which become items that are not given.
fn order_keys(
    query: &Query,
    binder: &mut Binder<'_>,
    items: &mut Vec<Bound>,
    names: &[String],
) -> Result<Vec<SortKey>, Refusal> {
    let mut keys: Vec<SortKey> = Vec::new();
    for order in &query.order_by {
        let item = match ordinal_or_name(query, order, names)? {
            Some(item) => item,
            None => item_of(binder.bind(&order.expression)?, items),
        };
        if !keys.iter().any(|other| other.item == item) {
            keys.push(SortKey { item, is_descending: order.is_descending, nulls_first: order.nulls_first });
        }
    }
    Ok(keys)
}

/// Where an expression stands among the items, which it joins unless it is there.
fn item_of(bound: Bound, items: &mut Vec<Bound>) -> usize {
    items.iter().position(|other| other.is_same(&bound)).unwrap_or_else(|| {
        items.push(bound);
        items.len() - 1
    })
}

fn ordinal_or_name(query: &Query, order: &OrderBy, names: &[String]) -> Result<Option<usize>, Refusal> {
    match &order.expression {
        Expression::Column(name) => Ok(names.iter().position(|given| given.eq_ignore_ascii_case(&name.text))),
        Expression::Literal(Literal::Number(digits), at) => {
            let index = digits.parse::<usize>().ok().and_then(|ordinal| ordinal.checked_sub(1));
            let index = index.filter(|index| *index < names.len());
            index.map(Some).ok_or_else(|| query.text.refuse(*at, "the SELECT list has no such item"))
        }
        _ => Ok(None),
    }
}

fn schema_of(items: &[Bound], names: &[String]) -> SchemaRef {
    let fields = items.iter().zip(names).map(|(item, name)| Field::new(name, item.data_type(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
