//! The command tree of `byway-lab`. Help, man pages and completions are all made from it.

use std::path::PathBuf;
use std::sync::LazyLock;

use byway::Packing;
use byway_console::generate::Shell;
use byway_console::{number, size};
use byway_measure::workload::Workload;
use byway_measure::{Common, Switch, Way};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::contest::{Engine, Letter, Op};
use crate::data::Set;
use crate::endurance::skew::Skew;
use crate::report::account::Account;

/// Experiments with Byway: beside other key-value stores, over a device's life, and those of the papers.
#[derive(Debug, Parser)]
#[command(name = "byway-lab", version = version(), propagate_version = true, after_help = AFTER_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The version that `-V` prints, with the commit where the build knows it.
fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| byway_figure::version_with_commit(env!("CARGO_PKG_VERSION")));
    &VERSION
}

const AFTER_HELP: &str = "\
Examples:
  byway-lab kv --vs fjall,lmdb --count 100000
  byway-lab report out

Exit codes: 0 done, 2 an error, 130 interrupted. Sizes: a number of bytes, or one with K, M, G or T, such as 64M, 64MB, \
64MiB or 1.5G: all are powers of 1024.";

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The papers' workloads: A:SIZE, B, C, D and M.
    #[command(after_help = "\
Examples:
  byway-lab workload --workloads M --methods prp,piggyback,adaptive --count 100000
  byway-lab workload --workloads A:32,C --profile gen5x8-cxl --methods cxl --json")]
    Workload(WorkloadBench),
    /// Byway beside embedded stores: puts, gets, listings, mixes, with a sync after each put and without.
    #[command(after_help = "\
Examples:
  byway-lab kv
  byway-lab kv --vs fjall,lmdb --count 100000 --values 32,1K --ops put,get --json
  byway-lab kv --vs lmdb,rocksdb --ops put,get --threads 2
  byway-lab kv --ycsb A,B,C,D,E,F
  byway-lab kv --vs lmdb --count 100000 --report out
  byway-lab kv --vs lmdb --count 100000 --report now --compare out
  byway-lab kv --bars

One process, the engines by turns in short rounds; after each, what still works in the background is waited for and \
charged to the processor time of its engine. Every engine keeps its files in the same folder, uncompressed, and does \
the same steps. A put that returned survives the process, in the flush rows the loss of power.")]
    Kv(KvBench),
    /// A device filled and then overwritten at random: write amplification by cause, wear and throughput, beside a
    /// simple model of greedy garbage collection.
    #[command(after_help = "\
Examples:
  byway-lab endurance
  byway-lab endurance --size 2G --overwrites 20 --gc cost-benefit --json
  byway-lab endurance --skew 80/20
  byway-lab endurance --kv --value 1K")]
    Endurance(EnduranceBench),
    /// Find from which size on prp is as quick as piggyback and cxl, and keep it for the adaptive method.
    #[command(after_help = "\
Examples:
  byway-lab calibrate
  byway-lab calibrate --profile cosmos --json")]
    Calibrate(Calibrate),
    /// Fit the times that no source gives to the papers' claims of time: which claims hold together, which contradict each other, and
    /// what follows for the papers' card.
    #[command(after_help = "\
Examples:
  byway-lab fit
  byway-lab fit --report out
  byway-lab fit --json

Each claim is a range of a ratio of two modelled times, and each time a linear form of the parameters, so that linear programs say \
what holds together. The profile cosmos-fitted has what comes out. Nothing is measured on this machine.")]
    Fit(FitArgs),
    /// Generate a data set of computational storage as a Parquet file: simulations of LANL, TPC-H.
    #[command(after_help = "\
Examples:
  byway-lab data laghos laghos.parquet
  byway-lab data wildfire wildfire.parquet --rows 1000000 --seed 7
  byway-lab data tpch-lineitem lineitem.parquet --scale 0.1 --json

