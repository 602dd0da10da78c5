//! `byway tdm bench`: a write and a sync of it, by the kernel alone and under the library.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use byway_console::table::{Table, time};
use byway_console::terminal::{Interrupt, Progress, print_json};
use byway_measure::rows::percentiles;
use serde::Serialize;

use super::library::PRELOAD;
use super::round::{CUT_SHORT, Round};
use super::{ask, library, words};
use crate::args::TdmBench;

/// Measures, by turns.
///
/// # Errors
/// When there is no library or no daemon; those of a round.
pub fn run(args: &TdmBench, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    ensure!(
        !library::IS_STATIC,
        "this byway is linked statically, so that the library cannot be loaded into it: measure by the byway of a package or of the wheel"
    );
    let file = library::find(&args.library)?;
    let region = ask::report(&ask::connect(&args.socket.path()?)?)?.region;
    let ways = [Way { name: "plain", library: None }, Way { name: "library", library: Some(&file) }];
    let progress = Progress::new("tdm bench", u64::from(args.rounds) * 2 * args.sizes.len() as u64);
    let mut rows = Vec::new();
    for &size in &args.sizes {
        let mut all: [Vec<Round>; 2] = Default::default();
        for _ in 0..args.rounds {
            for (way, rounds) in ways.iter().zip(&mut all) {
                interrupt.checked(CUT_SHORT)?;
                let round = way.round(args, size);
                // A terminal interrupts the round as well, whose end says less.
                interrupt.checked(CUT_SHORT)?;
                rounds.push(round?);
                progress.advance(1);
            }
        }
        rows.extend(ways.iter().zip(&all).filter_map(|(way, rounds)| Row::of(way.name, size, rounds)));
    }
    drop(progress);
    if args.json {
        return Ok(rows.iter().try_for_each(|row| print_json(out, row))?);
    }
    put!(out, "{}\n{}\n{}", words::region(&region), args.folder.display(), table(&rows))?;
    rows.chunks(2).try_for_each(|pair| put!(out, "{}\n", compared(pair)))?;
    Ok(())
}

/// A way in which writes are served.
struct Way<'a> {
    name: &'static str,
    library: Option<&'a Path>,
}

impl Way<'_> {
    fn round(&self, args: &TdmBench, size: u32) -> Result<Round> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "tdm",
            "bench",
            "--round",
            "--sizes",
            &size.to_string(),
            "--count",
            &args.count.to_string(),
        ]);
        command.arg("--socket").arg(args.socket.path()?).arg(std::path::absolute(&args.folder)?);
        match self.library {
            Some(library) => library::serve_by(&mut command, library, &args.socket.path()?),
            None => drop(command.env_remove(PRELOAD)),
        }
        let output = command.stderr(Stdio::inherit()).output().context("start a round")?;
        ensure!(output.status.success(), "a round of {} ended with {}", self.name, output.status);
        serde_json::from_slice(&output.stdout).context("a round printed something else than its times")
    }
}

/// Percentiles of some times.
#[derive(Debug, Clone, Copy, Serialize)]
struct Times {
    p50_ns: f64,
    p99_ns: f64,
}

impl Times {
    fn of(times_ns: impl Iterator<Item = u64>) -> Option<Self> {
        let mut times: Vec<f64> = times_ns.map(|ns| ns as f64).collect();
        percentiles(&mut times).map(|(p50_ns, p99_ns)| Self { p50_ns, p99_ns })
    }

    fn cells(self) -> [String; 2] {
        [time(Some(self.p50_ns)), time(Some(self.p99_ns))]
    }
}

/// Result of one way with writes of one size.
#[derive(Debug, Serialize)]
struct Row {
    path: &'static str,
    size: u32,
    count: usize,
    level: String,
    why: String,
    write: Times,
    sync: Times,
    both: Times,
}

impl Row {
    /// Of all rounds; none where nothing was measured.
    fn of(path: &'static str, size: u32, rounds: &[Round]) -> Option<Self> {
        let writes = || rounds.iter().flat_map(|round| &round.write_ns).copied();
        let syncs = || rounds.iter().flat_map(|round| &round.sync_ns).copied();
        // One round that was not served says more than others that were.
        let served = rounds.iter().find(|round| round.level == "PASS").or(rounds.last())?;
        Some(Self {
            path,
            size,
            count: writes().count(),
            level: served.level.clone(),
            why: served.why.clone(),
            write: Times::of(writes())?,
            sync: Times::of(syncs())?,
            both: Times::of(writes().zip(syncs()).map(|(write, sync)| write + sync))?,
        })
    }
}

fn table(rows: &[Row]) -> Table {
    let times = ["write p50", "p99", "sync p50", "p99", "both p50", "p99"];
    let mut table = Table::new(&[&["path", "level", "bytes", "count"], &times[..]].concat());
    for row in rows {
        let mut cells =
            vec![row.path.to_owned(), row.level.clone(), row.size.to_string(), row.count.to_string()];
        cells.extend([row.write, row.sync, row.both].into_iter().flat_map(Times::cells));
        table.push(cells);
    }
    table
}

/// Comparison of the two ways.
fn compared(pair: &[Row]) -> String {
    let [plain, library] = pair else { return String::new() };
    if library.level == "PASS" {
        return format!("{} bytes: the library did not serve: {}", library.size, library.why);
    }
    let ratio = plain.both.p50_ns / library.both.p50_ns;
    format!("{} bytes: {ratio:.1} times as quick under the library, by the median of both", library.size)
}
