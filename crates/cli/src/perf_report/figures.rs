//! The figures of a report: latency percentiles, rate and latency over time, the rate of each thread.

use byway_figure::{Axis, Bars, Figure, GroupSeries, Lines, Point, Quantity, Role, Series, Source, Value};

use super::Named;
use super::data::{PointOfSide, Run};
use super::labels::Label;
use super::ratios::sides;
use super::side::{Figures, SideOfRun};
use crate::origin::Origin;

/// What the spread of figures of several runs is.
const OF_RUNS: &str = "least and most of the runs";

/// Most threads that are shown by a line each.
const THREADS_MAX: usize = 8;

/// One side of one load of one report, under the name of its line.
struct Line<'a> {
    name: String,
    role: Role,
    side: &'a SideOfRun,
}

/// All figures of these reports, of which the first is the one that was measured.
pub fn figures(of: &[Named]) -> Vec<Figure> {
    let lines = lines(of);
    let source = || source(of);
    let mut figures = vec![
        percentiles(&lines, source()),
        rates(&lines, source()),
        medians(&lines, source()),
        p99s(&lines, source()),
    ];
    figures.extend(rates_of_runs(of, source()));
    if of.iter().any(Named::is_by_depth) {
        figures.extend(by_depth(of, &source()));
    }
    if let [one] = of {
        figures.extend(rates_of_threads(&one.measurement.runs, source()));
    }
    figures
}

fn lines(of: &[Named]) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for (place, (named, label)) in of.iter().zip(Label::all(of)).enumerate() {
        let role = role_of(place);
        for run in &named.measurement.runs {
            lines.extend(run.sides.iter().map(|side| Line { name: label.of_line(run, side), role, side }));
        }
    }
    lines
}

/// The first report is the one that was measured.
const fn role_of(place: usize) -> Role {
    if place == 0 { Role::Measured } else { Role::Earlier }
}

/// Where the numbers come from: of several reports, the others' commands behind the first one's.
fn source(of: &[Named]) -> Source {
    let Some(first) = of.first() else { return Source::new("") };
    let others =
        of.iter().skip(1).map(|named| format!("; {}: {}", named.name, named.measurement.origin.command));
    let Origin { command, machine, commit, date } = first.measurement.origin.clone();
    let source = Source::new(command + &others.collect::<String>()).with_origin(machine, commit, date);
    match first.measurement.runs.first() {
        Some(run) => source.with_seed(run.seed),
        None => source,
    }
}

