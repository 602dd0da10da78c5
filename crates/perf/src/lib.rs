//! Loads on a device of any kind, measured: blocks or keys and values, many commands at once, by one thread or several.
//!
//! What is measured is the device, not this program: commands are submitted together, a command's buffer comes back with
//! its completion and is used by the next, the time is asked for once for all that is submitted or found finished at once
//! (or not at all), and nothing is allocated between.

#![forbid(unsafe_code)]

mod cache;
mod headings;
mod jobs;
mod load;
mod log;
mod measured;
mod pattern;
mod plan;
mod readback;
mod samples;
mod settings;
mod statistic;
mod worker;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use byway_console::size;
use byway_console::table;
use byway_console::terminal::{Interrupt, Progress};
use rustix::time::{ClockId, clock_gettime};

pub use cache::Cache;
pub use jobs::{Job, JobFile};
use log::Log;
pub use log::LogSettings;
pub use measured::{Latency, Measured, OfThread, Row, Side};
pub use plan::{Blocks, Pairs, Plan, What};
pub use samples::{Interval, Keep, SideInterval};
pub use settings::{Cpus, Load, MemoryOf, Settings, Wait};
pub use statistic::Statistic;
use worker::{Ran, Worker};

/// How often the thread that watches looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often it is looked whether all threads measure.
const NOTICE_EVERY: Duration = Duration::from_micros(50);

/// Where a measurement is. Threads look at it once a turn; it guards no other memory.
#[derive(Debug, Default)]
struct Phase(AtomicU8);

impl Phase {
    const WARM_UP: u8 = 0;
    const MEASURE: u8 = 1;
    const OVER: u8 = 2;
    /// Ended early: outstanding commands are cancelled.
    const GIVEN_UP: u8 = 3;

    #[inline]
    fn now(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u8) {
        self.0.fetch_max(phase, Ordering::Relaxed);
    }
}

/// What all threads share.
#[derive(Debug)]
struct Shared {
    phase: Phase,
    /// Commands that are done, updated every 256.
    done: AtomicU64,
    /// Threads that have begun to measure.
    measuring: AtomicU32,
    /// Everybody is ready.
    ready: Barrier,
}

/// What ends loads early: Ctrl-C, or a load beside that failed.
#[derive(Debug)]
struct Stop<'a> {
    interrupt: &'a Interrupt,
    has_failed: AtomicBool,
}

impl Stop<'_> {
    fn is_due(&self) -> bool {
        // Relaxed: the flag guards no other memory.
        self.interrupt.check().is_err() || self.has_failed.load(Ordering::Relaxed)
    }
}

/// Runs a load, and gives what was measured.
///
/// # Errors
/// As [`run_together`].
pub fn run(plan: &Plan, interrupt: &Interrupt) -> Result<Measured> {
    let mut measured = run_together(std::slice::from_ref(plan), interrupt)?;
    measured.pop().ok_or_else(|| anyhow!("nothing was measured"))
}

/// Runs loads beside each other, and gives what was measured of each.
///
/// # Errors
/// What a device says to a command; a difference, where what was written is compared.
pub fn run_together(plans: &[Plan], interrupt: &Interrupt) -> Result<Vec<Measured>> {
    plans.iter().try_for_each(|plan| plan.fill(interrupt))?;
    for plan in plans.iter().filter(|plan| plan.invalidate) {
        plan.cache.invalidate(&plan.uri)?;
    }
    let stop = Stop { interrupt, has_failed: AtomicBool::new(false) };
    let ended: Vec<Result<Ended>> = match plans {
        [plan] => vec![measure(plan, &stop, &plan.named())],
        _ => measure_together(plans, &stop),
    };
    // A load that was ended early by another's failure succeeded.
    let ended = ended.into_iter().collect::<Result<Vec<Ended>>>()?;
    let finish = |(plan, ended): (&Plan, Ended)| finish(plan, ended, plans.len() == 1, interrupt);
    plans.iter().zip(ended).map(finish).collect()
}

/// What was measured of a load, and which pieces were written, a bit each.
type Ended = (Measured, Vec<u64>);

fn measure_together(plans: &[Plan], stop: &Stop<'_>) -> Vec<Result<Ended>> {
    let failed = move |_: &anyhow::Error| stop.has_failed.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let mut jobs = Vec::with_capacity(plans.len());
        for plan in plans {
            // One line on the terminal stands for all.
            let is_first = jobs.is_empty();
            let shown =
                if is_first { format!("{} of {} jobs", plan.named(), plans.len()) } else { String::new() };
            jobs.push(scope.spawn(move || measure(plan, stop, &shown).inspect_err(failed)));
        }
        let ended = jobs.into_iter().map(|job| job.join());
        ended.map(|ran| ran.unwrap_or_else(|_| Err(anyhow!("a job of the load failed")))).collect()
    })
}

