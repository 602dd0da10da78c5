//! The command tree. Help, man pages and completions are all made from it.

mod bench;
mod controller;
mod dhchap;
mod image;
mod key;
mod live;
mod negative;
mod nvm;
mod serve;
mod tdm;
mod tls;
mod top;
mod work;

use std::path::PathBuf;

use byway_console::number;
use byway_console::records::Format;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::data;
pub use bench::*;
pub use controller::*;
pub use dhchap::*;
pub use image::*;
pub use key::*;
pub use live::*;
pub use nvm::*;
pub use serve::*;
pub use tdm::*;
pub use tls::*;
pub use top::*;
pub use work::*;

/// Move bytes between programs and SSDs at the size the program has.
#[derive(Debug, Parser)]
#[command(
    name = "byway",
    version,
    propagate_version = true,
    after_help = AFTER_HELP,
    after_long_help = format!("{AFTER_HELP}\n\n{}", options_of_a_uri())
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Reads the arguments of this process.
///
/// # Errors
/// Arguments that are wrong, and help that was asked for.
pub fn parse() -> Result<Cli, clap::Error> {
    let mut command = negative::as_values(Cli::command());
    let matched = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = matched.and_then(|matched| Cli::from_arg_matches(&matched));
    parsed.map_err(|error| negative::explained(error.format(&mut command)))
}

const AFTER_HELP: &str = "\
Examples:
  byway create disk.img --size 8G
  byway kv put 'embedded:disk.img?transfer=inline' 0041 'LATIN CAPITAL LETTER A'
  byway bench transfer --sizes 32 --methods prp,piggyback,inline

Exit codes: 0 done, 1 the answer is no (no such key, a condition that does not hold, a difference found), 2 an error, 130 \
interrupted. Sizes: a number of bytes, or one with K, M, G or T, such as 64M, 64MB, 64MiB or 1.5G: all are powers of 1024.";

/// What may stand behind the `?` of a URI, a line each.
fn options_of_a_uri() -> String {
    let line =
        |(name, values, about): &(&str, &str, &str)| format!("\n  {:29}{about}", format!("{name}={values}"));
    let embedded: String = byway::uri::OPTIONS.iter().map(line).collect();
    let blocks: String = byway::BLOCK_OPTIONS.iter().map(line).collect();
    let of_host = byway::PCIE_OPTIONS.join(", ");
    let tcp: String = byway::TCP_OPTIONS.iter().map(line).collect();
    format!(
        "Options begin at the first `?` that a `name=` follows, or the name of an option. In embedded:PATH, file:PATH and vfio-user:PATH \
         % and two hexadecimal digits are a byte: %3F is a `?` that belongs to the path.\n\n\
         Options of embedded:PATH, embedded-ram:SIZE and embedded-null:SIZE, behind a `?`, joined by `&`:{embedded}\n\n\
         Options of vfio-user:PATH and pci:ADDRESS, of these: {of_host}\n\n\
         Options of tcp://HOST[:PORT]/NQN:{tcp}\n\n\
         Options of a path, file:PATH, ramdisk:SIZE and null-backend:SIZE:{blocks}"
    )
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an image: the file that holds one device.
    Create(Create),
    /// List the block devices and NVMe controllers that the kernel knows, without opening any.
    Enum(Enumerate),
    /// Ask a discovery service at a TCP address which subsystems there are.
    Discover(Discover),
    /// List devices with their namespaces: each is opened, for reading alone.
    List(List),
    /// Say what a device is: profile, namespaces, transfer methods, limits, counters.
    Info(Info),
    /// Ask a controller for one of its identify structures.
    Identify(Identify),
    /// Read a log page: health, errors, firmware, effects of commands.
    Log(Log),
    /// List, read and set features.
    Feature(Feature),
    /// Send any command, as its bytes are.
    Pass(Pass),
    /// Verify every structure of an image, and repair one.
    Check(Check),
    /// Give an image another size.
    Resize(Resize),
    /// Copy an image, also while another process writes to it.
    Snapshot(Snapshot),
    /// Empty one namespace; no byte of what it held is left in the image.
    Format(FormatNamespace),
    /// Empty the whole device; no byte of what was ever stored is left in the image.
    Sanitize(Sanitize),
    /// Serve a device to guests, other processes and hosts: as a PCIe NVMe controller (vfio-user), or over NVMe/TCP.
    Serve(Box<Serve>),
    /// List, add and remove the subsystems of a running server.
    Subsystem(Subsystems),
    /// List, add and remove the namespaces that a running server exports.
    Ns(Namespaces),
    /// List and change how well each port of a running server serves each namespace.
    Ana(Ana),
    /// List, add and remove the NVMe/TCP ports of a running server.
    Port(Ports),
    /// List and change which NVMe/TCP hosts may connect to a running server.
    Host(Hosts),
    /// Serve unmodified programs' writes and syncs from device memory.
    Tdm(Box<Tdm>),
    /// Show a device at work, live: what it does in a second, how long that takes, its link, flash and health.
    Top(Top),
    /// Make secrets for authentication (DH-HMAC-CHAP), and keys of TLS.
    Key(AuthKey),
    /// Keys and values.
    Kv(Kv),
    /// Blocks.
    Nvm(Nvm),
    /// Copy between any two places: devices of blocks, files, standard input and output.
    Dd(Dd),
    /// Run a load on any device, and measure it: blocks or keys and values.
    Perf(Perf),
    /// Measure what puts cost, by transfer method. Other stores, endurance and the report: byway-lab.
    Bench(Bench),
    /// Print man pages, shell completions, or the reference of commands.
    Gen(Gen),
}