The simulations' values are made up: schema, layout, order, ranges and sizes are those of the published sets, as far as they are \
known. The same arguments give the same bytes on every machine. FILE appears once it is whole.")]
    Data(DataArgs),
    /// Run the papers' experiments and write report.html.
    Report(Report),
    /// Draw a figure of `byway bench transfer`; print man pages, shell completions or the reference of commands.
    Gen(Gen),
}

/// `byway-lab workload`.
#[derive(Debug, Args)]
pub struct WorkloadBench {
    #[command(flatten)]
    pub common: Common,
    /// Workloads.
    #[arg(long, value_delimiter = ',', value_name = "WORKLOADS", default_value = "B,C,D,M")]
    pub workloads: Vec<Workload>,
    /// Transfer methods; bulk and byte-store are comparators.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "METHODS",
        default_value = "prp,piggyback,inline,hybrid,cxl,adaptive"
    )]
    pub methods: Vec<Way>,
    /// Puts of each workload by each method.
    #[arg(long, default_value_t = 1_000_000, value_parser = number::parse::<u64>)]
    pub count: u64,
    /// Whether the NAND array takes time.
    #[arg(long, default_value = "on")]
    pub flash: Switch,
    /// How values are packed into flash pages: all, selective or selective-backfill.
    #[arg(long, default_value = "selective-backfill", value_name = "PACKING")]
    pub packing: Packing,
}

/// `byway-lab kv`.
#[derive(Debug, Args)]
pub struct KvBench {
    /// Stores to compare with; byway itself is always there, and named alone runs alone.
    #[arg(long, value_delimiter = ',', value_name = "ENGINES", default_value = "fjall,lmdb,rocksdb")]
    pub vs: Vec<Engine>,
    /// Keys: 16 random bytes each.
    #[arg(long, default_value_t = 1_000_000, value_parser = number::parse::<u64>)]
    pub count: u64,
    /// Value sizes [default: 32,128,1K, or 1K for YCSB alone].
    #[arg(long, value_delimiter = ',', value_parser = size::parse_u32, value_name = "SIZES")]
    pub values: Vec<u32>,
    /// Kinds of work [default: all but YCSB; put and get with several threads].
    #[arg(long, value_delimiter = ',', value_name = "OPS")]
    pub ops: Vec<Op>,
    /// Workloads of YCSB, A to F; without --ops alone.
    #[arg(long, value_delimiter = ',', value_name = "LETTERS")]
    pub ycsb: Vec<Letter>,
    /// Measure the goals of speed: two threads beside one, and Byway beside the best of its peers. One row a goal.
    #[arg(long, conflicts_with_all = ["ops", "ycsb", "values", "threads"])]
    pub bars: bool,
    /// Passes, each with new stores; rates are medians of passes.
    #[arg(long, default_value_t = 3, value_parser = number::parse::<u32>)]
    pub passes: u32,
    /// Client threads, each with a queue or session of its own.
    #[arg(long, visible_alias = "queues", default_value_t = 1, value_parser = number::parse::<u32>)]
    pub threads: u32,
    /// Folder in which the stores are made and removed.
    #[arg(long, default_value = ".", value_name = "PATH")]
    pub dir: PathBuf,
    /// More options of Byway's URI, as transfer=inline&ledger=off.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "OPTIONS")]
    pub options: String,
    /// Decides keys, values and order.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Write kv.html, kv.json and a folder of figures (SVG, CSV, PDF) there.
    #[arg(long, value_name = "DIR", conflicts_with = "bars")]
    pub report: Option<PathBuf>,
    /// An earlier run that the report sets beside this one: its folder, or its rows as JSON lines.
    #[arg(long, value_name = "PATH", requires = "report")]
    pub compare: Option<PathBuf>,
    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// `byway-lab endurance`.
#[derive(Debug, Args)]
pub struct EnduranceBench {
    /// Capacity of the device.
    #[arg(long, default_value = "1G", value_parser = size::parse, value_name = "SIZE")]
    pub size: u64,
    /// Profile of the device.
    #[arg(long, default_value = "gen4x4", value_name = "PROFILE")]
    pub profile: String,
    /// Part of the capacity that is filled, in percent.
    #[arg(long, default_value_t = 95, value_name = "PERCENT", value_parser = number::parse::<u32>)]
    pub fill: u32,
    /// Times that as much as was filled is overwritten, each place as likely as any other.
    #[arg(long, default_value_t = 5, value_parser = number::parse::<u32>)]
    pub overwrites: u32,
    /// Overwrite some places more often: percent of writes and of the places they go to, as 80/20.
    #[arg(long, value_name = "WRITES/PLACES")]
    pub skew: Option<Skew>,
    /// Policy of garbage collection: greedy or cost-benefit.
    #[arg(long, default_value = "greedy", value_name = "POLICY")]
    pub gc: String,
    /// Flash beyond the size, in percent of it.
    #[arg(long, default_value_t = byway::DEFAULT_OVER_PROVISIONING_PERCENT, value_name = "PERCENT",
          value_parser = clap::value_parser!(u32).range(..=1000))]
    pub over_provisioning: u32,
    /// Write pairs to a key-value namespace, not blocks of 4 KiB.
    #[arg(long)]
    pub kv: bool,
    /// Threads that do upkeep ahead of writes: off, idle (those that poll a queue without commands), or thread (one of the device's
    /// own too).
    #[arg(long, default_value = "off", value_name = "THREADS")]
    pub upkeep: String,
    /// Queues that are polled by a thread each, without commands.
    #[arg(long, default_value_t = 0, value_name = "COUNT", value_parser = number::parse::<u32>)]
    pub idle_queues: u32,
    /// Bytes of a value, with --kv.
    #[arg(long, requires = "kv", default_value = "1K", value_parser = size::parse_u32, value_name = "SIZE")]
    pub value: u32,
    /// Folder in which the image is made and removed.
    #[arg(long, default_value = ".", value_name = "PATH")]
    pub dir: PathBuf,
    /// Decides the order of writes.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Print one JSON object a pass, and one of the whole.
    #[arg(long)]
    pub json: bool,
}

