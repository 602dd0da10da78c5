//! `byway bench`: transfer methods, workloads, thresholds.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use byway::{AdaptivePolicy, Method, Packing, Profile};

use crate::args::{BenchCommand, Calibrate, Common, Policy, Switch, Transfer, Way, WorkloadBench};
use crate::experiment::{self, Run, Setting};
use crate::rows::{TransferRow, WorkloadRow};
use crate::table::{self, Table};
use crate::terminal::{Interrupt, Progress, print_json};
use crate::thresholds::Thresholds;

/// Largest value a device takes.
const VALUE_MAX_BYTES: u32 = 16 << 20;

/// Runs one of the benches.
///
/// # Errors
/// When the setting cannot be, the device fails, or the work is interrupted.
pub fn run(command: &BenchCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    match command {
        BenchCommand::Transfer(args) => transfer(args, out, interrupt),
        BenchCommand::Workload(args) => workload(args, out, interrupt),
        BenchCommand::Kv(args) => super::bench_kv::run(args, out, interrupt),
        BenchCommand::Endurance(args) => super::bench_endurance::run(args, out, interrupt),
        BenchCommand::Traffic(args) => super::bench_traffic::run(args, out, interrupt),
        BenchCommand::Calibrate(args) => calibrate(args, out, interrupt),
    }
}

/// The profile that was asked for, with what overrides it.
fn profile_of(common: &Common) -> Result<Profile> {
    let mut profile = experiment::profile(&common.profile)?;
    if let Some(link) = &common.link {
        profile = profile.with_link(link)?;
    }
    if let Some(mps) = common.mps {
        profile = profile.with_mps(mps)?;
    }
    if let Some(mrrs) = common.mrrs {
        profile = profile.with_mrrs(mrrs)?;
    }
    Ok(profile)
}

fn setting(common: &Common, flash: Switch, way: Way) -> Result<Setting> {
    let profile = profile_of(common)?;
    let policy = policy_of(common, profile.name)?;
    Ok(Setting {
        profile,
        way,
        policy,
        clock: common.clock,
        flash: flash == Switch::On,
        packing: Packing::default(),
        media: common.media,
    })
}

fn policy_of(common: &Common, profile: &str) -> Result<AdaptivePolicy> {
    let is_shifted = common.below.is_some() || common.alpha.is_some();
    ensure!(
        common.policy == Policy::Threshold || !is_shifted,
        "--below and --alpha are of --policy threshold"
    );
    match common.policy {
        Policy::Bytes => Ok(AdaptivePolicy::Bytes),
        Policy::Time => Ok(AdaptivePolicy::Time),
        Policy::Threshold => {
            let below = common.below.unwrap_or(Method::Piggyback);
            let kept = Thresholds::load()?;
            let wanted =
                || format!("no threshold of {below} is kept for {profile}: run byway bench calibrate first");
            let found = kept.of(profile, below.name()).with_context(wanted)?;
            // A method that is quicker at every size has no threshold.
            let tau_bytes = found.tau_bytes.unwrap_or(u32::MAX);
            Ok(AdaptivePolicy::Threshold { tau_bytes, alpha: common.alpha.unwrap_or(1.0), below })
        }
    }
}

fn transfer(args: &Transfer, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let largest = args.sizes.iter().copied().max().unwrap_or(0);
    ensure!(
        largest <= VALUE_MAX_BYTES,
        "a value of {largest} bytes is over the limit of {VALUE_MAX_BYTES} bytes"
    );
    ensure!(args.count > 0, "a bench of 0 puts measures nothing");
    let rows = args.sizes.len() as u64 * args.methods.len() as u64;
    let progress = Progress::new("transfer", rows * args.count);
    let mut table = Table::new(&TRANSFER_HEADINGS);
    for &size_bytes in &args.sizes {
        for &way in &args.methods {
            progress.say(&format!("{} {size_bytes} B", way.name()));
            let run = Run { count: args.count, seed: args.common.seed, interrupt, progress: &progress };
            let row = experiment::transfer(&setting(&args.common, args.flash, way)?, size_bytes, &run)
                .with_context(|| format!("{size_bytes} bytes by {}", way.name()))?;
            if args.common.json {
                print_json(out, &row)?;
            } else {
                table.push(transfer_cells(&row));
            }
        }
    }
    drop(progress);
    put!(out, "{}", if args.common.json { String::new() } else { table.to_string() })?;
    Ok(())
}

