//! Figures of the fit.

use byway_figure::{
    Axis, Dots, Figure, FigureError, GroupSeries, Lines, Paper, Quantity, Role, Series, Source, Value,
};

use super::parameters::Values;
use super::{Fared, Fit, Outcome};
use crate::report::claims::times::{Link, Range};

/// What the spread of a point is.
pub const SPREAD: &str = "the least and the most while the other fitted claims hold";
/// Words of the page.
pub const TERMS: [(&str, &str); 5] = [
    ("cosmos", "the profile of the papers' card: every step time from a source, or assumed and marked so"),
    (
        "cosmos-fitted",
        "the same with the times that no source gives fitted to the claims that hold together; labelled as fitted wherever it is shown",
    ),
    (
        "claim",
        "a statement of ByteExpress (be) or BandSlim (bs) about times, as a range of a ratio of two modelled times",
    ),
    (
        "left out",
        "not among the claims that hold together, because a fitted claim, or the bounds of the parameters, contradict it",
    ),
    ("from the other claims", "what the fit gives for a claim when that claim is not used: a prediction"),
];

/// Ends of the plane's axes: chunk and page, each over a command.
const PLANE: (f64, f64) = (0.6, 2.2);
/// A count below this is none.
const FLAT: f64 = 1e-9;
/// Steps of a line across it.
const STEPS: u32 = 240;

/// Every figure.
///
/// # Errors
/// When one has nothing to show.
pub fn all(fit: &Fit, source: &Source) -> Result<Vec<Figure>, FigureError> {
    let source = [Paper::BYTE_EXPRESS, Paper::BAND_SLIM].into_iter().fold(source.clone(), Source::with_paper);
    let figures = vec![misses(fit, &source), left_out(fit, &source), plane(fit, &source)];
    figures.iter().try_for_each(|figure| figure.svg().map(drop))?;
    Ok(figures)
}

/// The claims under both profiles.
fn misses(fit: &Fit, source: &Source) -> Figure {
    let axis = Axis::log10(Quantity::new("factor by which a claim is missed (1: it holds)", ""));
    let series = |name: &str, ratio: fn(&Fared) -> f64| {
        let miss = |outcome: &Outcome| Some(Value::from(outcome.miss(ratio)));
        GroupSeries::new(name, Role::Modelled, fit.outcomes.iter().map(miss))
    };
    let plot = Dots::new(fit.outcomes.iter().map(|outcome| outcome.claim.id), axis)
        .with(series("cosmos", |fared| fared.cosmos))
        .with(series("cosmos-fitted", |fared| fared.fitted));
    Figure::new("fit-claims", "Claims of time under cosmos and under cosmos-fitted", plot, source.clone()).with_caption(
        "For each claim the worst of its statements: how far the ratio of two modelled times lies outside what the paper's words \
         leave open. cosmos has no figure of the papers in it; cosmos-fitted is fitted to the claims that hold together.",
    )
}

/// What the others predict of each claim that prints a ratio.
fn left_out(fit: &Fit, source: &Source) -> Figure {
    let printed: Vec<(&str, &Fared, f64)> = fit
        .outcomes
        .iter()
        .flat_map(|outcome| outcome.statements.iter().map(|fared| (outcome.claim.id, fared)))
        .filter_map(|(id, fared)| Some((id, fared, fared.statement.range.printed?)))
        .collect();
    let predicted = printed.iter().map(|(_, fared, printed)| {
        let predicted = fared.left_out;
        Some(Value::spread(predicted.near / printed, predicted.least / printed, predicted.most / printed))
    });
    let axis = Axis::linear(Quantity::new("predicted ratio of times over the paper's", ""));
    let plot = Dots::new(printed.iter().map(|(id, ..)| *id), axis)
        .with(GroupSeries::new("from the other claims", Role::Modelled, predicted))
        .with(GroupSeries::new("the paper", Role::Target, printed.iter().map(|_| Some(Value::from(1.0)))));
    Figure::new("fit-left-out", "Each claim predicted from the others", plot, source.clone()).with_caption(
        "Claims that print a figure, each left out of the fit in turn. The point is the fit nearest to cosmos, the line all that \
         the other claims allow.",
    )
}

