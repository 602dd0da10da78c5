//! `byway bench`: what puts cost, by transfer method.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use byway_console::table::{self, Table};
use byway_console::terminal::{Interrupt, Progress, print_json};
use byway_measure::experiment::{self, Run};
use byway_measure::rows::TransferRow;
use byway_measure::setting::Setting;

use crate::args::{BenchCommand, Transfer};
use crate::origin::Origin;

/// Largest value a device takes.
const VALUE_MAX_BYTES: u32 = 16 << 20;

/// Runs one of the benches.
///
/// # Errors
/// When the setting cannot be, the device fails, or the work is interrupted.
pub fn run(command: &BenchCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    match command {
        BenchCommand::Transfer(args) => transfer(args, out, interrupt),
        BenchCommand::Traffic(args) => super::bench_traffic::run(args, out, interrupt),
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
    if args.common.json {
        print_json(out, &Origin::here())?;
    }
    for &size_bytes in &args.sizes {
        for &way in &args.methods {
            progress.say(&format!("{} {size_bytes} B", way.name()));
            let run = Run { count: args.count, seed: args.common.seed, interrupt, progress: &progress };
            let row = experiment::transfer(
                &Setting::of_arguments(&args.common, args.flash, way)?,
                size_bytes,
                &run,
            )
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
