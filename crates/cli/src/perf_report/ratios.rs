//! Two reports beside each other: figures of the same job and direction with their ratios, and settings that differ.

use byway_figure::Value;

use super::Named;
use super::options::settings;
use super::side::{Figures, SideOfRun};

/// Rows of what, the first report's figure, the other's, and the first divided by the other.
pub fn ratios(first: &Named, other: &Named) -> Vec<Vec<String>> {
    let others = sides(other);
    let both = sides(first).into_iter().filter_map(|(name, side)| {
        let (_, beside) = others.iter().find(|(other, _)| *other == name)?;
        Some(compared(&name, side, beside))
    });
    both.flatten().collect()
}

/// A sentence on settings in which the first loads of two reports differ.
pub fn differing_settings(first: &Named, other: &Named) -> Option<String> {
    let (one, other) = (first.measurement.runs.first()?, other.measurement.runs.first()?);
    let settings = settings(one).into_iter().zip(settings(other));
    let differing = settings.filter(|((_, one), (_, other))| one != other);
    let value = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let listed: Vec<String> = differing
        .map(|((name, one), (_, other))| format!("{name} {} against {}", value(one), value(other)))
        .collect();
    (!listed.is_empty()).then(|| format!("Settings differ: {}.", listed.join(", ")))
}

/// Each direction of each job, under a name of its own where jobs have the same one.
pub fn sides(of: &Named) -> Vec<(String, &SideOfRun)> {
    let mut sides: Vec<(String, &SideOfRun)> = Vec::new();
    for (job, side) in
        of.measurement.runs.iter().flat_map(|run| run.sides.iter().map(|side| (&run.job, side)))
    {
        let name = format!("{job} {}", side.side).trim().to_owned();
        let numbered = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name} ({number})")));
        let free = numbered.into_iter().find(|name| sides.iter().all(|(taken, _)| taken != name));
        sides.extend(free.map(|name| (name, side)));
    }
    sides
}

fn compared(name: &str, one: &SideOfRun, other: &SideOfRun) -> Vec<Vec<String>> {
    let row = |what: &str, of: fn(&Figures) -> Option<f64>| {
        let (one, other) = (one.value(of)?, other.value(of)?);
        let ratio = format!("{:.3}", one.middle / other.middle.max(f64::MIN_POSITIVE));
        Some(vec![format!("{name}: {what}"), with_spread(one), with_spread(other), ratio])
    };
    let rows = [
        row("commands/s", |of| Some(of.iops)),
        row("MiB/s", |of| Some(of.mib_per_s)),
        row("mean latency, µs", |of| Some(of.mean_ns / 1e3)),
        row("p50, µs", |of| us_at(of, 50.0)),
        row("p99, µs", |of| us_at(of, 99.0)),
        row("p99.9, µs", |of| us_at(of, 99.9)),
    ];
    rows.into_iter().flatten().collect()
}

fn us_at(of: &Figures, percent: f64) -> Option<f64> {
    of.at(percent).map(|ns| ns as f64 / 1e3)
}

/// A figure, of several runs the median with the least and the most.
fn with_spread(value: Value) -> String {
    let middle = figure(value.middle);
    value.spread.map_or_else(
        || middle.clone(),
        |(low, high)| format!("{middle} ({} to {})", figure(low), figure(high)),
    )
}

/// A figure, without decimals where they say nothing.
fn figure(value: f64) -> String {
    if value >= 10_000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
