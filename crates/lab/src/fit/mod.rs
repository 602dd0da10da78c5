//! A fit of the times that no source gives to what the papers publish of times.
//!
//! Each claim of time is a range of a ratio of modelled times, and each modelled time a linear form of the parameters. So
//! "these claims hold together" is a linear program, and its answer is exact: contradictions are proved, not searched for.

mod conflicts;
pub mod figures;
mod form;
mod parameters;
mod program;

use anyhow::{Context, Result, ensure};
use byway::Method;

use self::conflicts::{Set, places};
use self::form::{Counts, Form, Forms};
use self::program::{Aim, Leeway, Row, extremes, solve};
use crate::report::claims::Claim;
use crate::report::claims::times::{Statement, Time};

pub use self::parameters::{PARAMETERS, Values};

/// Claims that print one measurement twice: neither is a prediction from the other.
const SAME: [[&str; 2]; 1] = [["be-latency-prp", "be-latency-abstract-prp"]];
/// Each paper, and how the names of its claims begin.
const PAPERS: [(&str, &str); 2] = [("ByteExpress", "be-"), ("BandSlim", "bs-")];
/// Most claims that are named together against one.
const MOST_AGAINST: u32 = 2;
/// Steps of a bisection.
const BISECTIONS: u32 = 40;
/// Room beside the least leeway, so that a program is not solved on the edge of what can be.
const SLACK: f64 = 1e-3;

/// A claim of time with its rows.
pub struct Point {
    /// The claim.
    pub claim: &'static Claim,
    rows: Vec<Row>,
}

/// The range of a ratio, and where it lies within.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Under the nearest values.
    pub near: f64,
    /// The least that it can be.
    pub least: f64,
    /// The most.
    pub most: f64,
}

/// How one statement fares.
pub struct Fared {
    /// What is said.
    pub statement: &'static Statement,
    /// The ratio under `cosmos`.
    pub cosmos: f64,
    /// Under the fitted values.
    pub fitted: f64,
    /// From all claims that hold together but this one.
    pub left_out: Predicted,
    /// The least and the most that the bounds of the parameters allow, whatever is claimed.
    pub within_bounds: (f64, f64),
    /// Commands, pages and chunks above and below the line.
    pub counts: [Counts; 2],
}

/// How one claim fares.
pub struct Outcome {
    /// The claim.
    pub claim: &'static Claim,
    /// Its statements.
    pub statements: Vec<Fared>,
    /// For one that is left out: sets of fitted claims that contradict it, each of at most two where there are such; an empty
    /// one where the bounds alone do.
    pub against: Vec<Vec<&'static Claim>>,
    /// Whether it is among those that hold together.
    pub is_fitted: bool,
    /// The share of every ratio by which it and the fitted claims must give way to hold together.
    pub beyond: f64,
}

impl Outcome {
    /// The factor by which the worst of its statements is missed.
    pub fn miss(&self, ratio: fn(&Fared) -> f64) -> f64 {
        self.statements.iter().map(|fared| fared.statement.range.miss(ratio(fared))).fold(1.0, f64::max)
    }
}

/// A parameter, and where it can be while the fitted claims hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// The least, in nanoseconds.
    pub least_ns: f64,
    /// The most.
    pub most_ns: f64,
}

/// A part of a put's time, in nanoseconds, and how it compares with a command.
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// Under `cosmos`.
    pub cosmos_ns: f64,
    /// Under the fitted values.
    pub fitted_ns: f64,
    /// It over a command, while the fitted claims hold.
    pub over_command: Predicted,
}

/// One paper without the other.
pub struct Alone {
    /// Its name.
    pub paper: &'static str,
    /// Its claims of time.
    pub claims: usize,
    /// Each choice of the fewest of them without which the others hold together.
    pub left_out: Vec<Vec<&'static Claim>>,
}

/// The fit.
pub struct Fit {
    /// Every claim of time, ByteExpress first.
    pub outcomes: Vec<Outcome>,
    /// Ways in which so few claims can be left out that the others hold together.
    pub ways: usize,
    /// The share of its printed precision that each fitted claim needs.
    pub share: f64,
    /// The share of every ratio by which all claims must give way to hold together.
    pub beyond: f64,
    /// The fitted value of each parameter.
    pub values: Values,
    /// Where each parameter can be.
    pub regions: Vec<Region>,
    /// Parts of a put.
    pub parts: Vec<Part>,
    /// Each paper without the other.
    pub alone: Vec<Alone>,
    /// Of a command, a page and a further chunk.
    plane: [Form; 3],
}