fn percentiles(lines: &[Line<'_>], source: Source) -> Figure {
    let mut plot = Lines::new(Axis::percentile(), Axis::log10(Quantity::new("latency", "µs")));
    for line in lines {
        let us = |percent: f64| line.side.value(|of| of.at(percent).map(|ns| ns.max(1) as f64 / 1e3));
        let points = line.side.figures.percentiles.iter();
        let points = points.filter_map(|at| us(at.percent).map(|us| (at.percent, us)));
        plot = plot.with(Series::new(&line.name, line.role, points));
    }
    let source = if is_repeated(lines) { source.with_spread(OF_RUNS) } else { source };
    let caption = "So many per cent of commands took no longer than this, from submission to completion. A line ends where one command \
                   is left beyond it.";
    Figure::new("latency-percentiles", "Latency percentiles", plot, source).with_caption(caption)
}

/// Whether any side has several runs.
fn is_repeated(lines: &[Line<'_>]) -> bool {
    lines.iter().any(|line| !line.side.runs.is_empty())
}

/// The rate of each load in each report, where any was measured several times.
fn rates_of_runs(of: &[Named], source: Source) -> Option<Figure> {
    let sides: Vec<Vec<(String, &SideOfRun)>> = of.iter().map(sides).collect();
    if sides.iter().flatten().all(|(_, side)| side.runs.is_empty()) {
        return None;
    }
    let mut groups: Vec<String> = Vec::new();
    for (name, _) in sides.iter().flatten() {
        if !groups.contains(name) {
            groups.push(name.clone());
        }
    }
    let labels = Label::all(of).into_iter().zip(of);
    let names: Vec<String> = labels
        .map(
            |(label, named)| {
                if label == Label::Alone { named.name.clone() } else { label.words().to_owned() }
            },
        )
        .collect();
    let mut plot = Bars::new(groups.clone(), Quantity::new("rate", "1000 commands/s"));
    for (place, (name, sides)) in names.iter().zip(&sides).enumerate() {
        let value = |group: &String| {
            let (_, side) = sides.iter().find(|(name, _)| name == group)?;
            side.value(|figures| Some(figures.iops / 1e3))
        };
        plot = plot.with(GroupSeries::new(name, role_of(place), groups.iter().map(value)));
    }
    let caption = "Commands a second: median of the runs.";
    let source = source.with_spread(OF_RUNS);
    Some(Figure::new("rate-of-runs", "Rate of the runs", plot, source).with_caption(caption))
}

/// Rate and latency of each direction by depth, of reports with several depths.
fn by_depth(of: &[Named], source: &Source) -> [Figure; 2] {
    let depth = || Axis::log2(Quantity::new("depth", "commands"));
    let rate = Lines::new(depth(), Axis::linear(Quantity::new("rate", "1000 commands/s")));
    let rate = with_depths(rate, of, |figures| Some(figures.iops / 1e3));
    let latency = Lines::new(depth(), Axis::log10(Quantity::new("latency", "µs")));
    let latency = with_depths(latency, of, |figures| figures.at(50.0).map(|ns| ns.max(1) as f64 / 1e3));
    let source = || source.clone().with_spread(OF_RUNS);
    let caption = "By the number of commands that each thread keeps outstanding.";
    [
        Figure::new("rate-by-depth", "Rate by depth", rate, source()).with_caption(caption),
        Figure::new("median-by-depth", "Median latency by depth", latency, source()).with_caption(caption),
    ]
}

fn with_depths(mut plot: Lines, of: &[Named], value: impl Fn(&Figures) -> Option<f64>) -> Lines {
    for (place, (named, label)) in of.iter().zip(Label::all(of)).enumerate() {
        if !named.is_by_depth() {
            continue;
        }
        for direction in ["read", "write"] {
            let sides =
                named.measurement.runs.iter().flat_map(|run| run.sides.iter().map(move |side| (run, side)));
            let sides = sides.filter(|(_, side)| side.side == direction);
            let points: Vec<(f64, Value)> =
                sides.filter_map(|(run, side)| Some((f64::from(run.depth), side.value(&value)?))).collect();
            if !points.is_empty() {
                let name = format!("{} {direction}", label.words());
                plot = plot.with(Series::new(name.trim(), role_of(place), points));
            }
        }
    }
    plot
}

fn seconds() -> Axis {
    Axis::linear(Quantity::new("time", "s"))
}

fn rates(lines: &[Line<'_>], source: Source) -> Figure {
    let mut plot = Lines::new(seconds(), Axis::linear(Quantity::new("rate", "1000 commands/s")));
    for line in lines {
        let value = |at: &PointOfSide| Value::spread(at.iops / 1e3, at.iops_min / 1e3, at.iops_max / 1e3);
        plot = plot.with(Series::new(
            &line.name,
            line.role,
            line.side.series.iter().map(|at| (at.at_s, value(at))),
        ));
    }
    let caption = "Commands a second of all threads together. Where a point stands for several intervals, the spread is that of the \
                   intervals.";
    let source = source.with_spread("least and most of the intervals of a point");
    Figure::new("rate-over-time", "Rate over time", plot, source).with_caption(caption)
}

/// The median of each interval.
fn medians(lines: &[Line<'_>], source: Source) -> Figure {
    let of = |at: &PointOfSide| spread_us(at.p50_ns, at.p50_min_ns, at.p50_max_ns);
    let caption = "Median of the latency in each interval: the mean of those of the threads. Intervals in which nothing finished have \
                   none.";
    latencies("median-over-time", "Median latency over time", lines, of, source).with_caption(caption)
}

/// The 99th percentile of each interval. By a figure of its own, so that a colour is one report in every figure.
fn p99s(lines: &[Line<'_>], source: Source) -> Figure {
    let of = |at: &PointOfSide| spread_us(at.p99_ns, at.p99_min_ns, at.p99_max_ns);
    let caption = "99th percentile of the latency in each interval: the mean of those of the threads.";
    latencies("p99-over-time", "99th percentile of the latency over time", lines, of, source)
        .with_caption(caption)
}

fn latencies(
    name: &str,
    title: &str,
    lines: &[Line<'_>],
    of: impl Fn(&PointOfSide) -> Value,
    source: Source,
) -> Figure {
    let mut plot = Lines::new(seconds(), Axis::log10(Quantity::new("latency", "µs")));
    for line in lines {
        let points = line.side.series.iter().filter(|at| at.p99_ns > 0.0).map(|at| (at.at_s, of(at)));
        plot = plot.with(Series::new(&line.name, line.role, points));
    }
    let source = source.with_spread("least and most of threads and intervals of a point");
    Figure::new(name, title, plot, source)
}

fn spread_us(middle_ns: f64, low_ns: u64, high_ns: u64) -> Value {
    Value::spread(middle_ns / 1e3, low_ns as f64 / 1e3, high_ns as f64 / 1e3)
}

/// The rate of each thread, where there are several, and few enough for distinct lines.
fn rates_of_threads(runs: &[Run], source: Source) -> Option<Figure> {
    let sides = || runs.iter().flat_map(|run| run.sides.iter().map(move |side| (run, side)));
    let count: usize = sides().map(|(_, side)| side.threads.len()).sum();
    if count == 0 || count > THREADS_MAX {
        return None;
    }
    let mut plot = Lines::new(seconds(), Axis::linear(Quantity::new("rate", "1000 commands/s")));
    for (run, side) in sides() {
        for (number, thread) in (1..).zip(&side.threads) {
            let name = format!("{} {} thread {number}", run.job, side.side);
            let points = thread.iter().map(|at| Point::from((at.at_s, at.iops / 1e3)));
            plot = plot.with(Series::measured(name.trim(), points));
        }
    }
    let caption = "Commands a second of each thread.";
    Some(Figure::new("rate-by-thread", "Rate by thread", plot, source).with_caption(caption))
}
