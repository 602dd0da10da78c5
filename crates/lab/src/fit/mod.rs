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
    let beyond =
        least(|beyond| Ok(solve(&self::rows(&points, all), Leeway::Beyond(beyond), Aim::Any)?.is_some()))?;
    let plane = [command, page, chunk];
    Ok(Fit { outcomes, ways: largest.dropped.len(), share, beyond, values, regions, parts, plane })
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
    })
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
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::LazyLock;

    use byway_console::terminal::{Interrupt, Progress};
    use byway_link::Profile;
    use byway_measure::experiment::{self, Run};
    use byway_measure::setting::Setting;

    use super::*;
    use crate::report::claims::times::Load;
    use crate::report::measured::COSMOS_FITTED;

    static FIT: LazyLock<Fit> = LazyLock::new(|| fit().unwrap());

    fn outcome(id: &str) -> &'static Outcome {
        FIT.outcomes.iter().find(|outcome| outcome.claim.id == id).unwrap()
    }

    fn ids(claims: &[&Claim]) -> Vec<&'static str> {
        claims.iter().map(|claim| claim.id).collect()
    }

    #[test]
    fn shipped_profile_is_what_the_solver_gives() {
        let cosmos = Profile::by_name("cosmos").unwrap();
        let shipped = Profile::by_name(COSMOS_FITTED).unwrap();
        let given = FIT.values.rounded().in_place_of_cosmos(&cosmos);
        assert_eq!(Profile { name: shipped.name, ..given }, shipped, "{:?}", FIT.values);
    }

    #[test]
    fn fitted_claims_hold_under_the_shipped_numbers() {
        let values = FIT.values.rounded();
        for point in points(&mut Forms::new().unwrap()) {
            let is_fitted = outcome(point.claim.id).is_fitted;
            let misses = point.rows.iter().map(|row| row.range.miss(row.ratio(&values)));
            assert_eq!(misses.fold(1.0, f64::max) <= 1.0 + 1e-4, is_fitted, "{}", point.claim.id);
        }
    }

    #[test]
    fn claims_that_hold_together_are_these_and_no_others() {
        let left_out = FIT.outcomes.iter().filter(|outcome| !outcome.is_fitted);
        assert_eq!(
            left_out.map(|outcome| outcome.claim.id).collect::<Vec<_>>(),
            ["be-latency-bandslim", "bs-cxl-prp", "bs-m-throughput", "bs-c-throughput", "bs-adaptive-p-best"]
        );
        assert_eq!(FIT.ways, 1);
    }

    #[test]
    fn claims_left_out_name_what_contradicts_them() {
        let against = |id| outcome(id).against.iter().map(|claims| ids(claims)).collect::<Vec<Vec<&str>>>();
        // Three commands against one: no more than two thirds can be saved, whatever a chunk takes.
        assert_eq!(against("be-latency-bandslim"), [Vec::<&str>::new()]);
        assert_eq!(against("bs-m-throughput"), [Vec::<&str>::new()]);
        assert!(against("bs-c-throughput").contains(&vec!["bs-halved"]));
        assert!(against("bs-cxl-prp").contains(&vec!["be-latency-prp"]));
        assert!(against("be-latency-prp").is_empty());
    }

    #[test]
    fn claim_left_out_is_predicted_by_the_others() {
        for outcome in FIT.outcomes.iter().filter(|outcome| outcome.is_fitted) {
            for fared in &outcome.statements {
                let Predicted { near, least, most } = fared.left_out;
                let range = fared.statement.range;
                assert!(
                    least <= near + 1e-6 && near <= most + 1e-6,
                    "{}: {:?}",
                    outcome.claim.id,
                    fared.left_out
                );
                // What all claims allow together, the others alone allow too.
                assert!(
                    least <= range.most && range.least <= most,
                    "{}: {:?}",
                    outcome.claim.id,
                    fared.left_out
                );
            }
        }
        let halved = outcome("bs-halved").statements[0].left_out;
        assert!((0.47..0.51).contains(&halved.near), "{halved:?}");
    }

    #[test]
    fn issue_s_hint_is_what_comes_out() {
        // "40.4 % at one chunk" and "up to 256 B" hold together at a page of 1.17 commands and a chunk of 0.29.
        let (chunk, page) = FIT.place(&FIT.values);
        assert!((page - 1.17).abs() < 0.01 && (chunk - 0.29).abs() < 0.01, "{page} {chunk}");
    }

    #[test]
    fn regions_lie_within_bounds_and_hold_the_fitted_values() {
        for ((parameter, region), value) in PARAMETERS.iter().zip(&FIT.regions).zip(FIT.values.0) {
            let Region { least_ns, most_ns } = *region;
            assert!(
                parameter.least_ns <= least_ns + 1e-3 && most_ns <= parameter.most_ns + 1e-3,
                "{}",
                parameter.name
            );
            assert!(
                least_ns <= value + 1e-3 && value <= most_ns + 1e-3,
                "{}: {region:?} {value}",
                parameter.name
            );
        }
        let page =
            PARAMETERS.iter().position(|parameter| parameter.name == "firmware: rest of a page").unwrap();
        assert!(FIT.regions[page].least_ns > 5_000.0, "the claims do not need a page of that length");
    }

    #[test]
    fn a_device_takes_the_times_that_the_fit_supposes() {
        let (interrupt, progress) = (Interrupt::listen().unwrap(), Progress::of_phases("fit", 1));
        let run = Run { count: 3, seed: 1, interrupt: &interrupt, progress: &progress };
        let mut forms = Forms::new().unwrap();
        let times = FIT.outcomes.iter().flat_map(|outcome| &outcome.statements);
        for time in times.flat_map(|fared| [fared.statement.over, fared.statement.under]) {
            let Load::Size(size) = time.load else { continue };
            let profile = FIT.values.rounded().in_place_of_cosmos(forms.profile(time.link));
            let shipped = Profile { name: COSMOS_FITTED, ..profile };
            let setting = Setting::of(&shipped, time.by.method(size));
            let device_ns = experiment::transfer(&setting, size, &run).unwrap().model_ns_mean.unwrap();
            let form = forms.of(time);
            // The model has an interrupt's 24 bytes ahead of its command's end, the device behind it: 6 ns a command. A value
            // may begin within a cache line, which is one line more.
            let line_ns = shipped.host.cxl_line_ps / 1000 * u64::from(time.by.method(size) == Method::Cxl);
            let within_ns = 1.0 + 6.0 * form.counts().commands + line_ns as f64;
            let form_ns = form.at(&FIT.values.rounded());
            assert!((device_ns - form_ns).abs() <= within_ns, "{time}: {device_ns} ns, {form_ns} ns");
        }
    }
}