/// Compares what was written, where that is asked for. Of several jobs, processor time is that of their own threads.
fn finish(plan: &Plan, ended: Ended, is_alone: bool, interrupt: &Interrupt) -> Result<Measured> {
    let (mut measured, touched) = ended;
    if !is_alone {
        measured.cpu = measured.threads.iter().map(|thread| thread.cpu).sum();
    }
    measured.was_interrupted = interrupt.check().is_err();
    if plan.verify && !measured.was_interrupted {
        let compared = measured.total().reads.ops;
        let is_written = plan.load.changes();
        measured.verified =
            if is_written { readback::read_back(plan, &touched, interrupt)? } else { compared };
    }
    Ok(measured)
}

/// Runs one load; `shown` is what the terminal shows of it meanwhile, if anything.
fn measure(plan: &Plan, stop: &Stop<'_>, shown: &str) -> Result<Ended> {
    let log = Log::begin(&plan.log, plan.first_thread, plan.threads, plan.load == Load::Trim)?;
    let ready = Barrier::new(plan.threads as usize + 1);
    let shared =
        Shared { phase: Phase::default(), done: AtomicU64::new(0), measuring: AtomicU32::new(0), ready };
    let ended = std::thread::scope(|scope| {
        let work = |thread| {
            let (shared, log) = (&shared, log.as_ref());
            let ran = move || work(plan, thread, shared, log);
            scope.spawn(move || ran().inspect_err(|_| shared.phase.set(Phase::GIVEN_UP)))
        };
        if plan.warmup.is_zero() {
            shared.phase.set(Phase::MEASURE);
        }
        let threads: Vec<_> = (0..plan.threads).map(work).collect();
        let cpu = process_time();
        shared.ready.wait();
        let are_done = || threads.iter().all(|thread| thread.is_finished());
        let watched = watch(plan, stop, &shared, cpu, shown, are_done);
        let ended: Vec<Result<Ran>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the load failed"))))
            .collect();
        gather(watched, ended)
    })?;
    log.map_or(Ok(()), Log::end)?;
    Ok(ended)
}

/// The work of one thread. Everybody begins at once, also where one of them cannot.
fn work(plan: &Plan, thread: u32, shared: &Shared, log: Option<&Log>) -> Result<Ran> {
    let worker = Worker::new(plan, thread, log);
    shared.ready.wait();
    worker?.run(shared)
}

fn gather(mut measured: Measured, ended: Vec<Result<Ran>>) -> Result<(Measured, Vec<u64>)> {
    let mut touched: Vec<u64> = Vec::new();
    for ran in ended {
        let Ran { of, touched: pieces } = ran?;
        measured.threads.push(of);
        touched.resize(touched.len().max(pieces.len()), 0);
        touched.iter_mut().zip(pieces).for_each(|(all, some)| *all |= some);
    }
    Ok((measured, touched))
}

/// Begins and ends the measurement, and shows it meanwhile.
fn watch(
    plan: &Plan,
    stop: &Stop<'_>,
    shared: &Shared,
    mut cpu: Duration,
    shown: &str,
    are_done: impl Fn() -> bool,
) -> Measured {
    let progress = (!shown.is_empty()).then(|| Progress::line(shown));
    let is_over = || stop.is_due() || are_done() || shared.phase.now() >= Phase::OVER;
    if !plan.warmup.is_zero() {
        wait(plan.warmup, &is_over, || {});
        cpu = process_time();
    }
    if is_over() {
        shared.phase.set(if stop.is_due() { Phase::GIVEN_UP } else { Phase::OVER });
        return Measured::default();
    }
    shared.phase.set(Phase::MEASURE);
    // Each thread measures for no less than the time: it begins once all of them have noticed.
    while shared.measuring.load(Ordering::Acquire) < plan.threads && !is_over() {
        std::thread::sleep(NOTICE_EVERY);
    }
    let (done_before, begun) = (shared.done.load(Ordering::Relaxed), Instant::now());
    wait(plan.time.unwrap_or(Duration::MAX), &is_over, || {
        let seconds = begun.elapsed().as_secs_f64();
        let done = shared.done.load(Ordering::Relaxed).saturating_sub(done_before);
        let (rate, bytes) = (done as f64 / seconds, (done * plan.op_bytes()) as f64 / seconds);
        if let Some(progress) = &progress {
            let bytes = size::human(bytes as u64);
            progress.say(&format!("{shown}: {}, {bytes}/s, {seconds:.0} s", table::rate(rate)));
        }
    });
    let measured = Measured { cpu: process_time().saturating_sub(cpu), ..Measured::default() };
    shared.phase.set(if stop.is_due() { Phase::GIVEN_UP } else { Phase::OVER });
    measured
}

/// Waits for a time, or until it is over.
fn wait(time: Duration, is_over: &impl Fn() -> bool, mut look: impl FnMut()) {
    let begun = Instant::now();
    loop {
        let left = time.saturating_sub(begun.elapsed());
        if left.is_zero() || is_over() {
            return;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
        look();
    }
}

/// Processor time of all threads of the process.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
