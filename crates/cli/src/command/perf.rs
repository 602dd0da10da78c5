//! `byway perf`: a load, measured.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use byway::Backend;
use byway_console::failure::No;
use byway_console::table::{self, Table};
use byway_console::terminal::{Interrupt, Interrupted, print_json};
use byway_perf::{Latency, Measured, OfThread, Plan, Row, What};
use serde::Serialize;

use crate::args::Perf;
use crate::opened;

/// What was measured, and of what.
#[derive(Serialize)]
struct Report {
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
    /// What of this host's memory was between: `page-cache`, `direct` or `none`.
    cache: &'static str,
    invalidated: bool,
    #[serde(skip)]
    cache_note: Option<String>,
    depth: u32,
    seed: u64,
    interrupted: bool,
    /// Pieces that were read back and matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<u64>,
    #[serde(flatten)]
    total: Part,
    threads: Vec<Part>,
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

/// Measures, and prints the figures, also after an interrupt.
///
/// # Errors
/// A load that the device cannot carry, what it says to a command, a difference.
pub fn run(args: &Perf, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let (uri, settings) = (&args.device.uri(), &args.settings);
    let open = if settings.changes() { opened::open } else { opened::open_to_read };
    let plan = Plan::of(settings, uri, opened::depth_of(uri), open)?;
    let measured = byway_perf::run(&plan, interrupt)?;
    let report = Report::of(&plan, &measured);
    if args.json {
        print_json(out, &report)?
    } else {
        put!(out, "{report}")?
    }
    plan.device.close()?;
    if measured.was_interrupted {
        return Err(Interrupted("what was measured until then is printed".into()).into());
    }
    match report.total.missing_keys {
        0 => Ok(()),
        missing => {
            let all = missing + measured.total().commands();
            Err(No(format!(
                "{missing} of {all} commands met a key that is not there: --fill stores all of them before"
            ))
            .into())
        }
    }
}

impl Report {
    fn of(plan: &Plan, measured: &Measured) -> Self {
        let (block_bytes, value_bytes) = match plan.what {
            What::Blocks(blocks) => (Some(blocks.piece_bytes), None),
            What::Pairs(pairs) => (None, Some(pairs.value_bytes)),
        };
        Self {
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
            depth: plan.depth,
            seed: plan.seed,
            interrupted: measured.was_interrupted,
            verified: plan.verify.then_some(measured.verified),
            total: Part::of(&measured.total()),
            threads: measured.threads.iter().map(Part::of).collect(),
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
            cpu_us_per_op: of.cpu.as_secs_f64() * 1e6 / ops.max(1) as f64,
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
        writeln!(f, "{} on {uri} by {}, {:.2} s", self.named, self.backend, self.total.seconds)?;
        if let Some(note) = &self.cache_note {
            writeln!(f, "{note}")?;
        }
        let mut table = Table::new(&["", "ops", "rate", "MiB/s", "mean", "p50", "p99", "p99.9", "max"]);
        self.total.push_to("all", &mut table);
        if self.threads.len() > 1 {
            (0..)
                .zip(&self.threads)
                .for_each(|(number, part): (u32, _)| part.push_to(&format!("thread {number}"), &mut table));
        }
        write!(f, "{table}")?;
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
