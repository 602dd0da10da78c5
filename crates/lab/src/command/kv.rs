//! `byway-lab kv`: Byway beside embedded stores.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use byway_console::files;
use byway_console::terminal::{Interrupt, Progress, print_json};
use byway_figure::Source;
use clap::ValueEnum;

use super::report::write_downloads;
use crate::args::KvBench;
use crate::contest::{Contest, Engine, KvRow, Op, Plan, page, table};

/// Longest value that is compared.
const VALUE_MAX_BYTES: u32 = 1 << 20;
/// Values that are compared where none are named.
const VALUES_BYTES: [u32; 3] = [32, 128, 1024];
/// Records of YCSB.
const YCSB_BYTES: u32 = 1024;
/// Most client threads.
const THREADS_MAX: u32 = 64;

/// Runs the bench.
///
/// # Errors
/// A plan that cannot be, what an engine says, or an interruption. The stores are removed in any case.
pub fn run(args: &KvBench, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let values = values(args)?;
    let plan = plan(args)?;
    if args.bars {
        return super::bars::run(&plan, args.json, out, interrupt);
    }
    let before = args.compare.as_deref().map(earlier).transpose()?;
    let total = values.iter().map(|&value_bytes| plan.operations_of_all(value_bytes)).sum();
    let progress = Progress::new("kv", total);
    let mut rows = Vec::new();
    for &value_bytes in &values {
        let measured = Contest::new(&plan, value_bytes, interrupt, &progress).run()?;
        if args.json {
            measured.iter().try_for_each(|row| print_json(out, row))?;
            out.flush()?;
        }
        rows.extend(measured);
    }
    drop(progress);
    if !args.json {
        write!(out, "{}", table(&rows))?;
    }
    match &args.report {
        Some(dir) => report(dir, &plan, &rows, &before.unwrap_or_default()),
        None => Ok(()),
    }
}

/// Rows of an earlier run: `kv.json` of its folder, or a file of JSON lines, which may begin with a line about the run.
fn earlier(path: &Path) -> Result<Vec<KvRow>> {
    let file = if path.is_dir() { path.join("kv.json") } else { path.to_owned() };
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty()).enumerate();
    let parsed = lines.map(|(place, line)| (place, serde_json::from_str(line)));
    let rows = parsed.filter(|(place, row)| *place > 0 || row.is_ok());
    let rows: Result<Vec<KvRow>, serde_json::Error> = rows.map(|(_, row)| row).collect();
    let rows = rows.with_context(|| format!("{} has no rows of byway-lab kv --json", file.display()))?;
    ensure!(!rows.is_empty(), "{} has no rows of byway-lab kv --json", file.display());
    Ok(rows)
}

/// Writes the page, its figures and the rows.
fn report(dir: &Path, plan: &Plan, rows: &[KvRow], before: &[KvRow]) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = format!("byway-lab {}", arguments.join(" "));
    let source = Source::of_this_machine(command).with_seed(plan.seed);
    let (html, downloads) = page(rows, before, &source)?;
    let mut lines = Vec::new();
    rows.iter().try_for_each(|row| print_json(&mut lines, row))?;
    files::replace(&dir.join("kv.html"), html.as_bytes())?;
    files::replace(&dir.join("kv.json"), &lines)?;
    write_downloads(dir, &downloads)?;
    note!("byway-lab: written {}", dir.join("kv.html").display());
    Ok(())
}

fn plan(args: &KvBench) -> Result<Plan> {
    ensure!(args.count > 0 && args.passes > 0, "a bench of 0 operations measures nothing");
    ensure!(
        (1..=THREADS_MAX).contains(&args.threads),
        "from 1 to {THREADS_MAX} client threads can be compared"
    );
    let mut engines = vec![Engine::Byway];
    engines.extend(&args.vs);
    engines.sort_unstable();
    engines.dedup();
    engines.retain(|engine| {
        let usable = engine.check();
        if let Err(error) = &usable {
            note!("byway-lab: {error:#}; rows of {} are left out", engine.name());
        }
        usable.is_ok()
    });
    Ok(Plan {
        engines,
        ops: ops(args)?,
        count: args.count,
        passes: args.passes,
        threads: args.threads,
        seed: args.seed,
        dir: args.dir.clone(),
        options: args.options.clone(),
    })
}

/// The lengths of values.
fn values(args: &KvBench) -> Result<Vec<u32>> {
    let values = match args.values.as_slice() {
        [] if !args.ycsb.is_empty() && args.ops.is_empty() => vec![YCSB_BYTES],
        [] => VALUES_BYTES.to_vec(),
        asked => asked.to_vec(),
    };
    let longest = values.iter().copied().max().unwrap_or(0);
    ensure!(
        longest <= VALUE_MAX_BYTES,
        "a value of {longest} bytes is over the limit of {VALUE_MAX_BYTES} bytes"
    );
    Ok(values)
}

/// The kinds of work, in their order.
fn ops(args: &KvBench) -> Result<Vec<Op>> {
    let fits = |op: &Op| args.threads == 1 || op.takes_threads();
    let mut ops: Vec<Op> = match args.ops.as_slice() {
        [] if !args.ycsb.is_empty() => Vec::new(),
        [] => Op::value_variants().iter().copied().filter(fits).collect(),
        asked => asked.to_vec(),
    };
    ops.extend(args.ycsb.iter().map(|&letter| Op::Ycsb(letter)));
    ops.sort_unstable();
    ops.dedup();
    if let Some(op) = ops.iter().find(|op| !fits(op)) {
        anyhow::bail!("{} is done by one client thread only; several do put and get", op.name());
    }
    Ok(ops)
}
