//! Estimates of how many rows conditions hold for, as if values were spread evenly between the least and the greatest value that a file states.

use crate::plan::{Bound, Constant};
use crate::sql::CompareOp;

/// Part of the rows that a condition is assumed to hold for where nothing is known of it.
const UNKNOWN: f64 = 1.0 / 3.0;

/// The part of the rows that all of `filters`, which read the same columns, hold for. `min_max` gives the least and the greatest
/// value of the column at a place.
pub(crate) fn of_all(filters: &[Bound], min_max: impl Fn(usize) -> Option<(f64, f64)>) -> f64 {
    let each: Vec<_> = filters.iter().map(|filter| of_one(filter, &min_max)).collect();
    if each.iter().all(Option::is_some) && filters.len() > 1 {
        // Bounds on one column: each leaves out rows at one end.
        let kept: f64 = each.iter().flatten().sum::<f64>() - (filters.len() - 1) as f64;
        return kept.max(0.0);
    }
    each.into_iter().map(|known| known.unwrap_or(UNKNOWN)).product()
}

/// The part that one comparison of a column with a constant holds for.
fn of_one(filter: &Bound, min_max: impl Fn(usize) -> Option<(f64, f64)>) -> Option<f64> {
    let (op, place, constant) = compared(filter)?;
    let ((least, greatest), value) = (min_max(place)?, constant.as_f64()?);
    if least >= greatest {
        return None;
    }
    let below = ((value - least) / (greatest - least)).clamp(0.0, 1.0);
    match op {
        CompareOp::Less | CompareOp::LessOrEqual => Some(below),
        CompareOp::Greater | CompareOp::GreaterOrEqual => Some(1.0 - below),
        CompareOp::Equal | CompareOp::NotEqual => None,
    }
}

/// A comparison of a column with a constant: the operator with the column on its left, the column's place, the constant.
pub(crate) fn compared(filter: &Bound) -> Option<(CompareOp, usize, &Constant)> {
    let Bound::Compare { op, operands } = filter else { return None };
    match operands.as_slice() {
        [Bound::Column { index, .. }, Bound::Constant(constant)] => Some((*op, *index, constant)),
        [Bound::Constant(constant), Bound::Column { index, .. }] => Some((op.mirrored(), *index, constant)),
        _ => None,
    }
}
