//! `byway-lab workload`: the papers' workloads, by transfer method.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use byway_console::table::{self, Table};
use byway_console::terminal::{Interrupt, Progress, print_json};
use byway_measure::experiment::{self, Run};
use byway_measure::rows::WorkloadRow;
use byway_measure::setting::Setting;

use crate::args::WorkloadBench;

/// Runs the bench.
///
/// # Errors
/// A setting that the device refuses, a put that fails, or an interruption.
pub fn run(args: &WorkloadBench, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    ensure!(args.count > 0, "a bench of 0 puts measures nothing");
    let runs = args.workloads.len() as u64 * args.methods.len() as u64;
    let progress = Progress::new("workload", runs * args.count);
    let mut table = Table::new(&HEADINGS);
    for &workload in &args.workloads {
        for &way in &args.methods {
            progress.say(&format!("{workload} by {}", way.name()));
            let run = Run { count: args.count, seed: args.common.seed, interrupt, progress: &progress };
            let mut setting = Setting::of_arguments(&args.common, args.flash, way)?;
            setting.packing = args.packing;
            let row = experiment::workload(&setting, workload, &run)
                .with_context(|| format!("workload {workload} by {}", way.name()))?;
            if args.common.json {
                print_json(out, &row)?;
            } else {
                table.push(cells(&row));
            }
        }
    }
    drop(progress);
    put!(out, "{}", if args.common.json { String::new() } else { table.to_string() })?;
    Ok(())
}

const HEADINGS: [&str; 9] = [
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

fn cells(row: &WorkloadRow) -> Vec<String> {
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
