//! One small write or put, from call to completion.
//!
//! Rounds of calls take turns over the cases, so that a busy moment of the machine falls on all of them.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use byway_benches::case::{CASES, Caller, Case};
use byway_benches::paired::{quantile, time};
use byway_benches::results;
use clap::Parser;
use serde::Serialize;

#[derive(Parser)]
#[command(about = "Times one small write or put, from call to completion")]
struct Arguments {
    /// Only cases whose name has this in it.
    only: Option<String>,
    /// Rounds over all cases.
    #[arg(long, default_value_t = 401)]
    rounds: usize,
    /// Calls of one case in a round.
    #[arg(long, default_value_t = 5000)]
    calls: u32,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Latency {
    case: &'static str,
    rounds: usize,
    calls: u32,
    ns_median: f64,
    ns_best: f64,
    ns_worst_tenth: f64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let wanted = |case: &&Case| arguments.only.as_ref().is_none_or(|only| case.name.contains(only.as_str()));
    let mut running: Vec<(Case, Caller, Vec<f64>)> = Vec::new();
    for case in CASES.iter().filter(wanted) {
        let mut caller = case.open()?;
        caller.warm_up()?;
        running.push((*case, caller, Vec::new()));
    }
    for _ in 0..arguments.rounds {
        for (_, caller, times) in &mut running {
            times.push(time(arguments.calls, |calls| caller.call(calls))?);
        }
    }
    let rows: Vec<Latency> = running.iter().map(|(case, _, times)| row(&arguments, *case, times)).collect();
    for row in &rows {
        let (median, best, worst) = (row.ns_median, row.ns_best, row.ns_worst_tenth);
        println!("{:30} {median:7.1} ns   (best round {best:.1}, worst tenth from {worst:.1})", row.case);
    }
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

fn row(arguments: &Arguments, case: Case, times: &[f64]) -> Latency {
    Latency {
        case: case.name,
        rounds: arguments.rounds,
        calls: arguments.calls,
        ns_median: quantile(times, 0.5),
        ns_best: quantile(times, 0.0),
        ns_worst_tenth: quantile(times, 0.9),
    }
}
