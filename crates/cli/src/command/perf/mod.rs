//! `byway perf`: a load, measured.

mod report;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use byway::Device;
use byway_console::failure::No;
use byway_console::table::Table;
use byway_console::terminal::{Interrupt, Interrupted, print_json};
use byway_perf::{Job, JobFile, Plan, Settings};
use serde::Serialize;

use crate::args::Perf;
use crate::opened;
use crate::origin::Origin;
use crate::perf_report::{self, Measurement, Named};
use report::{Depths, Report};

/// The name that a report has for what was measured just now.
const THIS_RUN: &str = "this run";

/// What was measured of several loads.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Reports<'a> {
    /// The jobs of a file.
    Jobs(&'a [Report]),
    /// The depths of one load.
    Depths(&'a [Report]),
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
    let has_log = jobs.iter().any(|job| job.settings.log.is_on());
    let has_one_run = args.repeat == 1 && args.settings.depth.len() < 2;
    ensure!(has_one_run || !has_log, "a log is of one run: leave out --repeat, and give one --depth");
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
        let mut this = Named { name: THIS_RUN.to_owned(), measurement };
        print_ratios(args, &this, &others, out)?;
        // On the page it stands beside others by the names of their folders.
        if let Some(folder) = args.report.as_deref().and_then(Path::file_name) {
            this.name = folder.to_string_lossy().into_owned();
        }
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
    ensure!(args.repeat == 1, "--repeat is of a measurement: say what is measured by --rw or --jobs");
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
        return jobs_by_depth(args);
    };
    let JobFile { mut jobs, notes } = JobFile::read(path)?;
    notes.iter().for_each(|said| note!("byway: {}, {said}", path.display()));
    for log in jobs.iter_mut().map(|job| &mut job.settings.log).filter(|log| !log.is_on()) {
        log.clone_from(&args.settings.log);
    }
    Ok(jobs)
}

/// The load at each depth, one after the other.
fn jobs_by_depth(args: &Perf) -> Result<Vec<Job>> {
    let runs = args.settings.by_depth();
    let has_names = runs.len() > 1;
    // A wrong depth is refused before the first one is measured.
    for run in &runs {
        run.depth().map_or(Ok(()), |depth| run.check(depth))?;
    }
    let name = |depth| if has_names { perf_report::name_of_depth(depth) } else { String::new() };
    let job = |settings: Settings| {
        let name = name(settings.depth().unwrap_or(1));
        Job { name, filename: None, is_after: true, settings }
    };
    Ok(runs.into_iter().map(job).collect())
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
    let reports = repeated(args.repeat, jobs, &mut plans, interrupt)?;
    drop(plans);
    devices.into_iter().filter_map(|(_, device)| Arc::into_inner(device)).try_for_each(Device::close)?;
    Ok(reports)
}

/// Runs jobs beside each other, `repeat` times one after the other, and gives a report of each job.
fn repeated(repeat: u32, jobs: &[Job], plans: &mut [Plan], interrupt: &Interrupt) -> Result<Vec<Report>> {
    let mut runs: Vec<Vec<Report>> = jobs.iter().map(|_| Vec::new()).collect();
    for _ in 0..repeat {
        let measured = byway_perf::run_together(plans, interrupt)?;
        let each = jobs.iter().zip(&*plans).zip(&measured).zip(&mut runs);
        each.for_each(|(((job, plan), measured), of)| of.push(Report::of(job, plan, measured)));
        plans.iter_mut().for_each(Plan::skip_fill);
        if interrupt.check().is_err() {
            break;
        }
    }
    Ok(runs.into_iter().filter_map(|runs| Report::over(runs, repeat)).collect())
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
    let has_depths = args.settings.depth.len() > 1;
    match reports {
        _ if has_depths && args.json => print_json(out, &Reports::Depths(reports))?,
        _ if has_depths => put!(out, "{}", Depths(reports))?,
        [report] if args.jobs.is_none() && args.json => print_json(out, report)?,
        _ if args.json => print_json(out, &Reports::Jobs(reports))?,
        _ => reports.iter().try_for_each(|report| put!(out, "{report}"))?,
    }
    Ok(())
}

fn check_missing(reports: &[Report]) -> Result<()> {
    let missing: u64 = reports.iter().map(|report| report.missing).sum();
    if missing == 0 {
        return Ok(());
    }
    let all = missing + reports.iter().map(|report| report.commands).sum::<u64>();
    let said =
        format!("{missing} of {all} commands met a key that is not there: --fill stores all of them before");
    Err(No(said).into())
}