/// Claims as lines over what a chunk and a page cost.
fn plane(fit: &Fit, source: &Source) -> Figure {
    let axis = |name: &str| Axis::linear(Quantity::new(name, ""));
    let mut plot =
        Lines::new(axis("a chunk's time over a command's"), axis("a page's time over a command's"));
    for outcome in &fit.outcomes {
        let points = outcome.statements.first().map(line).unwrap_or_default();
        if points.len() > 1 {
            plot = plot.with(Series::new(outcome.claim.id, Role::Modelled, points));
        }
    }
    for (name, values) in [("cosmos", Values::cosmos()), ("cosmos-fitted", fit.values)] {
        plot = plot.with(Series::measured(name, [fit.place(&values)]));
    }
    Figure::new("fit-plane", "What the claims say of a chunk and a page", plot, source.clone()).with_caption(
        "If every command takes the same time, each claim is a line: where the ratio of times is the printed one, or the end that \
         the paper's words give it (be-256 and bs-tau-gen2 hold above their lines). Claims hold together where lines meet. \
         be-latency-bandslim is not in the picture: it needs a chunk that takes less than no time.",
    )
}

/// The ratio that stands for a claim: the printed one, or the one end that its words have; none of a figure printed elsewhere.
fn ratio(range: &Range) -> Option<f64> {
    match (range.printed, range.least > 0.0, range.most.is_finite()) {
        (None, true, false) => Some(range.least),
        (None, false, true) => Some(range.most),
        (printed, ..) => printed,
    }
}

/// The ends of a statement's line within the plane; none of one on Gen5, or where it does not cross it.
fn line(fared: &Fared) -> Vec<(f64, f64)> {
    let Some(ratio) = ratio(&fared.statement.range).filter(|_| fared.statement.over.link == Link::Gen2)
    else {
        return Vec::new();
    };
    let [over, under] = fared.counts;
    let left = over.less(under, ratio);
    let mut points: Vec<(f64, f64)> = match (left.pages.abs() > FLAT, left.chunks.abs() > FLAT) {
        (true, _) => {
            let chunks = (0..=STEPS).map(|step| PLANE.0 * f64::from(step) / f64::from(STEPS));
            chunks.map(|chunk| (chunk, -(left.commands + left.chunks * chunk) / left.pages)).collect()
        }
        (false, true) => [0.0, PLANE.1].map(|page| (-left.commands / left.chunks, page)).to_vec(),
        (false, false) => Vec::new(),
    };
    points.retain(|(chunk, page)| (0.0..=PLANE.0).contains(chunk) && (0.0..=PLANE.1).contains(page));
    points.first().copied().into_iter().chain(points.last().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::form::Counts;
    use super::super::{Predicted, Statement};
    use super::*;
    use byway::Method;

    /// A statement about a put by one method over one by `prp`, and its line.
    fn line_of(statement: &'static Statement, chunks: f64) -> Vec<(f64, f64)> {
        let put = |pages, chunks| Counts { commands: 1.0, pages, chunks };
        let left_out = Predicted { near: 1.0, least: 1.0, most: 1.0 };
        let counts = [put(0.0, chunks), put(1.0, 0.0)];
        line(&Fared { statement, cosmos: 1.0, fitted: 1.0, left_out, within_bounds: (0.0, 1.0), counts })
    }

    #[test]
    fn claim_is_a_line_over_chunk_and_page() {
        const UP_TO_256: Statement = Statement::puts(Method::Inline, Method::Prp, 256, Range::at_most(1.0));
        // Four chunks take a page: from nothing to the plane's upper end.
        let ends = line_of(&UP_TO_256, 4.0);
        assert_eq!(ends[0], (0.0, 0.0));
        assert!((ends[1].1 - 4.0 * ends[1].0).abs() < 1e-9 && ends[1].1 > 2.1, "{ends:?}");
        const HALVED: Statement =
            Statement::puts(Method::Piggyback, Method::Prp, 32, Range::around(0.5, 0.05));
        assert_eq!(line_of(&HALVED, 0.0), [(0.0, 1.0), (PLANE.0, 1.0)]);
    }

    #[test]
    fn rounded_figure_and_one_on_gen5_have_no_line() {
        const ROUNDED: Statement = Statement::puts(Method::Inline, Method::Prp, 32, Range::between(0.5, 0.6));
        const GEN5: Statement =
            Statement::puts(Method::Inline, Method::Prp, 32, Range::at_most(1.0)).on_gen5();
        assert_eq!((line_of(&ROUNDED, 1.0), line_of(&GEN5, 1.0)), (vec![], vec![]));
    }
}
