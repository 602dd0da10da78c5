//! What a report keeps of a measurement: `report.json`, which later reports are compared with.

use std::collections::BTreeMap;
use std::time::Duration;

use byway_perf::{Interval, Job, Measured, OfThread, Plan, Side, SideInterval, Statistic, What};
use serde::{Deserialize, Serialize};

use super::options::Options;
use super::side::{Figures, SideOfRun};
use crate::origin::Origin;

/// Most points of a line over time: more intervals are taken together.
const POINTS_MAX: usize = 50;

/// What one command measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The program's version.
    pub version: String,
    /// Where it was measured.
    #[serde(flatten)]
    pub origin: Origin,
    /// Its loads: one, or the jobs of a file.
    pub runs: Vec<Run>,
}

/// One load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The job's name; empty without a job file.
    pub job: String,
    /// The device.
    pub uri: String,
    /// What it was reached by.
    pub backend: String,
    /// The load.
    pub rw: String,
    /// Bytes of a command.
    pub command_bytes: u64,
    /// Percent of commands that read.
    pub reads_percent: u8,
    /// How often each place comes, of a random load.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub random_distribution: Option<String>,
    /// What of the host's memory was between.
    pub cache: String,
    /// Commands outstanding of each thread.
    pub depth: u32,
    /// Number of threads.
    pub threads: u32,
    /// What random numbers began with.
    pub seed: u64,
    /// Seconds before the measurement.
    pub warmup_seconds: f64,
    /// Seconds that were measured, of each run.
    pub seconds: f64,
    /// Its other options.
    #[serde(flatten)]
    pub options: Options,
    /// Number of runs.
    #[serde(skip_serializing_if = "is_one", default = "one")]
    pub repeat: u32,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
    /// Processor time of a command; of several runs the median.
    pub cpu_us_per_op: f64,
    /// Reads, writes, or both.
    pub sides: Vec<SideOfRun>,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_one(number: &u32) -> bool {
    *number == 1
}

/// What all threads did in neighbouring intervals.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PointOfSide {
    /// The middle, from the beginning of the measurement.
    pub at_s: f64,
    /// Commands a second.
    pub iops: f64,
    /// The least of an interval.
    pub iops_min: f64,
    /// The most of an interval.
    pub iops_max: f64,
    /// Median latency: the mean of those of threads and intervals.
    pub p50_ns: f64,
    /// The least median of a thread in an interval.
    pub p50_min_ns: u64,
    /// The greatest median of a thread in an interval.
    pub p50_max_ns: u64,
    /// 99th percentile: the mean of those of threads and intervals.
    pub p99_ns: f64,
    /// The least.
    pub p99_min_ns: u64,
    /// The greatest.
    pub p99_max_ns: u64,
}

/// The rate of one thread.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RateOfThread {
    /// The middle, from the beginning of the measurement.
    pub at_s: f64,
    /// Commands a second.
    pub iops: f64,
}

impl Run {
    /// Of a load that was measured.
    pub fn of(job: &Job, plan: &Plan, backend: &str, measured: &Measured) -> Self {
        let total = measured.total();
        let command_bytes = match plan.what {
            What::Blocks(blocks) => blocks.piece_bytes,
            What::Pairs(pairs) => pairs.value_bytes.into(),
        };
        let interval = plan.keep.map_or(Duration::from_secs(1), |keep| keep.interval);
        let side = |name: &str, of: fn(&OfThread) -> &Side, part: fn(&Interval) -> &SideInterval| {
            let intervals = Intervals { interval, threads: &measured.threads, part };
            side_of(name, of(&total), total.wall, &intervals)
        };
        let sides = [side("read", |t| &t.reads, |i| &i.reads), side("write", |t| &t.writes, |i| &i.writes)];
        Self {
            job: job.name.clone(),
            uri: plan.uri.clone(),
            backend: backend.to_owned(),
            rw: plan.load.name().to_owned(),
            command_bytes,
            reads_percent: plan.reads_percent,
            random_distribution: (!plan.load.is_sequential()).then(|| plan.distribution.to_string()),
            cache: plan.cache.name().to_owned(),
            depth: plan.depth,
            threads: plan.threads,
            seed: plan.seed,
            warmup_seconds: plan.warmup.as_secs_f64(),
            seconds: total.wall.as_secs_f64(),
            options: Options::of(job, plan),
            repeat: 1,
            interrupted: measured.was_interrupted,
            cpu_us_per_op: total.cpu.as_secs_f64() * 1e6 / total.commands().max(1) as f64,
            sides: sides.into_iter().flatten().collect(),
        }
    }

    /// Of several runs of one load: that of the median rate, with figures over all of them. Nothing of no run.
    pub fn over(mut runs: Vec<Self>) -> Option<Self> {
        let count = runs.len();
        if count < 2 {
            return runs.pop();
        }
        runs.sort_by(|one, other| one.rate().total_cmp(&other.rate()));
        runs.swap(0, (count - 1) / 2);
        let median = |of: fn(&Self) -> f64| Statistic::Median.of(runs.iter().map(of));
        let (seconds, cpu_us_per_op) = (median(|run| run.seconds), median(|run| run.cpu_us_per_op));
        let sides = ["read", "write"].map(|name| {
            let sides = runs.iter().flat_map(|run| &run.sides).filter(|side| side.side == name);
            SideOfRun::over(sides.cloned().collect())
        });
        let sides = sides.into_iter().flatten().collect();
        let first = runs.into_iter().next()?;
        Some(Self { seconds, cpu_us_per_op, sides, repeat: count as u32, ..first })
    }

