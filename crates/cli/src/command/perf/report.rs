//! What was measured of one load: as JSON, and as text.

use std::fmt;
use std::time::Duration;

use byway::Backend;
use byway_console::size;
use byway_console::table::{self, Table};
use byway_perf::{Job, Latency, Measured, OfThread, Plan, Row, Statistic, What};
use serde::Serialize;

use crate::opened;
use crate::perf_report::Run;

/// What was measured, and of what.
#[derive(Serialize)]
pub struct Report {
    /// The name of the job, of a job file.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    uri: String,
    backend: &'static str,
    #[serde(skip)]
    named: String,
    rw: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_bytes: Option<u32>,
    reads_percent: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    random_distribution: Option<String>,
    /// Commands of all runs that succeeded.
    #[serde(skip)]
    pub(super) commands: u64,
    /// Commands of all runs that met a key that is not there.
    #[serde(skip)]
    pub(super) missing: u64,
    /// What of this host's memory was between: `page-cache`, `direct` or `none`.
    cache: &'static str,
    invalidated: bool,
    #[serde(skip)]
    cache_note: Option<String>,
    /// Bytes of the range that is read which the namespace has not allocated, at least.
    #[serde(skip_serializing_if = "is_zero")]
    unallocated_bytes: u64,
    depth: u32,
    seed: u64,
    pub(super) interrupted: bool,
    /// Pieces that were read back and matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<u64>,
    /// Medians, where there are several runs.
    #[serde(flatten)]
    total: Part,
    #[serde(flatten)]
    runs: Runs,
    /// What a report keeps of it, where one is asked for.
    #[serde(skip)]
    pub(super) kept: Option<Run>,
}

/// The runs of a load.
#[derive(Serialize)]
#[serde(untagged)]
enum Runs {
    /// The only one.
    One { threads: Vec<Part> },
    /// Several, with the least and the greatest of each figure. `repeat` were asked for; an interrupt leaves those before it.
    Several { repeat: u32, min: Box<Part>, max: Box<Part>, runs: Vec<OneRun> },
}

/// One run of several.
#[derive(Serialize)]
struct OneRun {
    #[serde(flatten)]
    total: Part,
    threads: Vec<Part>,
}