impl Fit {
    /// What a chunk and a page take under some values, over a command.
    pub fn place(&self, values: &Values) -> (f64, f64) {
        let [command, page, chunk] = self.plane.each_ref().map(|form| form.at(values));
        (chunk / command, page / command)
    }
}

/// Fits the parameters to the claims.
///
/// # Errors
/// When the solver fails.
pub fn fit() -> Result<Fit> {
    let mut forms = Forms::new()?;
    let points = points(&mut forms);
    ensure!(points.len() < Set::BITS as usize, "too many claims for a set of bits");
    let largest = conflicts::largest(points.len(), &mut |set| holds(&points, set))?;
    let all: Set = (1 << points.len()) - 1;
    let dropped = *largest.dropped.first().context("no claim holds alone")?;
    let kept = all & !dropped;
    let rows = rows(&points, kept);
    let (values, share) = nearest(&rows)?;
    let regions = (0..PARAMETERS.len()).map(|place| region(&rows, place)).collect::<Result<_>>()?;
    let named = forms_of_parts(&mut forms);
    let [command, page, _, chunk, _] = named.map(|(_, form)| form);
    let parts =
        named.iter().map(|(name, form)| part(name, form, &command, &rows, &values)).collect::<Result<_>>()?;
    let outcomes =
        (0..points.len()).map(|place| outcome(&points, kept, place, &values)).collect::<Result<_>>()?;
    let beyond = beyond(&self::rows(&points, all))?;
    let alone = PAPERS.iter().map(|(paper, begin)| alone(&points, paper, begin)).collect::<Result<_>>()?;
    let (plane, ways) = ([command, page, chunk], largest.dropped.len());
    Ok(Fit { outcomes, ways, share, beyond, values, regions, parts, alone, plane })
}

fn outcome(points: &[Point], kept: Set, place: usize, values: &Values) -> Result<Outcome> {
    let (point, claim) = (&points[place], 1 << place);
    let is_fitted = kept & claim != 0;
    let against = if is_fitted { Vec::new() } else { against(points, kept, claim)? };
    let named = |set: Set| places(set).map(|place| points[place].claim).collect();
    let rest = rows_without_same(points, kept, point.claim);
    Ok(Outcome {
        claim: point.claim,
        statements: fared(point, &rest, values)?,
        against: against.into_iter().map(named).collect(),
        is_fitted,
        beyond: beyond(&rows(points, kept | claim))?,
    })
}

/// The least share of every ratio by which rows must give way to hold together.
fn beyond(rows: &[Row]) -> Result<f64> {
    least(|beyond| Ok(solve(rows, Leeway::Beyond(beyond), Aim::Any)?.is_some()))
}

/// What a paper must lose by itself. The names of its claims begin alike.
fn alone(points: &[Point], paper: &'static str, begin: &str) -> Result<Alone> {
    let own: Vec<usize> =
        (0..points.len()).filter(|&place| points[place].claim.id.starts_with(begin)).collect();
    let named = |set: Set| places(set).map(|place| own[place]);
    let largest = conflicts::largest(own.len(), &mut |set| {
        holds(points, named(set).fold(0, |set, place| set | 1 << place))
    })?;
    let claims = |set: &Set| named(*set).map(|place| points[place].claim).collect();
    Ok(Alone { paper, claims: own.len(), left_out: largest.dropped.iter().map(claims).collect() })
}

/// The claims that speak of times.
fn points(forms: &mut Forms) -> Vec<Point> {
    let claims = Claim::all().filter(|claim| !claim.times.is_empty());
    let mut row = |statement: &Statement| Row {
        over: forms.of(statement.over),
        under: forms.of(statement.under),
        range: statement.range,
    };
    claims.map(|claim| Point { claim, rows: claim.times.iter().map(&mut row).collect() }).collect()
}

fn rows(points: &[Point], set: Set) -> Vec<Row> {
    places(set).flat_map(|place| points[place].rows.iter().copied()).collect()
}

/// The smallest sets of claims that contradict one, of those that hold together; one of any size where none is small.
fn against(points: &[Point], kept: Set, claim: Set) -> Result<Vec<Set>> {
    let is_repeated = |place: &usize| SAME.iter().any(|same| same[1] == points[*place].claim.id);
    let once = places(kept).filter(|place| !is_repeated(place)).fold(0, |set, place| set | 1 << place);
    let small = conflicts::against(claim, once, MOST_AGAINST, &mut |set| holds(points, set))?;
    if small.is_empty() {
        return Ok(vec![conflicts::irreducible(once, &mut |set| holds(points, set | claim))?]);
    }
    Ok(small)
}