/// `byway enum`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  byway enum\n  byway enum --json | jq -r '.[].uri'")]
pub struct Enumerate {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `byway discover`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway discover tcp://10.0.0.1
  byway discover 'tcp://storage.example:8009?digests=both'
  byway discover tcp://10.0.0.1 --json | jq -r '.[].uri | select(.)' | xargs -r byway list

Options of the address: hostnqn, hostid, dhchap-secret-file, dhchap-secret, dhchap-ctrl-secret, tls-key-file, tls-key, tls-identity, digests, timeout. What `tcp://` can open is printed as its URI.")]
pub struct Discover {
    /// The discovery service: tcp://HOST, or tcp://HOST:PORT where it is not at port 8009.
    #[arg(value_name = "ADDRESS")]
    pub address: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which device, and how it is driven.
#[derive(Debug, Args)]
pub struct Device {
    /// The device: embedded:PATH, embedded-ram:SIZE for one in memory, vfio-user:PATH for one that another process serves,
    /// tcp://HOST:4420/NQN for one that is reached over the network, pci:0000:04:00.0 for one that vfio-pci has; where blocks are meant, a path or file:PATH of a file or block device too, or null-backend:SIZE for none. Options after `?`, joined by `&`, are listed by `byway --help`.
    #[arg(value_name = "URI")]
    pub uri: String,
}

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
    /// Store the records of a file as fast as they can be read: many of them by one command.
    #[command(after_help = "\
Example:
  byway kv load embedded:disk.img records.jsonl")]
    Load {
        #[command(flatten)]
        device: Device,
        /// The file; - is standard input.
        file: PathBuf,
        /// How records stand in it [default: jsonl for *.jsonl, tsv for *.tsv, else unicode].
        #[arg(long)]
        format: Option<Format>,
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
        #[arg(long, value_name = "BYTES", value_parser = number::parse::<u16>)]
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
    /// Store every record of a file, or compare a file with what is stored.
    #[command(after_help = "\
Examples:
  byway kv import 'embedded:disk.img?transfer=inline' /usr/share/unicode/UnicodeData.txt
  byway kv import embedded:disk.img /usr/share/unicode/UnicodeData.txt --compare
  byway kv export embedded:disk.img | byway kv import embedded:other.img - --format jsonl")]
    Import {
        #[command(flatten)]
        device: Device,
        /// The file; - is standard input.
        file: PathBuf,
        /// How records stand in it [default: jsonl for *.jsonl, tsv for *.tsv, else unicode].
        #[arg(long)]
        format: Option<Format>,
        /// Write nothing: read every record back and compare.
        #[arg(long)]
        compare: bool,
        /// Print the figures as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write every record to standard output or a file.
    #[command(after_help = "\
Examples:
  byway kv export embedded:disk.img > records.jsonl
  byway kv export embedded:disk.img --format unicode --file UnicodeData.txt")]
    Export {
        #[command(flatten)]
        device: Device,
        /// Where to write [default: standard output].
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
        /// How records shall stand in it; unicode writes values alone, a line each.
        #[arg(long, default_value = "jsonl")]
        format: Format,
        /// Print what was done as one JSON object: on standard error where the records go to standard output.
        #[arg(long)]
        json: bool,
    },
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
    /// Keys are hexadecimal digits, here and in what is printed.
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

/// `byway gen`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway gen man --dir man
  byway gen completions bash > /etc/bash_completion.d/byway")]
pub struct Gen {
    /// What to print.
    #[command(subcommand)]
    pub what: GenWhat,
}

/// What is made from the command tree.
#[derive(Debug, Subcommand)]
pub enum GenWhat {
    /// The man page of `byway`, or a page for each command into a folder.
    #[command(after_help = "\
Examples:
  byway gen man | man -l -
  byway gen man --dir /usr/local/share/man/man1")]
    Man {
        /// A folder for all pages, made if it is not there.
        #[arg(long, value_name = "PATH")]
        dir: Option<PathBuf>,
    },
    /// The reference of all commands, as Markdown.
    #[command(after_help = "\
Example:
  byway gen reference > docs/reference/commands.md")]
    Reference,
    /// Completions for a shell.
    #[command(after_help = "\
Example:
  byway gen completions zsh > ~/.zfunc/_byway")]
    Completions {
        /// The shell.
        shell: byway_console::generate::Shell,
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
    fn tdm_serve_with_old_option_names_parses_as_with_new_ones() {
        let parsed = |option: &str, value: &str| {
            let line = ["byway", "tdm", "serve", &format!("--{option}={value}")];
            let Command::Tdm(tdm) = Cli::try_parse_from(line).unwrap().command else { panic!("{line:?}") };
            let TdmCommand::Serve(serve) = tdm.command else { panic!("{line:?}") };
            (serve.region.file_tables, serve.promote)
        };
        assert_ne!(parsed("promote", "pinned"), parsed("promote", "by-benefit"));
        for (old, new) in [
            ([OLD_FILE_TABLES, "/tmp"], ["file-tables", "/tmp"]),
            ([OLD_PROMOTE, OLD_PINNED], ["promote", "pinned"]),
            ([OLD_PROMOTE, OLD_BY_BENEFIT], ["promote", "by-benefit"]),
        ] {
            assert_eq!(parsed(old[0], old[1]), parsed(new[0], new[1]), "{old:?}");
        }
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
