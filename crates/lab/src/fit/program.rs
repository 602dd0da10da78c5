//! Linear programs over the parameters: whether statements hold together, and what a time's ratio may then be.

use anyhow::{Context, Result};
use microlp::{ComparisonOp, Error, LinearExpr, OptimizationDirection, Problem, Variable};

use super::form::Form;
use super::parameters::{COUNT, PARAMETERS, Values};
use crate::report::claims::times::Range;

/// Programs are in microseconds, so that their numbers are of one size.
const NS: f64 = 1e-3;

/// A ratio of two times that a claim bounds.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Above the line.
    pub over: Form,
    /// Below it.
    pub under: Form,
    /// What the claim leaves open.
    pub range: Range,
}

impl Row {
    /// The ratio.
    pub fn ratio(&self, values: &Values) -> f64 {
        self.over.at(values) / self.under.at(values)
    }
}

/// How far a ratio may be from what is printed.
#[derive(Clone, Copy, Debug)]
pub enum Leeway {
    /// This share of the printed words' precision; 1 is all of it.
    Share(f64),
    /// All of it, and this share of the ratio beyond.
    Beyond(f64),
}

impl Leeway {
    /// What a claim's words leave open.
    pub const AS_PRINTED: Self = Self::Share(1.0);

    fn ends(self, range: &Range) -> (f64, f64) {
        match (self, range.printed) {
            (Self::Share(share), Some(printed)) => {
                (printed - (printed - range.least) * share, printed + (range.most - printed) * share)
            }
            (Self::Share(_), None) => (range.least, range.most),
            (Self::Beyond(beyond), _) => (range.least * (1.0 - beyond), range.most * (1.0 + beyond)),
        }
    }
}

/// A linear condition: `constant + Σ factor · parameter ≥ 0`, in microseconds, its largest number 1.
struct Condition {
    constant: f64,
    factors: [f64; COUNT],
}

impl Condition {
    fn new(more: &Form, times: f64, less: &Form) -> Self {
        let mut form = *more;
        form += *less * -times;
        let largest = form.factors.iter().fold(0.0f64, |most, factor| most.max(factor.abs())).max(1e-9);
        Self {
            constant: form.constant_ns * NS / largest,
            factors: form.factors.map(|factor| factor / largest),
        }
    }

    /// Those of a row: one for each end that its range has.
    fn of(row: &Row, leeway: Leeway) -> impl Iterator<Item = Self> {
        let (least, most) = leeway.ends(&row.range);
        let above = (least > 0.0).then(|| Self::new(&row.over, least, &row.under));
        let below = most.is_finite().then(|| {
            let scaled = row.under * most;
            Self::new(&scaled, 1.0, &row.over)
        });
        above.into_iter().chain(below)
    }

    fn left(&self, parameters: &[Variable]) -> LinearExpr {
        let mut left = LinearExpr::empty();
        for (&parameter, &factor) in
            parameters.iter().zip(&self.factors).filter(|(_, factor)| **factor != 0.0)
        {
            left.add(parameter, factor);
        }
        left
    }
}

/// What is looked for among the values that satisfy all rows.
#[derive(Clone, Copy, Debug)]
pub enum Aim {
    /// Any.
    Any,
    /// The least of one parameter.
    Least(usize),
    /// The most of one parameter.
    Most(usize),
    /// The fewest and smallest changes from `cosmos`: the least sum of changes, each over the width of its bounds.
    NearCosmos,
}

/// Values that satisfy all rows, if there are any.
///
/// # Errors
/// When the solver fails.
pub fn solve(rows: &[Row], leeway: Leeway, aim: Aim) -> Result<Option<Values>> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let parameters: Vec<Variable> = PARAMETERS
        .iter()
        .enumerate()
        .map(|(place, parameter)| {
            let weight = match aim {
                Aim::Least(wanted) if wanted == place => 1.0,
                Aim::Most(wanted) if wanted == place => -1.0,
                _ => 0.0,
            };
            problem.add_var(weight, (parameter.least_ns * NS, parameter.most_ns * NS))
        })
        .collect();
    for condition in rows.iter().flat_map(|row| Condition::of(row, leeway)) {
        problem.add_constraint(condition.left(&parameters), ComparisonOp::Ge, -condition.constant);
    }
    if let Aim::NearCosmos = aim {
        weigh_changes(&mut problem, &parameters);
    }
    let Some(solution) = solution(&problem)? else { return Ok(None) };
    let mut values = Values::cosmos();
    values.0.iter_mut().zip(parameters).for_each(|(value, at)| *value = solution.var_value(at) / NS);
    Ok(Some(values))
}

/// Adds the size of each parameter's change to what is minimised.
fn weigh_changes(problem: &mut Problem, parameters: &[Variable]) {
    for (&at, parameter) in parameters.iter().zip(&PARAMETERS) {
        let change = problem.add_var(1.0, (0.0, f64::INFINITY));
        let (width, cosmos) = (parameter.width_ns() * NS, parameter.cosmos_ns * NS);
        problem.add_constraint([(change, width), (at, -1.0)], ComparisonOp::Ge, -cosmos);
        problem.add_constraint([(change, width), (at, 1.0)], ComparisonOp::Ge, cosmos);
    }
}