/// What one thread measured, or all of them.
#[derive(Default, Serialize)]
struct Part {
    seconds: f64,
    iops: f64,
    mib_per_s: f64,
    cpu_us_per_op: f64,
    #[serde(skip_serializing_if = "is_zero")]
    missing_keys: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<Row>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Report {
    /// Of one run.
    pub fn of(job: &Job, plan: &Plan, measured: &Measured) -> Self {
        let (block_bytes, value_bytes) = match plan.what {
            What::Blocks(blocks) => (Some(blocks.piece_bytes), None),
            What::Pairs(pairs) => (None, Some(pairs.value_bytes)),
        };
        let total = measured.total();
        Self {
            job: Some(job.name.clone()).filter(|name| !name.is_empty()),
            commands: total.commands(),
            missing: total.missing,
            random_distribution: (!plan.load.is_sequential()).then(|| plan.distribution.to_string()),
            uri: plan.uri.clone(),
            backend: plan.device.name(),
            named: plan.named(),
            rw: plan.load.name(),
            block_bytes,
            value_bytes,
            reads_percent: plan.reads_percent,
            cache: plan.cache.name(),
            invalidated: plan.invalidate,
            cache_note: plan.cache.note(plan.device.as_embedded().is_some(), plan.invalidate),
            unallocated_bytes: plan.unallocated_bytes(),
            depth: plan.depth,
            seed: plan.seed,
            interrupted: measured.was_interrupted,
            verified: plan.verify.then_some(measured.verified),
            total: Part::of(&total),
            runs: Runs::One { threads: measured.threads.iter().map(Part::of).collect() },
            kept: plan
                .keep
                .filter(|keep| keep.series)
                .map(|_| Run::of(job, plan, plan.device.name(), measured)),
        }
    }

    /// Of `repeat` runs of one load. Runs that an interrupt cut short count only where no other is there; nothing of no run.
    pub fn over(mut reports: Vec<Self>, repeat: u32) -> Option<Self> {
        if repeat == 1 {
            return reports.pop();
        }
        let interrupted = reports.iter().any(|report| report.interrupted);
        if reports.iter().any(|report| !report.interrupted) {
            reports.retain(|report| !report.interrupted);
        }
        let sum = |of: fn(&Self) -> u64| reports.iter().map(of).sum::<u64>();
        let (commands, missing) = (sum(|report| report.commands), sum(|report| report.missing));
        let verified = reports.iter().map(|report| report.verified).sum();
        let kept = Run::over(reports.iter_mut().filter_map(|report| report.kept.take()).collect());
        let runs: Vec<OneRun> = reports.iter_mut().map(Self::take_run).collect();
        let [median, min, max] = Statistic::ALL.map(|of| Part::over(&runs, of));
        let total = Part { missing_keys: missing, ..median };
        let runs = Runs::Several { repeat, min: Box::new(min), max: Box::new(max), runs };
        let settings = reports.pop()?;
        Some(Self { total, runs, commands, missing, interrupted, verified, kept, ..settings })
    }

    /// Takes the figures out, and leaves none.
    fn take_run(&mut self) -> OneRun {
        let threads = match &mut self.runs {
            Runs::One { threads } => std::mem::take(threads),
            Runs::Several { .. } => Vec::new(),
        };
        OneRun { total: std::mem::take(&mut self.total), threads }
    }

    fn push_to(&self, table: &mut Table, before: &str) {
        match &self.runs {
            Runs::One { threads } => {
                self.total.push_to(if before.is_empty() { "all" } else { before }, table);
                let threads = (0..threads.len()).zip(threads).filter(|_| threads.len() > 1);
                for (number, part) in threads.filter(|_| before.is_empty()) {
                    part.push_to(&format!("thread {number}"), table);
                }
            }
            Runs::Several { min, max, .. } => {
                let parts = [&self.total, &**min, &**max];
                for (of, part) in Statistic::ALL.into_iter().zip(parts) {
                    part.push_to(format!("{before} {}", of.name()).trim(), table);
                }
            }
        }
    }

    /// The rate, and of several runs its range.
    fn rate(&self) -> String {
        let rate = table::rate(self.total.iops);
        match &self.runs {
            Runs::One { .. } => rate,
            Runs::Several { min, max, .. } => {
                format!("{rate} ({} to {})", table::rate(min.iops), table::rate(max.iops))
            }
        }
    }

    /// How long it was measured.
    fn time(&self) -> String {
        match &self.runs {
            Runs::One { .. } => format!("{:.2} s", self.total.seconds),
            Runs::Several { runs, .. } => {
                format!("{} of {:.2} s", size::counted(runs.len() as u64, "run"), self.total.seconds)
            }
        }
    }
}

impl Part {
    fn of(of: &OfThread) -> Self {
        let (seconds, ops) = (of.wall.as_secs_f64(), of.commands());
        let per_second = |number: f64| if of.wall == Duration::ZERO { 0.0 } else { number / seconds };
        Self {
            seconds,
            iops: per_second(ops as f64),
            mib_per_s: per_second((of.reads.bytes + of.writes.bytes) as f64 / f64::from(1 << 20)),
            cpu_us_per_op: if ops == 0 { 0.0 } else { of.cpu.as_secs_f64() * 1e6 / ops as f64 },
            missing_keys: of.missing,
            read: Row::of(&of.reads, of.wall),
            write: Row::of(&of.writes, of.wall),
        }
    }

