//! In which order conditions are evaluated, and which of them before other columns are read.

use std::collections::BTreeSet;

use crate::plan::{Bound, Plan};
use crate::selectivity;

/// Rows that are left below this part of all: then the next column is read for them alone. A choice among scattered rows costs more
/// than reading what it leaves out, until it leaves out most.
const FEW: f64 = 0.05;

/// Conditions that are expected to hold for more than this part of the rows choose among rows that were read.
const MANY: f64 = 0.3;

/// Conditions on the same columns.
struct Group {
    columns: BTreeSet<usize>,
    filters: Vec<Bound>,
    selectivity: f64,
}

/// When a plan's conditions are evaluated.
#[derive(Debug, Default)]
pub(super) struct Stages {
    /// Columns, by their place in the plan, with conditions on them. Each stage reads its columns for the rows that the stages before
    /// it have left.
    pub before: Vec<(BTreeSet<usize>, Vec<Bound>)>,
    /// Conditions on rows that were read with all columns.
    pub after: Vec<Bound>,
}

impl Stages {
    /// The stages of a plan: conditions that leave the fewest rows first, together until few rows are left.
    pub fn new(plan: &Plan, min_max: impl Fn(usize) -> Option<(f64, f64)>) -> Self {
        let mut groups = groups(plan, min_max);
        groups.sort_by(|one, other| one.selectivity.total_cmp(&other.selectivity));
        let (mut stages, mut left) = (Self::default(), 1.0);
        let (mut columns, mut filters) = (BTreeSet::new(), Vec::new());
        for group in groups {
            columns.extend(group.columns);
            filters.extend(group.filters);
            left *= group.selectivity;
            if left < FEW {
                stages.before.push((std::mem::take(&mut columns), std::mem::take(&mut filters)));
            }
        }
        if left > MANY {
            stages.after = filters;
        } else if !filters.is_empty() {
            stages.before.push((columns, filters));
        }
        stages
    }
}

/// A plan's conditions by the columns that they read, those that leave the fewest rows first.
pub(super) fn ordered(
    plan: &Plan,
    min_max: impl Fn(usize) -> Option<(f64, f64)>,
) -> Vec<(BTreeSet<usize>, Vec<Bound>)> {
    let mut groups = groups(plan, min_max);
    groups.sort_by(|one, other| one.selectivity.total_cmp(&other.selectivity));
    groups.into_iter().map(|group| (group.columns, group.filters)).collect()
}

/// The part of the rows that all conditions of a plan hold for, as if those on different columns knew nothing of each other.
pub(super) fn selectivity(plan: &Plan, min_max: impl Fn(usize) -> Option<(f64, f64)>) -> f64 {
    groups(plan, min_max).iter().map(|group| group.selectivity).product()
}

fn groups(plan: &Plan, min_max: impl Fn(usize) -> Option<(f64, f64)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for filter in &plan.filters {
        let mut columns = BTreeSet::new();
        filter.note_columns(&mut columns);
        match groups.iter_mut().find(|group| group.columns == columns) {
            Some(group) => group.filters.push(filter.clone()),
            None => groups.push(Group { columns, filters: vec![filter.clone()], selectivity: 1.0 }),
        }
    }
    groups.iter_mut().for_each(|group| group.selectivity = selectivity::of_all(&group.filters, &min_max));
    groups
}
