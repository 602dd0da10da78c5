//! `byway perf`: a load, measured.

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use byway::{Backend, Device};
use byway_console::failure::No;
use byway_console::size;
use byway_console::table::{self, Table};
use byway_console::terminal::{Interrupt, Interrupted, print_json};
use byway_perf::{Job, JobFile, Latency, Measured, OfThread, Plan, Row, What};
use serde::Serialize;

use crate::args::Perf;
use crate::opened;
use crate::perf_report::{self, Measurement, Named, Origin, Run};

/// The name that a report has for what was measured just now.
const THIS_RUN: &str = "this run";

/// What was measured, and of what.
#[derive(Serialize)]
struct Report {
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
    #[serde(skip)]
    commands: u64,
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
    interrupted: bool,
    /// Pieces that were read back and matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<u64>,
    #[serde(flatten)]
    total: Part,
    threads: Vec<Part>,
    /// What a report keeps of it, where one is asked for.
    #[serde(skip)]
    kept: Option<Run>,
}

/// What one thread measured, or all of them.
#[derive(Serialize)]
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

/// What was measured of the jobs of a file.
#[derive(Serialize)]
struct Reports<'a> {
    jobs: &'a [Report],
}

/// Measures, and prints the figures, also after an interrupt.
///
/// # Errors
/// A load that the device cannot carry, what it says to a command, a difference.
pub fn run(args: &Perf, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let others = args.compare.iter().map(|path| perf_report::read(path, interrupt));
    let others = others.collect::<Result<Vec<Named>>>()?;
    if args.settings.rw.is_none() && args.jobs.is_none() {
        return compare_finished(args, others, out);
    }
    let jobs = jobs_of(args)?;
    let (reports, failed) = measured_groups(args, &jobs, interrupt);
    if !reports.is_empty() {
        print(args, &reports, out)?;
    }
    let is_interrupted = reports.iter().any(|report| report.interrupted) || interrupt.check().is_err();
    let has_commands = reports.iter().any(|report| report.commands > 0);
    if is_kept(args) && (has_commands || !is_interrupted) && !reports.is_empty() {
        let runs = reports.iter().filter_map(|report| report.kept.clone()).collect();
        let measurement =
            Measurement { version: env!("CARGO_PKG_VERSION").to_owned(), origin: Origin::here(), runs };
        let this = Named { name: THIS_RUN.to_owned(), measurement };
        print_ratios(args, &this, &others, out)?;
        write_report(args, std::iter::once(this).chain(others).collect())?;
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    if is_interrupted {
        let said =
            if has_commands { "what was measured until then is printed" } else { "nothing was measured yet" };
        return Err(Interrupted(said.into()).into());
    }
    check_missing(&reports)
}

/// Compares the first of finished reports with each of the others.
fn compare_finished(args: &Perf, reports: Vec<Named>, out: &mut impl Write) -> Result<()> {
    ensure!(!args.json, "--json is of a measurement; the report.json of each report has its figures");
    let is_one = reports.len() < 2 && args.report.is_none();
    ensure!(!is_one, "a report is compared with another: name two by --compare, or measure one by --rw");
    if let Some((first, others)) = reports.split_first() {
        print_ratios(args, first, others, out)?;
    }
    args.report.as_deref().map_or(Ok(()), perf_report::make_folder)?;
    write_report(args, reports)
}

/// Whether what a report needs is kept of a measurement.
fn is_kept(args: &Perf) -> bool {
    args.report.is_some() || !args.compare.is_empty()
}

/// Runs each group of jobs; what was measured before one failed is kept.
fn measured_groups(args: &Perf, jobs: &[Job], interrupt: &Interrupt) -> (Vec<Report>, Option<anyhow::Error>) {
    let (mut reports, mut first_thread) = (Vec::new(), 0);
    for group in groups(jobs) {
        if interrupt.check().is_err() {
            break;
        }
        match measured(args, group, first_thread, interrupt) {
            Ok(measured) => reports.extend(measured),
            Err(error) => return (reports, Some(error)),
        }
        first_thread += group.iter().map(|job| job.settings.threads).sum::<u32>();
    }
    (reports, None)
}

/// Prints this run's figures beside each of the others.
fn print_ratios(args: &Perf, this: &Named, others: &[Named], out: &mut impl Write) -> Result<()> {
    for other in others.iter().filter(|_| !args.json) {
        let ratio = format!("{} / {}", this.name, other.name);
        let mut table = Table::new(&["", &this.name, &other.name, &ratio]);
        perf_report::ratios(this, other).into_iter().for_each(|row| table.push(row));
        put!(out, "{table}")?;
        if let Some(differing) = perf_report::differing_settings(this, other) {
            put!(out, "{differing}\n")?;
        }
    }
    Ok(())
}

/// Writes the report that is asked for, and says where it is.
fn write_report(args: &Perf, mut of: Vec<Named>) -> Result<()> {
    if let Some(folder) = &args.report {
        let page = perf_report::write(folder, &mut of)?;
        note!("byway: the report is {}", page.display());
    }
    Ok(())
}

/// The jobs of the file, or the one that the arguments say.
fn jobs_of(args: &Perf) -> Result<Vec<Job>> {
    let Some(path) = &args.jobs else {
        let settings = args.settings.clone();
        return Ok(vec![Job { name: String::new(), filename: None, is_after: false, settings }]);
    };
    let JobFile { mut jobs, notes } = JobFile::read(path)?;
    notes.iter().for_each(|said| note!("byway: {}, {said}", path.display()));
    for log in jobs.iter_mut().map(|job| &mut job.settings.log).filter(|log| !log.is_on()) {
        log.clone_from(&args.settings.log);
    }
    Ok(jobs)
}

/// Jobs that run beside each other.
fn groups(jobs: &[Job]) -> impl Iterator<Item = &[Job]> {
    jobs.chunk_by(|_, next| !next.is_after)
}

/// The device of a job.
fn uri_of(args: &Perf, job: &Job) -> Result<String> {
    let target = match &job.filename {
        Some(name) => name.parse().ok(),
        None => args.target.clone(),
    };
    let target =
        target.with_context(|| format!("job {} names no filename, and there is no DEVICE", job.name))?;
    let option = args.ns.map(|ns| format!("ns={ns}")).unwrap_or_default();
    Ok(byway::uri::with_options(target.uri(), &option))
}

/// Opens the devices of jobs, runs these beside each other, and closes the devices.
fn measured(args: &Perf, jobs: &[Job], first_thread: u32, interrupt: &Interrupt) -> Result<Vec<Report>> {
    let uris = jobs.iter().map(|job| uri_of(args, job)).collect::<Result<Vec<String>>>()?;
    let changes = |uri: &String| jobs.iter().zip(&uris).any(|(job, of)| of == uri && job.settings.changes());
    let mut devices: Vec<(String, Arc<Device>)> = Vec::new();
    let (mut plans, mut first_thread) = (Vec::new(), first_thread);
    for (job, uri) in jobs.iter().zip(&uris) {
        let open = |opened: &str| open_once(opened, changes(uri), &mut devices);
        let mut plan = Plan::of(&job.settings, uri, opened::depth_of(uri), open)?;
        plan.first_thread = first_thread;
        if is_kept(args) {
            plan.keep_series()?;
        }
        first_thread += plan.threads;
        plans.push(plan);
    }
    args.report.as_deref().map_or(Ok(()), perf_report::make_folder)?;
    let measured = byway_perf::run_together(&plans, interrupt)?;
    let each = jobs.iter().zip(&plans).zip(&measured);
    let reports = each.map(|((job, plan), measured)| Report::of(job, plan, measured)).collect();
    drop(plans);
    devices.into_iter().filter_map(|(_, device)| Arc::into_inner(device)).try_for_each(Device::close)?;
    Ok(reports)
}

/// Opens a device, or gives one that is open already.
fn open_once(
    uri: &str,
    changes: bool,
    devices: &mut Vec<(String, Arc<Device>)>,
) -> byway::Result<Arc<Device>> {
    if let Some((_, device)) = devices.iter().find(|(of, _)| of == uri) {
        return Ok(Arc::clone(device));
    }
    let device = Arc::new(if changes { opened::open(uri)? } else { opened::open_to_read(uri)? });
    devices.push((uri.to_owned(), Arc::clone(&device)));
    Ok(device)
}

fn print(args: &Perf, reports: &[Report], out: &mut impl Write) -> Result<()> {
    match reports {
        [report] if args.jobs.is_none() && args.json => print_json(out, report)?,
        _ if args.json => print_json(out, &Reports { jobs: reports })?,
        _ => reports.iter().try_for_each(|report| put!(out, "{report}"))?,
    }
    Ok(())
}

fn check_missing(reports: &[Report]) -> Result<()> {
    let missing: u64 = reports.iter().map(|report| report.total.missing_keys).sum();
    if missing == 0 {
        return Ok(());
    }
    let all = missing + reports.iter().map(|report| report.commands).sum::<u64>();
    let said =
        format!("{missing} of {all} commands met a key that is not there: --fill stores all of them before");
    Err(No(said).into())
}

impl Report {
    fn of(job: &Job, plan: &Plan, measured: &Measured) -> Self {
        let (block_bytes, value_bytes) = match plan.what {
            What::Blocks(blocks) => (Some(blocks.piece_bytes), None),
            What::Pairs(pairs) => (None, Some(pairs.value_bytes)),
        };
        let total = measured.total();
        Self {
            job: Some(job.name.clone()).filter(|name| !name.is_empty()),
            commands: total.commands(),
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
            threads: measured.threads.iter().map(Part::of).collect(),
            kept: plan
                .keep
                .filter(|keep| keep.series)
                .map(|_| Run::of(&job.name, plan, plan.device.name(), measured)),
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = opened::with_depth(&self.uri, self.depth);
        if let Some(job) = &self.job {
            write!(f, "{job}: ")?;
        }
        writeln!(f, "{} on {uri} by {}, {:.2} s", self.named, self.backend, self.total.seconds)?;
        if let Some(note) = &self.cache_note {
            writeln!(f, "{note}")?;
        }
        if self.unallocated_bytes > 0 {
            let bytes = size::human(self.unallocated_bytes);
            writeln!(
                f,
                "{bytes} of the range are not allocated: reads there skip the flash (--rw write fills the range)"
            )?;
        }
        let mut table = Table::new(&["", "ops", "rate", "MiB/s", "mean", "p50", "p99", "p99.9", "max"]);
        self.total.push_to("all", &mut table);
        if self.threads.len() > 1 {
            (0..)
                .zip(&self.threads)
                .for_each(|(number, part): (u32, _)| part.push_to(&format!("thread {number}"), &mut table));
        }
        if self.commands == 0 {
            writeln!(f, "no command succeeded")?;
        } else {
            write!(f, "{table}")?;
        }
        let Part { iops, mib_per_s, cpu_us_per_op, missing_keys, .. } = &self.total;
        writeln!(
            f,
            "{} in all, {mib_per_s:.1} MiB/s, {cpu_us_per_op:.3} µs of processor time a command",
            table::rate(*iops)
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
