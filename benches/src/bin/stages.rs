//! Instructions of each stage of a put and of an inline write, counted by callgrind.
//!
//! `stages` runs itself under `valgrind --tool=callgrind` once for each case and attributes every instruction to a
//! stage by the chain of inlined functions it stands in, so nothing is kept from inlining for the sake of the count.
//! Counts are exact and repeat; how long a stage takes they do not say.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::Command;

use byway_benches::callgrind::Profile;
use byway_benches::case::{CASES, Case};
use byway_benches::paired::time;
use byway_benches::results;
use byway_benches::stage::{self, Budget, STAGES};
use clap::Parser;

/// Calls that are counted.
const CALLS: u32 = 4000;

#[derive(Parser)]
#[command(about = "Counts the instructions of each stage of a call")]
struct Arguments {
    /// Only cases whose name has this in it.
    only: Option<String>,
    /// Also prints the instructions of each source line, dearest first.
    #[arg(long)]
    lines: bool,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Fails if a stage takes a tenth more than these results say it did.
    #[arg(long)]
    budget: Option<PathBuf>,
    /// Makes so many calls of the case and prints the time of one: to run under callgrind, or a profiler.
    #[arg(long, requires = "only")]
    run: Option<u32>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let (Some(calls), Some(name)) = (arguments.run, &arguments.only) {
        return run(Case::find(name)?, calls);
    }
    let wanted = |case: &&Case| arguments.only.as_ref().is_none_or(|only| case.name.contains(only.as_str()));
    let mut budgets = Vec::new();
    for case in CASES.iter().filter(wanted) {
        let profile = count(*case)?;
        if arguments.lines {
            print!("{}", stage::lines(&profile, CALLS));
        }
        budgets.push(stage::budget(case.name, &profile, CALLS));
    }
    print_table(&budgets);
    if let Some(path) = &arguments.budget {
        keep_within(&budgets, &std::fs::read_to_string(path)?)?;
    }
    let rows: Vec<_> = budgets.iter().map(Budget::row).collect();
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

/// Compares with the rows of an earlier run.
fn keep_within(budgets: &[Budget], earlier: &str) -> anyhow::Result<()> {
    let rows = earlier.lines().map(serde_json::from_str).collect::<Result<Vec<serde_json::Value>, _>>()?;
    let mut over = Vec::new();
    for budget in budgets {
        let Some(row) = rows.iter().find(|row| row["case"] == budget.case.as_str()) else { continue };
        for (stage, now) in STAGES.iter().zip(budget.stages) {
            let then = row[*stage].as_f64().unwrap_or(f64::INFINITY);
            // Where a compiler puts a line that two stages share is not worth a failure.
            if now > then * 1.1 + 20.0 {
                over.push(format!("{} {stage}: {now:.0} instructions, {then:.0} before", budget.case));
            }
        }
    }
    anyhow::ensure!(over.is_empty(), "over the budget:\n{}", over.join("\n"));
    Ok(())
}

fn print_table(budgets: &[Budget]) {
    print!("{:30}", "instructions of one call");
    STAGES.iter().for_each(|stage| print!("{stage:>10}"));
    println!("{:>10}", "total");
    for budget in budgets {
        print!("{:30}", budget.case);
        budget.stages.iter().for_each(|instructions| print!("{instructions:>10.0}"));
        println!("{:>10.0}", budget.total());
    }
}

/// Runs a case under callgrind, which counts inside of the functions that make the measured calls.
fn count(case: Case) -> anyhow::Result<Profile> {
    let out = std::env::temp_dir().join(format!("byway-stages-{}-{}.out", std::process::id(), case.name));
    let program = std::env::current_exe()?;
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--compress-strings=no"])
        .args(["--compress-pos=no", "--collect-atstart=no", "--toggle-collect=*stages::run_counted*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(&program)
        .args([case.name, "--run", &CALLS.to_string()])
        .output();
    let ran =
        ran.map_err(|e| anyhow::anyhow!("valgrind cannot be run ({e}); install the package `valgrind`"))?;
    anyhow::ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(&out)?;
    std::fs::remove_file(&out)?;
    Profile::parse(&text, &program)
}

fn run(case: Case, calls: u32) -> anyhow::Result<()> {
    let mut caller = case.open()?;
    caller.warm_up()?;
    let ns = time(calls, |calls| run_counted(&mut caller, calls))?;
    println!("{ns:.1} ns a call");
    // Closing writes what is in RAM to the media, which is no part of a call.
    std::process::exit(0)
}

#[inline(never)]
fn run_counted(caller: &mut byway_benches::case::Caller, calls: u32) -> byway::Result<()> {
    caller.call(calls)
}
