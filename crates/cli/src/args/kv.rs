//! `byway kv`: commands on keys and values, and keys on the command line.

use std::path::PathBuf;

use byway_console::number;
use byway_console::size;
use clap::{Args, Subcommand};

use super::{Device, Exec, Export, Import, Shell};
use crate::data;

/// `byway kv`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway kv put embedded:disk.img sensor-7 21.5
  byway kv list embedded:disk.img

In JSON, here as in a file of records (jsonl), keys and values are `key` and `value` where they are text (UTF-8), and \
`key_hex` and `value_hex`, two digits a byte, where they are not.")]
pub struct Kv {
    /// What to do.
    #[command(subcommand)]
    pub command: KvCommand,
}

/// What can be done with keys and values.
#[derive(Debug, Subcommand)]
pub enum KvCommand {
    /// Store a value under a key.
    #[command(after_help = "\
Examples:
  byway kv put 'embedded:disk.img?transfer=piggyback' sensor-7 21.5
  byway kv put embedded:disk.img photo --file photo.jpg
  byway kv put embedded:disk.img degrees -5
  date | byway kv put embedded:disk.img now

Exit codes: 0 stored, 1 the condition of --if-present or --if-absent does not hold, 2 an error.")]
    Put {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        key: Key,
        /// The value; without it and without --file it is read from standard input. Put -- before a
        /// value that begins with --.
        #[arg(allow_hyphen_values = true, value_parser = data::parse)]
        value: Option<String>,
        /// Take the value from a file.
        #[arg(long, conflicts_with = "value", value_name = "PATH")]
        file: Option<PathBuf>,
        /// Only if the key exists.
        #[arg(long, conflicts_with = "if_absent")]
        if_present: bool,
        /// Only if the key does not exist.
        #[arg(long)]
        if_absent: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write the value of a key to standard output.
    #[command(after_help = "\
Examples:
  byway kv get embedded:disk.img sensor-7
  byway kv get embedded:disk.img sensor-7 --json | byway kv import embedded:other.img - --format jsonl")]
    Get {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        key: Key,
        /// Write the value to a new file instead.
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
        /// Print the record as one JSON object, a line of `kv export`; with --file what was written.
        #[arg(long)]
        json: bool,
    },
    /// Delete a key.
    #[command(after_help = "\
Example:
  byway kv delete embedded:disk.img sensor-7")]
    Delete {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        key: Key,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Say by the exit code whether a key exists.
    #[command(after_help = "\
Example:
  byway kv exists embedded:disk.img sensor-7 && echo yes")]
    Exists {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        key: Key,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// List keys in order.
    #[command(after_help = "\
Examples:
  byway kv list embedded:disk.img
  byway kv list embedded:disk.img --prefix sensor-
  byway kv list embedded:disk.img --from 1F600 --limit 10 --json")]
    List {
        #[command(flatten)]
        device: Device,
        /// Begin at this key, or the next one after it.
        #[arg(long, value_name = "KEY", allow_hyphen_values = true, value_parser = data::parse)]
        from: Option<String>,
        /// Only keys that begin with this.
        #[arg(long, value_name = "PREFIX", allow_hyphen_values = true, value_parser = data::parse)]
        prefix: Option<String>,
        /// Print at most so many keys.
        #[arg(long, value_name = "COUNT", value_parser = number::parse::<u64>)]
        limit: Option<u64>,
        /// Keys are hexadecimal digits, here and in what is printed.
        #[arg(long)]
        hex: bool,
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Print keys with their values in order.
    #[command(after_help = "\
Examples:
  byway kv scan embedded:disk.img --prefix sensor-
  byway kv scan embedded:disk.img --from a --to c --reverse --limit 10 --json
  byway kv scan embedded:disk.img --value-bytes 16

A line is a key, a tab and the value, both with escapes for bytes that are no text; with --json it is a line of kv export.")]
    Scan {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        range: KeyRange,
        /// From the last key to the first.
        #[arg(long)]
        reverse: bool,
        /// Print at most so many.
        #[arg(long, value_name = "COUNT", value_parser = number::parse::<u64>)]
        limit: Option<u64>,
        /// Keys alone.
        #[arg(long, conflicts_with = "value_bytes")]
        keys: bool,
        /// At most so many bytes of each value, up to 65534.
        #[arg(long, value_name = "SIZE", value_parser = size::parse_u16)]
        value_bytes: Option<u16>,
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Count keys, one by one.
    #[command(after_help = "\
Examples:
  byway kv count embedded:disk.img
  byway kv count embedded:disk.img --prefix sensor-")]
    Count {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        range: KeyRange,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Delete the keys of a range, and print how many there were.
    #[command(after_help = "\
Examples:
  byway kv delete-range embedded:disk.img --prefix sensor- --dry-run
  byway kv delete-range embedded:disk.img --from 2024 --to 2025
  byway kv delete-range embedded:disk.img --all

It is not atomic: after an interruption or a crash, a part of the keys is deleted.")]
    DeleteRange {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        range: KeyRange,
        /// All keys: needed where neither a prefix nor a bound is given.
        #[arg(long, conflicts_with_all = ["prefix", "from", "to"])]
        all: bool,
        /// Delete nothing: count.
        #[arg(long)]
        dry_run: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Do many puts and deletions all or not at all, through any crash.
    #[command(after_help = "\
Examples:
  printf 'put\\tto\\t110\\nput\\tfrom\\t90\\ndelete\\torder\\n' | byway kv batch embedded:disk.img
  byway kv batch embedded:disk.img changes.txt --hex

Each line is put, a tab, the key, a tab and the value, or delete, a tab and the key. Of several changes of one key the
last counts. A device without atomic Store Many refuses, and changes nothing.")]
    Batch {
        #[command(flatten)]
        device: Device,
        /// The file; - is standard input.
        #[arg(default_value = "-")]
        file: PathBuf,
        /// Keys and values are hexadecimal digits.
        #[arg(long)]
        hex: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Have the device run a program over the value of a key, and write its output to standard output.
    Exec(Box<Exec>),
    /// Make what is stored durable: wait until the device has written back what its cache holds.
    #[command(after_help = "\
Example:
  byway kv flush embedded:disk.img")]
    Flush {
        #[command(flatten)]
        device: Device,
    },
    /// Store every record of a file, or compare a file with what is stored.
    #[command(visible_alias = "load")]
    Import(Box<Import>),
    /// Write every record to standard output or a file.
    Export(Export),
    /// Do commands on keys and values one after another: at a prompt, or from a script.
    Shell(Shell),
}

/// Keys on the command line.
#[derive(Debug, Args)]
pub struct KeyRange {
    /// Only keys that begin with this.
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["from", "to"], allow_hyphen_values = true, value_parser = data::parse)]
    pub prefix: Option<String>,
    /// Only this key and those after it.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, value_parser = data::parse)]
    pub from: Option<String>,
    /// Only keys before this one.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, value_parser = data::parse)]
    pub to: Option<String>,
    /// Keys are hexadecimal digits, here and in lines that are printed.
    #[arg(long)]
    pub hex: bool,
}

/// A key on the command line.
#[derive(Debug, Args)]
pub struct Key {
    /// The key: 1 to 16 bytes of text.
    #[arg(allow_hyphen_values = true, value_parser = data::parse)]
    pub key: String,
    /// The key is hexadecimal digits.
    #[arg(long)]
    pub hex: bool,
}
