//! What all aggregate functions of a query keep: calls that keep the same share it.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;

use super::accumulator::{Accumulator, Finish, accumulator};
use super::rows::GroupedRows;
use crate::error::QueryError;
use crate::evaluate;
use crate::plan::{AggregateCall, Bound};
use crate::sql::AggregateFunction;

/// What all calls keep of every group.
pub(super) struct States {
    states: Vec<State>,
    /// For each call, the state that it keeps, what it gives of that, and its type.
    calls: Vec<(usize, Finish, DataType)>,
}

/// What one or several calls keep.
struct State {
    argument: Option<Bound>,
    kind: Kind,
    accumulator: Box<dyn Accumulator>,
}

/// What is kept: a sum knows its average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Count,
    Sum,
    Least,
    Greatest,
}

impl Kind {
    fn of(function: AggregateFunction) -> (Self, Finish) {
        match function {
            AggregateFunction::Count => (Self::Count, Finish::Value),
            AggregateFunction::Sum => (Self::Sum, Finish::Value),
            AggregateFunction::Avg => (Self::Sum, Finish::Average),
            AggregateFunction::Min => (Self::Least, Finish::Value),
            AggregateFunction::Max => (Self::Greatest, Finish::Value),
        }
    }
}

impl Kind {
    /// The values of an argument. Sums take decimals of 64 bits, and counts anything.
    fn value(self, argument: &Bound, batch: &RecordBatch) -> Result<ArrayRef, QueryError> {
        let value = match self {
            Self::Count | Self::Sum => evaluate::narrow_value(argument, batch)?,
            Self::Least | Self::Greatest => evaluate::value(argument, batch)?,
        };
        Ok(value.into_rows(batch.num_rows())?)
    }
}

impl States {
    pub fn new(calls: &[AggregateCall]) -> Self {
        let mut states = Self { states: Vec::new(), calls: Vec::new() };
        for call in calls {
            let (kind, finish) = Kind::of(call.function);
            let place = states.place_of(kind, call);
            states.calls.push((place, finish, call.data_type()));
        }
        states
    }

    fn place_of(&mut self, kind: Kind, call: &AggregateCall) -> usize {
        let is_same = |state: &State| match (&state.argument, &call.argument) {
            (Some(mine), Some(theirs)) => state.kind == kind && mine.is_same(theirs),
            (mine, theirs) => state.kind == kind && mine.is_none() && theirs.is_none(),
        };
        self.states.iter().position(is_same).unwrap_or_else(|| {
            self.states.push(State { argument: call.argument.clone(), kind, accumulator: accumulator(call) });
            self.states.len() - 1
        })
    }

    /// Adds the rows of `batch`, which are of these groups.
    pub fn add(&mut self, rows: &GroupedRows<'_>, batch: &RecordBatch) -> Result<(), QueryError> {
        for state in &mut self.states {
            let argument =
                state.argument.as_ref().map(|argument| state.kind.value(argument, batch)).transpose()?;
            state.accumulator.add(rows, argument.as_ref())?;
        }
        Ok(())
    }

    /// Adds what `other`, of the same calls, keeps: its group `n` is group `of_row[n]` here.
    pub fn merge(&mut self, of_row: &[u32], groups: usize, other: Self) -> Result<(), QueryError> {
        for (mine, theirs) in self.states.iter_mut().zip(other.states) {
            mine.accumulator.merge(of_row, groups, theirs.accumulator)?;
        }
        Ok(())
    }

    pub fn held_bytes(&self) -> usize {
        self.states.iter().map(|state| state.accumulator.held_bytes()).sum()
    }

    /// The result of each call for each of `groups` groups.
    pub fn finish(mut self, groups: usize) -> Result<Vec<ArrayRef>, QueryError> {
        let states = &mut self.states;
        let result = |(place, finish, data_type): &(usize, Finish, DataType)| {
            states[*place].accumulator.finish(groups, *finish, data_type)
        };
        self.calls.iter().map(result).collect()
    }
}
