//! `byway sql`.

use std::path::PathBuf;

use byway::spec::vendor::QueryFormat;
use clap::{Args, ValueEnum};

use super::Device;

/// `byway sql`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway kv put disk.img mesh --file mesh.parquet
  byway sql disk.img mesh 'SELECT min(x), max(x) FROM mesh WHERE y > 1.5'
  byway sql disk.img mesh 'SELECT * FROM mesh LIMIT 10' --format jsonl
  byway sql tcp://10.0.0.1 mesh 'SELECT count(*) FROM mesh' --explain
  byway sql disk.img mesh 'SELECT count(*) FROM mesh' --in-host --cost
  byway nvm write disk.img --ns 2 --file mesh.parquet
  byway sql disk.img --ns 2 --blocks 0:1407574 'SELECT avg(e) FROM mesh'

The query is one SELECT with conditions, GROUP BY, ORDER BY and LIMIT; a refusal names the token that it stumbled on. The device reads \
the object, and its result alone crosses the link.

Exit codes: 0 done, 2 an error.")]
pub struct Sql {
    #[command(flatten)]
    pub device: Device,
    /// Key of the value that is queried, a Parquet file. With --blocks the first byte, a multiple of the block size, and the length of the
    /// file, such as 1M:46388692.
    pub object: String,
    /// The query.
    pub sql: String,
    /// Query bytes of a namespace of blocks.
    #[arg(long)]
    pub blocks: bool,
    /// The key is given as hexadecimal digits.
    #[arg(long, conflicts_with = "blocks")]
    pub hex: bool,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: SqlFormat,
    /// CSV without a line of names.
    #[arg(long)]
    pub no_header: bool,
    /// Say what the query would read and move, instead of executing it.
    #[arg(long)]
    pub explain: bool,
    /// Execute the query in this process, which reads the columns that it needs: for devices that execute none, and to compare.
    #[arg(long)]
    pub in_host: bool,
    /// Say on standard error what crossed the link, by its kind. For devices of this process.
    #[arg(long)]
    pub cost: bool,
    /// As --format jsonl; with --explain one JSON object.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write the result to a new file instead of standard output.
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
}

/// How a result is written.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum SqlFormat {
    /// A line per row.
    #[default]
    Csv,
    /// A JSON object per row.
    Jsonl,
    /// A stream of Arrow IPC.
    Arrow,
}

impl Sql {
    /// The format that was asked for.
    pub fn format(&self) -> QueryFormat {
        match self.format {
            _ if self.json => QueryFormat::JSON_LINES,
            SqlFormat::Csv => QueryFormat::CSV,
            SqlFormat::Jsonl => QueryFormat::JSON_LINES,
            SqlFormat::Arrow => QueryFormat::ARROW_STREAM,
        }
    }
}