/// `byway-lab calibrate`.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// Profiles [default: every one].
    #[arg(long, value_delimiter = ',', value_name = "PROFILES")]
    pub profile: Vec<String>,
    /// Puts of each size by each method.
    #[arg(long, default_value_t = 200, value_parser = number::parse::<u64>)]
    pub count: u64,
    /// Decides values.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// `byway-lab fit`.
#[derive(Debug, Args)]
pub struct FitArgs {
    /// Write fit.html, fit.json and a folder of figures (SVG, CSV, PDF) there.
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Print one JSON object a line: claims, parameters, parts, and the whole.
    #[arg(long)]
    pub json: bool,
}

/// `byway-lab data`.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// The set.
    #[arg(value_enum)]
    pub set: Set,
    /// File that is written; an earlier one of that name is replaced.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Rows [default: those of the published set]. Fewer are the first of laghos and vpic, an even sample of the others.
    #[arg(long, value_name = "COUNT", value_parser = number::parse::<u64>)]
    pub rows: Option<u64>,
    /// Scale factor of TPC-H, from 0.001 to 100 [default: 1].
    #[arg(long, value_name = "FACTOR")]
    pub scale: Option<f64>,
    /// Decides the values of simulations [default: 0].
    #[arg(long, value_parser = number::parse::<u64>)]
    pub seed: Option<u64>,
    /// Print one JSON object: rows, bytes, row groups, columns, predicates.
    #[arg(long)]
    pub json: bool,
}

/// `byway-lab report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway-lab report out
  byway-lab report out --full
  byway-lab report out --records /usr/share/unicode/UnicodeData.txt")]
