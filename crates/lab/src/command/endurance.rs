//! `byway-lab endurance`: a device filled and overwritten at random, beside a simple model.

use std::io::Write;

use anyhow::{Result, ensure};
use byway_console::size;
use byway_console::table::Table;
use byway_console::terminal::{Interrupt, Progress, print_json};

use crate::args::EnduranceBench;
use crate::endurance::skew::Skew;
use crate::endurance::{Kind, Pass, Plan, Run, Summary, UpkeepDone};

/// Runs the bench.
///
/// # Errors
/// A plan that cannot be, what the device says, or an interruption. The image is removed in any case.
pub fn run(args: &EnduranceBench, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    ensure!((1..=100).contains(&args.fill), "a device is filled from 1 to 100 percent");
    let plan = Plan {
        size_bytes: args.size,
        profile: args.profile.clone(),
        over_provisioning_percent: args.over_provisioning,
        gc: args.gc.clone(),
        upkeep: args.upkeep.clone(),
        idle_queues: args.idle_queues,
        kind: if args.kv { Kind::Kv } else { Kind::Nvm },
        value_bytes: args.value,
        fill_percent: args.fill,
        overwrites: args.overwrites,
        skew: args.skew.unwrap_or(Skew::NONE),
        seed: args.seed,
    };
    let folder = tempfile::Builder::new().prefix("byway-endurance-").tempdir_in(&args.dir)?;
    let progress = Progress::of_phases("endurance", 0);
    let (passes, summary) = Run::new(&plan, &folder.path().join("image"), interrupt, &progress)?.run()?;
    drop(progress);
    if args.json {
        passes.iter().try_for_each(|pass| print_json(out, pass))?;
        return Ok(print_json(out, &summary)?);
    }
    write!(out, "{}", table(&passes))?;
    write_summary(out, &summary)
}

fn table(passes: &[Pass]) -> Table {
    let mut table = Table::new(&[
        "pass",
        "MB/s",
        "cpu µs",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "WA",
        "model",
        "erases",
        "by cause",
    ]);
    for pass in passes {
        let by_cause: Vec<String> =
            pass.by_cause.iter().map(|(cause, part)| format!("{cause} {part:.3}")).collect();
        table.push(vec![
            pass.pass.clone(),
            format!("{:.0}", pass.mb_per_s),
            format!("{:.2}", pass.cpu_us_per_write),
            format!("{:.1}", pass.p50_us),
            format!("{:.1}", pass.p99_us),
            format!("{:.1}", pass.p999_us),
            format!("{:.0}", pass.max_us),
            format!("{:.3}", pass.write_amplification),
            pass.model_write_amplification.map_or("-".to_owned(), |model| format!("{model:.3}")),
            pass.erases.to_string(),
            by_cause.join(", "),
        ]);
    }
    table
}

fn write_summary(out: &mut impl Write, summary: &Summary) -> Result<()> {
    writeln!(
        out,
        "{} filled to {} %, {} % over-provisioning ({:.1} % of flash beyond the size in all), gc {}",
        size::human(summary.size_bytes),
        summary.fill_percent,
        summary.over_provisioning_percent,
        summary.raw_beyond_percent,
        summary.gc,
    )?;
    writeln!(
        out,
        "throughput: {:.0} MB/s empty, {:.0} MB/s in the last overwrite: {:.2} of it ({:.2} by processor time)",
        summary.empty_mb_per_s, summary.last_mb_per_s, summary.kept, summary.kept_by_cpu
    )?;
    if let (Some(model), Some(difference)) = (summary.model_write_amplification, summary.difference_percent) {
        writeln!(
            out,
            "write amplification: {:.3}, simple greedy model {model:.3}: {difference:+.1} %",
            summary.write_amplification
        )?;
    }
    let wear = summary.wear;
    writeln!(
        out,
        "erases of a block: {} to {}, mean {:.2}; standard deviation {:.2} of it, range {:.2}",
        wear.min, wear.max, wear.mean, wear.variation, summary.wear_spread
    )?;
    if let Some(model) = summary.model_wear {
        writeln!(
            out,
            "erases in the model: {} to {}, mean {:.2}; standard deviation {:.2} of it, range {:.2}",
            model.min,
            model.max,
            model.mean,
            model.variation,
            model.spread()
        )?;
    }
    if let Some(longest) = summary.longest_put {
        writeln!(
            out,
            "longest put: {} pages read, {} written, {} given back, {} entries, {} records; {} waited for room",
            longest.pages_read,
            longest.pages_written,
            longest.pages_trimmed,
            longest.entries,
            longest.records,
            longest.waited
        )?;
    }
    if let Some(upkeep) = &summary.upkeep {
        let UpkeepDone { quanta, seconds, longest_us, .. } = upkeep;
        writeln!(
            out,
            "upkeep by other threads: {quanta} times, {seconds:.2} s in all, at most {longest_us:.0} µs at once"
        )?;
    }
    Ok(())
}