    /// Each figure over those of several runs. Keys that are not there have no statistic: they are counted over all runs.
    fn over(runs: &[OneRun], of: Statistic) -> Self {
        let figure = |figure: fn(&Self) -> f64| of.of(runs.iter().map(|run| figure(&run.total)));
        let rows = |side: fn(&Self) -> &Option<Row>| {
            let rows: Vec<&Row> = runs.iter().filter_map(|run| side(&run.total).as_ref()).collect();
            Row::over(&rows, of)
        };
        Self {
            seconds: figure(|part| part.seconds),
            iops: figure(|part| part.iops),
            mib_per_s: figure(|part| part.mib_per_s),
            cpu_us_per_op: figure(|part| part.cpu_us_per_op),
            missing_keys: 0,
            read: rows(|part| &part.read),
            write: rows(|part| &part.write),
        }
    }

    fn push_to(&self, name: &str, table: &mut Table) {
        for (side, row) in [("read", &self.read), ("write", &self.write)] {
            let Some(row) = row else { continue };
            let ns = |of: fn(&Latency) -> f64| table::time(row.latency_ns.as_ref().map(of));
            table.push(vec![
                format!("{name} {side}"),
                row.ops.to_string(),
                table::rate(row.iops),
                format!("{:.1}", row.mib_per_s),
                ns(|latency| latency.mean),
                ns(|latency| latency.p50 as f64),
                ns(|latency| latency.p99 as f64),
                ns(|latency| latency.p99_9 as f64),
                ns(|latency| latency.max as f64),
            ]);
        }
    }
}

/// A table of no rows.
fn table() -> Table {
    Table::new(&["", "ops", "rate", "MiB/s", "mean", "p50", "p99", "p99.9", "max"])
}

/// The depths of one load, as one table.
pub struct Depths<'a>(pub &'a [Report]);

impl fmt::Display for Depths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else { return Ok(()) };
        let depths: Vec<String> = self.0.iter().map(|report| report.depth.to_string()).collect();
        let of_first = format!("depth {}", first.depth);
        let named = first.named.replacen(&of_first, &format!("depth {}", depths.join(", ")), 1);
        writeln!(f, "{named} on {} by {}, {}", first.uri, first.backend, first.time())?;
        first.fmt_notes(f)?;
        let mut table = table();
        for report in self.0 {
            report.push_to(&mut table, &format!("depth {}", report.depth));
        }
        write!(f, "{table}")?;
        self.0.iter().try_for_each(|report| {
            write!(f, "depth {}: ", report.depth)?;
            report.fmt_sums(f)
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = opened::with_depth(&self.uri, self.depth);
        if let Some(job) = &self.job {
            write!(f, "{job}: ")?;
        }
        writeln!(f, "{} on {uri} by {}, {}", self.named, self.backend, self.time())?;
        self.fmt_notes(f)?;
        if self.commands == 0 {
            writeln!(f, "no command succeeded")?;
        } else {
            let mut table = table();
            self.push_to(&mut table, "");
            write!(f, "{table}")?;
        }
        self.fmt_sums(f)
    }
}

impl Report {
    /// What a reader of the figures must know of the device.
    fn fmt_notes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(note) = &self.cache_note {
            writeln!(f, "{note}")?;
        }
        if self.unallocated_bytes == 0 {
            return Ok(());
        }
        let bytes = size::human(self.unallocated_bytes);
        let why = "reads there skip the flash (--rw write fills the range)";
        writeln!(f, "{bytes} of the range are not allocated: {why}")
    }

    /// Both directions together, errors, and what was compared.
    fn fmt_sums(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part { mib_per_s, cpu_us_per_op, missing_keys, .. } = &self.total;
        writeln!(
            f,
            "{} in all, {mib_per_s:.1} MiB/s, {cpu_us_per_op:.3} µs of processor time a command",
            self.rate()
        )?;
        if *missing_keys > 0 {
            writeln!(
                f,
                "errors: {missing_keys} commands met a key that is not there; they are no part of the rate"
            )?;
        }
        match self.verified {
            Some(0) | None => Ok(()),
            Some(pieces) => writeln!(f, "{pieces} pieces were compared, and are as they should be"),
        }
    }
}