fn rows_without_same(points: &[Point], set: Set, claim: &Claim) -> Vec<Row> {
    let same = SAME.iter().find(|same| same.contains(&claim.id));
    let is_same = |other: &Claim| other.id == claim.id || same.is_some_and(|same| same.contains(&other.id));
    let others = places(set).filter(|&place| !is_same(points[place].claim));
    others.flat_map(|place| points[place].rows.iter().copied()).collect()
}

fn holds(points: &[Point], set: Set) -> Result<bool> {
    Ok(solve(&rows(points, set), Leeway::AS_PRINTED, Aim::Any)?.is_some())
}

/// Values that satisfy rows as closely as can be, and among them the nearest to `cosmos`; and the share of the printed
/// precision that they take.
fn nearest(rows: &[Row]) -> Result<(Values, f64)> {
    let share = least(|share| Ok(solve(rows, Leeway::Share(share), Aim::Any)?.is_some()))?;
    let leeway = Leeway::Share((share + SLACK).min(1.0));
    let values = solve(rows, leeway, Aim::NearCosmos)?.context("claims that hold together have values")?;
    Ok((values, share))
}

/// The least number from 0 to 1 at which something holds, which holds from there on; 1 if it does not before.
fn least(holds: impl Fn(f64) -> Result<bool>) -> Result<f64> {
    if holds(0.0)? {
        return Ok(0.0);
    }
    let (mut no, mut yes) = (0.0, 1.0);
    for _ in 0..BISECTIONS {
        let middle = (no + yes) / 2.0;
        if holds(middle)? {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Ok(yes)
}

fn region(rows: &[Row], place: usize) -> Result<Region> {
    let end = |aim| {
        let values =
            solve(rows, Leeway::AS_PRINTED, aim)?.context("claims that hold together have values")?;
        Ok::<_, anyhow::Error>(values.0[place])
    };
    Ok(Region { least_ns: end(Aim::Least(place))?, most_ns: end(Aim::Most(place))? })
}

fn fared(point: &Point, rest: &[Row], values: &Values) -> Result<Vec<Fared>> {
    let (near, _) = nearest(rest)?;
    let of = |(statement, row): (&'static Statement, &Row)| {
        let left_out = predicted(rest, &row.over, &row.under, row.ratio(&near))?;
        let (cosmos, fitted) = (row.ratio(&Values::cosmos()), row.ratio(values));
        let within_bounds = extremes(&[], &row.over, &row.under)?.context("bounds have values")?;
        let counts = [row.over, row.under].map(|form| form.counts());
        Ok(Fared { statement, cosmos, fitted, left_out, within_bounds, counts })
    };
    point.claim.times.iter().zip(&point.rows).map(of).collect()
}

fn predicted(rows: &[Row], over: &Form, under: &Form, near: f64) -> Result<Predicted> {
    let (least, most) = extremes(rows, over, under)?.context("claims that hold together have values")?;
    Ok(Predicted { near, least, most })
}

/// What claims compare: a command, and what it takes longer with a page, a chunk, or bytes within it.
fn forms_of_parts(forms: &mut Forms) -> [(&'static str, Form); 5] {
    const BARE: (Method, u32) = (Method::Piggyback, 0);
    let mut longer = |method, size, than: (Method, u32)| {
        let mut form = forms.of(Time::put(method, size));
        form += forms.of(Time::put(than.0, than.1)) * -1.0;
        form
    };
    let (page, first) = (longer(Method::Prp, 4096, BARE), longer(Method::Inline, 64, BARE));
    let (further, within) =
        (longer(Method::Inline, 128, (Method::Inline, 64)), longer(Method::Piggyback, 35, BARE));
    let command = forms.of(Time::put(BARE.0, BARE.1));
    [
        ("a command", command),
        ("a page by PRP", page),
        ("the first chunk", first),
        ("each further chunk", further),
        ("bytes within a command", within),
    ]
}

fn part(name: &'static str, form: &Form, command: &Form, rows: &[Row], values: &Values) -> Result<Part> {
    let (cosmos_ns, fitted_ns) = (form.at(&Values::cosmos()), form.at(values));
    let over_command = predicted(rows, form, command, fitted_ns / command.at(values))?;
    Ok(Part { name, cosmos_ns, fitted_ns, over_command })
}

#[cfg(test)]
mod tests;
