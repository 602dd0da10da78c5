//! What a report keeps of a measurement: `report.json`, which later reports are compared with.

use std::collections::BTreeMap;
use std::time::Duration;

use byway_figure::Source;
use byway_perf::{Interval, Measured, OfThread, Plan, Side, SideInterval, What};
use serde::{Deserialize, Serialize};

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

/// Where and by what a measurement was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// The command, as a shell takes it.
    pub command: String,
    /// Processor, their number, kernel.
    pub machine: Option<String>,
    /// The commit of the program.
    pub commit: Option<String>,
    /// The day, in universal time.
    pub date: Option<String>,
}

impl Origin {
    /// This process, now.
    pub fn here() -> Self {
        let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
        let command = std::iter::once("byway".to_owned()).chain(words).collect::<Vec<_>>().join(" ");
        let source = Source::of_this_machine(command);
        Self { command: source.command, machine: source.machine, commit: source.commit, date: source.date }
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:,=%+@".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
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
    /// Seconds that were measured.
    pub seconds: f64,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
    /// Processor time of a command.
    pub cpu_us_per_op: f64,
    /// Reads, writes, or both.
    pub sides: Vec<SideOfRun>,
}

/// Commands that read, or those that write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SideOfRun {
    /// `read` or `write`.
    pub side: String,
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
    /// Over time.
    pub series: Vec<PointOfSide>,
    /// The same rate of each thread, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub threads: Vec<Vec<RateOfThread>>,
}

/// A percentile, and the latency there.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PercentileOfSide {
    /// In per cent, below 100.
    pub percent: f64,
    /// The latency.
    pub ns: u64,
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
    pub fn of(job: &str, plan: &Plan, backend: &str, measured: &Measured) -> Self {
        let total = measured.total();
        let command_bytes = match plan.what {
            What::Blocks(blocks) => blocks.piece_bytes,
            What::Pairs(pairs) => pairs.value_bytes.into(),
        };
        let interval = plan.keep.map_or(Duration::from_secs(1), |keep| keep.interval);
        let side = |name: &str, of: fn(&OfThread) -> &Side, part: fn(&Interval) -> &SideInterval| {
            SideOfRun::of(
                name,
                of(&total),
                total.wall,
                &Intervals { interval, threads: &measured.threads, part },
            )
        };
        let sides = [side("read", |t| &t.reads, |i| &i.reads), side("write", |t| &t.writes, |i| &i.writes)];
        Self {
            job: job.to_owned(),
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
            interrupted: measured.was_interrupted,
            cpu_us_per_op: total.cpu.as_secs_f64() * 1e6 / total.commands().max(1) as f64,
            sides: sides.into_iter().flatten().collect(),
        }
    }

    /// The load in a few words.
    pub fn named(&self) -> String {
        let bytes = byway_console::size::human(self.command_bytes);
        let threads = byway_console::size::counted(self.threads.into(), "thread");
        format!("{} {bytes}, depth {}, {threads}", self.rw, self.depth)
    }
}

impl SideOfRun {
    fn of(name: &str, side: &Side, wall: Duration, intervals: &Intervals<'_>) -> Option<Self> {
        let seconds = wall.as_secs_f64().max(f64::MIN_POSITIVE);
        let is_measured = side.ops > 0 && !side.ns.is_empty();
        is_measured.then(|| Self {
            side: name.to_owned(),
            ops: side.ops,
            iops: side.ops as f64 / seconds,
            mib_per_s: side.bytes as f64 / f64::from(1 << 20) / seconds,
            mean_ns: side.ns.mean(),
            stdev_ns: side.ns.stdev(),
            max_ns: side.ns.max(),
            percentiles: percentiles(side),
            series: intervals.series(wall),
            threads: if intervals.threads.len() > 1 { intervals.of_threads(wall) } else { Vec::new() },
        })
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_command_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("--depth"), "--depth");
        assert_eq!(quoted("a.img?ns=2&direct=1"), "'a.img?ns=2&direct=1'");
        assert_eq!((quoted(""), quoted("it's")), ("''".to_owned(), r"'it'\''s'".to_owned()));
    }

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
