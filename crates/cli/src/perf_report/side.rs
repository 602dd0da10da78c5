//! Commands of one direction: their figures, of one run or of several.

use byway_figure::Value;
use byway_perf::{Side, Statistic};
use serde::{Deserialize, Serialize};

use super::data::{PointOfSide, RateOfThread};

/// Commands that read, or those that write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SideOfRun {
    /// `read` or `write`.
    pub side: String,
    /// Of several runs the median of each figure.
    #[serde(flatten)]
    pub figures: Figures,
    /// Over time; of several runs that of the median rate.
    pub series: Vec<PointOfSide>,
    /// The same rate of each thread, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub threads: Vec<Vec<RateOfThread>>,
    /// The figures of each run, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub runs: Vec<Figures>,
}

/// What commands did and how long they took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Commands that succeeded.
    pub ops: u64,
    /// The same for each second.
    pub iops: f64,
    /// MiB moved for each second.
    pub mib_per_s: f64,
    /// The mean latency.
    pub mean_ns: f64,
    /// The standard deviation of the latency.
    pub stdev_ns: f64,
    /// The longest latency.
    pub max_ns: u64,
    /// The distribution of the latency.
    pub percentiles: Vec<PercentileOfSide>,
}

/// A percentile, and the latency there.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PercentileOfSide {
    /// In per cent, below 100.
    pub percent: f64,
    /// The latency.
    pub ns: u64,
}

impl SideOfRun {
    /// A side of several runs: of the first of these, with figures over all of them.
    pub fn over(sides: Vec<Self>) -> Option<Self> {
        let runs: Vec<Figures> = sides.iter().map(|side| side.figures.clone()).collect();
        let figures = Figures::over(&runs, Statistic::Median);
        let first = sides.into_iter().next()?;
        Some(Self { figures, runs, ..first })
    }

    /// A figure, with the least and the most of the runs where there are several.
    pub fn value(&self, of: impl Fn(&Figures) -> Option<f64>) -> Option<Value> {
        let middle = of(&self.figures)?;
        let runs = || self.runs.iter().filter_map(&of);
        if self.runs.is_empty() {
            return Some(middle.into());
        }
        Some(Value::spread(middle, Statistic::Min.of(runs()), Statistic::Max.of(runs())))
    }

    /// The figures to print: of several runs the medians, the least and the greatest, each with its name.
    pub fn rows(&self) -> Vec<(&'static str, Figures)> {
        if self.runs.is_empty() {
            return vec![("", self.figures.clone())];
        }
        Statistic::ALL.map(|of| (of.name(), Figures::over(&self.runs, of))).to_vec()
    }
}

impl Figures {
    /// Of a side that was measured with latencies.
    pub fn of(side: &Side, seconds: f64) -> Self {
        Self {
            ops: side.ops,
            iops: side.ops as f64 / seconds,
            mib_per_s: side.bytes as f64 / f64::from(1 << 20) / seconds,
            mean_ns: side.ns.mean(),
            stdev_ns: side.ns.stdev(),
            max_ns: side.ns.max(),
            percentiles: percentiles(side),
        }
    }

    /// Each figure over those of runs. Percentiles end where the first of them ends that has the fewest.
    fn over(runs: &[Self], of: Statistic) -> Self {
        let figure = |figure: fn(&Self) -> f64| of.of(runs.iter().map(figure));
        let fewest = runs.iter().map(|run| run.percentiles.as_slice()).min_by_key(|kept| kept.len());
        let percentiles = fewest.unwrap_or_default().iter().map(|at| PercentileOfSide {
            ns: of.of_whole(runs.iter().filter_map(|run| run.at(at.percent))),
            ..*at
        });
        Self {
            ops: of.of_whole(runs.iter().map(|run| run.ops)),
            iops: figure(|run| run.iops),
            mib_per_s: figure(|run| run.mib_per_s),
            mean_ns: figure(|run| run.mean_ns),
            stdev_ns: figure(|run| run.stdev_ns),
            max_ns: of.of_whole(runs.iter().map(|run| run.max_ns)),
            percentiles: percentiles.collect(),
        }
    }

    /// The latency at a percentile that was kept.
    pub fn at(&self, percent: f64) -> Option<u64> {
        self.percentiles.iter().find(|at| (at.percent - percent).abs() < 1e-9).map(|at| at.ns)
    }
}

/// Percentiles up to the one that a single command is beyond: ten in each step of 90, 99, 99.9 per cent.
fn percentiles(side: &Side) -> Vec<PercentileOfSide> {
    let decades = (0..7).map(|decade| 10f64.powi(-decade));
    let beyond = decades.flat_map(|decade| (1..10).rev().map(move |tenth| decade * f64::from(tenth) / 10.0));
    // The first, with nothing left out, is the shortest.
    let beyond = std::iter::once(1.0).chain(beyond).filter(|share| share * side.ops as f64 >= 1.0 - 1e-9);
    let at = |share: f64| PercentileOfSide {
        percent: ((1.0 - share) * 1e11).round() / 1e9,
        ns: side.ns.value_at_quantile(1.0 - share),
    };
    beyond.map(at).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_end_where_one_command_is_left() {
        let mut side = Side { ops: 1000, ..Side::default() };
        (1..=1000).for_each(|ns| side.ns.record(ns * 1000).unwrap());
        let percentiles = percentiles(&side);
        let has = |percent: f64| percentiles.iter().any(|at| (at.percent - percent).abs() < 1e-9);
        assert!([0.0, 50.0, 90.0, 95.0, 99.0, 99.9].into_iter().all(has) && !has(99.99), "{percentiles:?}");
        assert!(
            percentiles.windows(2).all(|pair| pair[0].percent < pair[1].percent && pair[0].ns <= pair[1].ns)
        );
    }
}
