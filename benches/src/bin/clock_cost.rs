//! What a clock that is off costs: this program against one built without any clock (`--cfg byway_without_clock`), their
//! slices by turns. `benches/clock.sh` builds both.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use byway_benches::case::Case;
use byway_benches::paired::{Compared, alternate, time};
use byway_benches::results;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Compares this build, its clock off, with one that has no clock")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Makes a slice of calls for each line on its input.
    Serve {
        /// The case.
        case: String,
        /// Calls of a slice.
        calls: u32,
    },
    /// Compares two builds of this program.
    Compare {
        /// The program built without a clock.
        without: PathBuf,
        /// Pairs of slices for each case.
        #[arg(long, default_value_t = 1001)]
        pairs: usize,
        /// Calls of a slice.
        #[arg(long, default_value_t = 4000)]
        calls: u32,
        /// Also writes the results to this file, one JSON object a line.
        #[arg(long)]
        json: Option<PathBuf>,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().what {
        What::Serve { case, calls } => serve(Case::find(&case)?, calls),
        What::Compare { without, pairs, calls, json } => {
            let with = std::env::current_exe()?;
            let mut rows = Vec::new();
            for case in ["nvm-write-512-inline", "kv-put-32-hybrid"] {
                rows.push(compare(case, [&without, &with], pairs, calls)?);
            }
            // What of a ratio is where a program happens to lie in memory.
            let mut control = compare("kv-put-32-hybrid", [&with, &with], pairs, calls)?;
            control.what.push_str(", with against with");
            rows.push(control);
            rows.iter().for_each(|row| println!("{row}"));
            json.map_or(Ok(()), |path| results::keep(&path, &rows))
        }
    }
}

fn serve(case: Case, calls: u32) -> anyhow::Result<()> {
    let mut caller = case.open()?;
    caller.warm_up()?;
    for line in std::io::stdin().lines() {
        line?;
        println!("{}", time(calls, |calls| caller.call(calls))?);
    }
    Ok(())
}

fn compare(case: &str, programs: [&Path; 2], pairs: usize, calls: u32) -> anyhow::Result<Compared> {
    let [mut without, mut with] =
        [Server::start(programs[0], case, calls)?, Server::start(programs[1], case, calls)?];
    let pairs = alternate(pairs, |has_clock| if has_clock { with.slice() } else { without.slice() })?;
    Ok(Compared::of(case, calls, &pairs))
}

/// One of the two programs, waiting for its turn.
struct Server {
    program: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    fn start(program: &Path, case: &str, calls: u32) -> anyhow::Result<Self> {
        let mut program = Command::new(program)
            .args(["serve", case, &calls.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let asks = program.stdin.take();
        let answers = program.stdout.take().ok_or_else(|| anyhow::anyhow!("the program has no output"))?;
        Ok(Self { program, asks, answers: BufReader::new(answers) })
    }

    fn slice(&mut self) -> anyhow::Result<f64> {
        let asks = self.asks.as_mut().ok_or_else(|| anyhow::anyhow!("the program takes no input"))?;
        writeln!(asks, "next")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        line.trim().parse().map_err(|_| anyhow::anyhow!("the program ended early"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.asks = None;
        let _ = self.program.wait();
    }
}