const TRANSFER_HEADINGS: [&str; 9] =
    ["method", "size", "payload B", "wire B", "commands", "slots", "model mean", "model p99", "wall"];

fn transfer_cells(row: &TransferRow) -> Vec<String> {
    vec![
        row.method.clone(),
        table::mean(row.size),
        table::mean(row.payload_bytes),
        table::mean(row.wire_bytes),
        table::mean(row.commands),
        table::mean(row.slots),
        table::time(row.model_ns_mean),
        table::time(row.model_ns_p99),
        table::time(Some(row.wall_ns_mean)),
    ]
}

fn workload(args: &WorkloadBench, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    ensure!(args.count > 0, "a bench of 0 puts measures nothing");
    let runs = args.workloads.len() as u64 * args.methods.len() as u64;
    let progress = Progress::new("workload", runs * args.count);
    let mut table = Table::new(&WORKLOAD_HEADINGS);
    for &workload in &args.workloads {
        for &way in &args.methods {
            progress.say(&format!("{workload} by {}", way.name()));
            let run = Run { count: args.count, seed: args.common.seed, interrupt, progress: &progress };
            let mut setting = setting(&args.common, args.flash, way)?;
            setting.packing = args.packing;
            let row = experiment::workload(&setting, workload, &run)
                .with_context(|| format!("workload {workload} by {}", way.name()))?;
            if args.common.json {
                print_json(out, &row)?;
            } else {
                table.push(workload_cells(&row));
            }
        }
    }
    drop(progress);
    put!(out, "{}", if args.common.json { String::new() } else { table.to_string() })?;
    Ok(())
}

const WORKLOAD_HEADINGS: [&str; 9] = [
    "workload",
    "method",
    "payload B",
    "wire B",
    "model mean",
    "model puts",
    "NAND pages",
    "WAF",
    "wall puts",
];

fn workload_cells(row: &WorkloadRow) -> Vec<String> {
    vec![
        row.workload.clone(),
        row.put.method.clone(),
        table::mean(row.put.payload_bytes),
        table::mean(row.put.wire_bytes),
        table::time(row.put.model_ns_mean),
        row.ops_per_s_model.map_or("-".to_owned(), table::rate),
        row.nand_pages.to_string(),
        format!("{:.2}", row.waf),
        table::rate(1e9 / row.put.wall_ns_mean),
    ]
}

fn calibrate(args: &Calibrate, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let names: Vec<String> = match args.profile.as_slice() {
        [] => Profile::names().into_iter().map(str::to_owned).collect(),
        asked => asked.to_vec(),
    };
    let profiles = names.iter().map(|name| experiment::profile(name)).collect::<Result<Vec<_>>>()?;
    let puts = experiment::calibration_puts(args.count);
    let progress = Progress::of_phases("calibrate", profiles.len() as u64 * puts);
    let run = Run { count: args.count, seed: args.seed, interrupt, progress: &progress };
    let mut kept = Thresholds::load()?;
    let mut table = Table::new(&["profile", "below", "tau"]);
    for profile in &profiles {
        progress.begin(&format!("calibrate {}", profile.name), puts);
        for threshold in experiment::calibrate(profile, profile.name, &run)? {
            kept.keep(threshold.clone());
            if args.json {
                print_json(out, &threshold)?;
            }
            let tau = threshold.tau_bytes.map_or("over 8 KiB".to_owned(), |bytes| format!("{bytes} B"));
            table.push(vec![threshold.setting, threshold.below, tau]);
        }
    }
    drop(progress);
    let path = kept.save()?;
    if !args.json {
        put!(out, "{table}kept in {}\n", path.display())?;
    }
    Ok(())
}