fn solution(problem: &Problem) -> Result<Option<microlp::Solution>> {
    match problem.solve() {
        Ok(outcome) => Ok(Some(outcome.into_solution().ok().context("the solver stopped early")?)),
        Err(Error::Infeasible) => Ok(None),
        Err(error) => Err(error).context("solve for the parameters"),
    }
}

/// The least and the most that a ratio of times can be while all rows hold; nothing if they cannot.
///
/// A linear-fractional program, made linear by Charnes and Cooper's substitution: every value over the lower time.
///
/// # Errors
/// When the solver fails.
pub fn extremes(rows: &[Row], over: &Form, under: &Form) -> Result<Option<(f64, f64)>> {
    let least = extreme(rows, over, under, OptimizationDirection::Minimize)?;
    let most = extreme(rows, over, under, OptimizationDirection::Maximize)?;
    Ok(least.zip(most))
}

fn extreme(rows: &[Row], over: &Form, under: &Form, direction: OptimizationDirection) -> Result<Option<f64>> {
    let mut problem = Problem::new(direction);
    let open = (0.0, f64::INFINITY);
    let share = problem.add_var(over.constant_ns * NS, open);
    let parameters: Vec<Variable> =
        over.factors.iter().map(|&factor| problem.add_var(factor, open)).collect();
    for (&at, parameter) in parameters.iter().zip(&PARAMETERS) {
        problem.add_constraint([(at, 1.0), (share, -parameter.least_ns * NS)], ComparisonOp::Ge, 0.0);
        problem.add_constraint([(at, 1.0), (share, -parameter.most_ns * NS)], ComparisonOp::Le, 0.0);
    }
    for condition in rows.iter().flat_map(|row| Condition::of(row, Leeway::AS_PRINTED)) {
        let mut left = condition.left(&parameters);
        left.add(share, condition.constant);
        problem.add_constraint(left, ComparisonOp::Ge, 0.0);
    }
    let whole = Condition { constant: under.constant_ns * NS, factors: under.factors };
    let mut left = whole.left(&parameters);
    left.add(share, whole.constant);
    problem.add_constraint(left, ComparisonOp::Eq, 1.0);
    Ok(solution(&problem)?.map(|solution| solution.objective()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The time of a parameter alone.
    fn alone(place: usize) -> Form {
        let mut factors = [0.0; COUNT];
        factors[place] = 1.0;
        Form { constant_ns: 0.0, factors }
    }

    /// Round trip over wake-up.
    fn row(range: Range) -> Row {
        Row { over: alone(8), under: alone(11), range }
    }

    #[test]
    fn nearest_values_change_only_what_a_row_needs() {
        let none = solve(&[], Leeway::AS_PRINTED, Aim::NearCosmos).unwrap().unwrap();
        assert!(none.0.iter().zip(Values::cosmos().0).all(|(one, two)| (one - two).abs() < 1e-6), "{none:?}");
        let near = solve(&[row(Range::at_least(0.5))], Leeway::AS_PRINTED, Aim::NearCosmos).unwrap().unwrap();
        let changed: Vec<usize> =
            (0..COUNT).filter(|&place| (near.0[place] - PARAMETERS[place].cosmos_ns).abs() > 1e-6).collect();
        // 850 / 1700 and 1000 / 2000 satisfy it alike: 300 of 19,500 ns less beside 150 of 1,150 more.
        assert_eq!(changed, [11]);
        assert!((near.0[11] - 1700.0).abs() < 1e-3, "{near:?}");
    }

    #[test]
    fn rows_that_contradict_each_other_have_no_values() {
        let rows = [row(Range::at_least(0.5)), row(Range::at_most(0.4))];
        assert!(solve(&rows, Leeway::AS_PRINTED, Aim::Any).unwrap().is_none());
        assert!(solve(&rows, Leeway::Beyond(0.2), Aim::Any).unwrap().is_some());
        assert_eq!(extremes(&rows, &alone(8), &alone(11)).unwrap(), None);
    }

    #[test]
    fn extremes_of_a_ratio_are_those_of_the_bounds_and_of_the_rows() {
        let (least, most) = extremes(&[], &alone(8), &alone(11)).unwrap().unwrap();
        assert!((least - 550.0 / 20_000.0).abs() < 1e-6 && (most - 1_700.0 / 500.0).abs() < 1e-6);
        let rows = [row(Range::around(0.5, 0.1))];
        let (least, most) = extremes(&rows, &alone(8), &alone(11)).unwrap().unwrap();
        assert!((least - 0.4).abs() < 1e-6 && (most - 0.6).abs() < 1e-6);
    }

    #[test]
    fn a_share_of_the_leeway_narrows_what_is_printed_alone() {
        assert_eq!(Leeway::Share(0.5).ends(&Range::around(0.5, 0.1)), (0.45, 0.55));
        assert_eq!(Leeway::Share(0.5).ends(&Range::at_most(1.0)), (0.0, 1.0));
    }
}