    /// Commands a second in both directions.
    fn rate(&self) -> f64 {
        self.sides.iter().map(|side| side.figures.iops).sum()
    }

    /// The load in a few words.
    pub fn named(&self) -> String {
        let bytes = byway_console::size::human(self.command_bytes);
        let threads = byway_console::size::counted(self.threads.into(), "thread");
        format!("{} {bytes}, depth {}, {threads}", self.rw, self.depth)
    }
}

/// One side of a run, where it has commands with latencies.
fn side_of(name: &str, side: &Side, wall: Duration, intervals: &Intervals<'_>) -> Option<SideOfRun> {
    let seconds = wall.as_secs_f64().max(f64::MIN_POSITIVE);
    let is_measured = side.ops > 0 && !side.ns.is_empty();
    is_measured.then(|| SideOfRun {
        side: name.to_owned(),
        figures: Figures::of(side, seconds),
        series: intervals.series(wall),
        threads: if intervals.threads.len() > 1 { intervals.of_threads(wall) } else { Vec::new() },
        runs: Vec::new(),
    })
}

/// Intervals of all threads, of one side.
struct Intervals<'a> {
    interval: Duration,
    threads: &'a [OfThread],
    part: fn(&Interval) -> &SideInterval,
}

impl Intervals<'_> {
    /// Whole intervals of a measurement, and how many are one point. A last one that is not whole says little, and is left out unless
    /// it is the only one.
    fn points(&self, wall: Duration) -> (usize, usize) {
        let whole = (wall.as_nanos() / self.interval.as_nanos().max(1)).max(1) as usize;
        (whole, whole.div_ceil(POINTS_MAX))
    }

    fn width_s(&self, wall: Duration) -> f64 {
        self.interval.min(wall).as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Each thread's part of each interval: nothing where nothing finished.
    fn by_number(&self, thread: &OfThread) -> BTreeMap<usize, SideInterval> {
        let number =
            |interval: &Interval| (u128::from(interval.begin_ns) / self.interval.as_nanos().max(1)) as usize;
        thread.series.iter().map(|interval| (number(interval), *(self.part)(interval))).collect()
    }

    fn series(&self, wall: Duration) -> Vec<PointOfSide> {
        let (whole, together) = self.points(wall);
        let width_s = self.width_s(wall);
        let threads: Vec<_> = self.threads.iter().map(|thread| self.by_number(thread)).collect();
        let numbers: Vec<usize> = (0..whole).collect();
        let point = |numbers: &[usize]| {
            let parts = |number: usize| threads.iter().filter_map(move |thread| thread.get(&number).copied());
            let rate = |&number: &usize| parts(number).map(|part| part.ops).sum::<u64>() as f64 / width_s;
            let rates: Vec<f64> = numbers.iter().map(rate).collect();
            let kept = || numbers.iter().flat_map(|&number| parts(number)).filter(|part| part.ops > 0);
            let [p50, p99] = [spread(kept().map(|part| part.p50_ns)), spread(kept().map(|part| part.p99_ns))];
            let first = numbers.first().copied().unwrap_or(0) as f64;
            PointOfSide {
                at_s: (first + numbers.len() as f64 / 2.0) * width_s,
                iops: rates.iter().sum::<f64>() / rates.len().max(1) as f64,
                iops_min: rates.iter().copied().fold(f64::INFINITY, f64::min),
                iops_max: rates.iter().copied().fold(0.0, f64::max),
                p50_ns: p50.0,
                p50_min_ns: p50.1,
                p50_max_ns: p50.2,
                p99_ns: p99.0,
                p99_min_ns: p99.1,
                p99_max_ns: p99.2,
            }
        };
        numbers.chunks(together).map(point).collect()
    }

    fn of_threads(&self, wall: Duration) -> Vec<Vec<RateOfThread>> {
        let (whole, together) = self.points(wall);
        let width_s = self.width_s(wall);
        let numbers: Vec<usize> = (0..whole).collect();
        let of_one = |thread: &OfThread| {
            let parts = self.by_number(thread);
            let point = |numbers: &[usize]| {
                let ops: u64 =
                    numbers.iter().filter_map(|number| parts.get(number)).map(|part| part.ops).sum();
                let first = numbers.first().copied().unwrap_or(0) as f64;
                let (count, width) = (numbers.len() as f64, width_s);
                RateOfThread { at_s: (first + count / 2.0) * width, iops: ops as f64 / (count * width) }
            };
            numbers.chunks(together).map(point).collect::<Vec<_>>()
        };
        self.threads.iter().map(of_one).collect()
    }
}

/// Mean, least and greatest; zeroes of nothing.
fn spread(values: impl Iterator<Item = u64>) -> (f64, u64, u64) {
    let values: Vec<u64> = values.collect();
    let mean = values.iter().sum::<u64>() as f64 / values.len().max(1) as f64;
    (mean, values.iter().copied().min().unwrap_or(0), values.iter().copied().max().unwrap_or(0))
}