pub struct Report {
    /// Where report.html, report.json and a folder of figures (SVG, CSV, PDF) are written.
    pub dir: PathBuf,
    /// A million puts of each workload, as the papers had, instead of 100,000.
    #[arg(long, conflicts_with = "count")]
    pub full: bool,
    /// Puts of each workload.
    #[arg(long, value_name = "COUNT", value_parser = number::parse::<u64>)]
    pub count: Option<u64>,
    /// Import these records (UnicodeData.txt) by each transfer method, reopen, read back and compare.
    #[arg(long, value_name = "PATH")]
    pub records: Option<PathBuf>,
    /// Decides keys, sizes and values.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
}

/// `byway-lab gen`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway bench transfer --sizes 8,64,512 --methods prp,inline --json | byway-lab gen figure - > wire.svg
  byway-lab gen man --dir man
  byway-lab gen completions bash > /etc/bash_completion.d/byway-lab")]
pub struct Gen {
    /// What to print.
    #[command(subcommand)]
    pub what: GenWhat,
}

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FigureForm {
    /// A vector image for browsers.
    Svg,
    /// A page for papers.
    Pdf,
    /// The values.
    Csv,
}

/// What is made from measurements, or from the command tree.
#[derive(Debug, Subcommand)]
pub enum GenWhat {
    /// The man page of `byway-lab`, or a page for each command into a folder.
    #[command(after_help = "\
Examples:
  byway-lab gen man | man -l -
  byway-lab gen man --dir /usr/local/share/man/man1")]
    Man {
        /// A folder for all pages, made if it is not there.
        #[arg(long, value_name = "PATH")]
        dir: Option<PathBuf>,
    },
    /// The reference of all commands, as Markdown.
    #[command(after_help = "\
Example:
  byway-lab gen reference > docs/reference/lab-commands.md")]
    Reference,
    /// A figure: bytes of a put by value size, a line for each method of the rows.
    #[command(after_help = "\
Examples:
  byway-lab gen figure benches/results/wire-bytes.json > docs/images/wire-bytes.svg
  byway bench transfer --sizes 8,64,512 --methods prp,inline --json | byway-lab gen figure - > wire.svg
  byway-lab gen figure rows.json --account payload --form pdf > payload.pdf

More figures, as SVG, CSV and PDF: byway-lab report, byway-lab kv --report.")]
    Figure {
        /// Rows of `byway bench transfer --json`; the line about the run before them may be missing; - is standard input.
        #[arg(value_name = "FILE")]
        results: PathBuf,
        /// By which account bytes are counted; that of the papers is payload, or one of the next two.
        #[arg(long, value_enum, default_value_t = Account::Wire)]
        account: Account,
        /// How it is written.
        #[arg(long, value_enum, default_value_t = FigureForm::Svg)]
        form: FigureForm,
    },
    /// Completions for a shell.
    #[command(after_help = "\
Example:
  byway-lab gen completions zsh > ~/.zfunc/_byway-lab")]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Every command, with its names from the root.
    fn commands(command: &clap::Command, path: &str) -> Vec<(String, clap::Command)> {
        let path = format!("{path} {}", command.get_name()).trim().to_owned();
        let below = command.get_subcommands().flat_map(|sub| commands(sub, &path));
        std::iter::once((path.clone(), command.clone())).chain(below).collect()
    }

    /// What a shell hands to the command: words up to a pipe or a redirection, quotes taken off.
    fn words(line: &str) -> Vec<String> {
        let line = [" | ", " > ", " && "].iter().fold(line, |line, end| line.split(end).next().unwrap());
        let unquoted = |(index, part): (usize, &str)| match index % 2 {
            0 => part.replace(' ', "\n"),
            _ => part.to_owned(),
        };
        let line: String = line.split('\'').enumerate().map(unquoted).collect();
        line.split('\n').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn command_line_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        for (path, mut command) in commands(&Cli::command(), "") {
            let help = command.render_help().to_string();
            let example = help.split_once("Example").unwrap_or_else(|| panic!("{path} has no example")).1;
            assert!(example.contains(&path), "{path}: {example}");
            for line in example.lines().filter(|line| line.trim_start().starts_with(&path)) {
                Cli::try_parse_from(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }
}
