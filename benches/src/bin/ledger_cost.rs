//! What the ledger costs: the same device, its ledger off and on by turns.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use byway_benches::case::{Caller, Case};
use byway_benches::paired::{Compared, alternate, time};
use byway_benches::results;
use clap::Parser;

/// A comparison of the ledger with itself, switched as often: what of a ratio is noise and switching.
const CONTROL: &str = "off against off";

#[derive(Parser)]
#[command(about = "Compares calls with the ledger off and on, by turns on one device")]
struct Arguments {
    /// Pairs of slices for each case.
    #[arg(long, default_value_t = 1001)]
    pairs: usize,
    /// Calls of a slice.
    #[arg(long, default_value_t = 4000)]
    calls: u32,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut rows = Vec::new();
    for name in ["kv-put-32-hybrid", "kv-put-32-inline", "kv-put-32-prp", "nvm-write-512-inline"] {
        let mut caller = Case::find(name)?.open()?;
        caller.warm_up()?;
        rows.push(compare(&arguments, &mut caller, name, true)?);
    }
    let mut caller = Case::find("kv-put-32-hybrid")?.open()?;
    caller.warm_up()?;
    rows.push(compare(&arguments, &mut caller, &format!("kv-put-32-hybrid, {CONTROL}"), false)?);
    rows.iter().for_each(|row| println!("{row}"));
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

fn compare(arguments: &Arguments, caller: &mut Caller, what: &str, on: bool) -> anyhow::Result<Compared> {
    let pairs = alternate(arguments.pairs, |with| {
        caller.device().set_ledger(with && on);
        time(arguments.calls, |calls| caller.call(calls))
    })?;
    Ok(Compared::of(what, arguments.calls, &pairs))
}
