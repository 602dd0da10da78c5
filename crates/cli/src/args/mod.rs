//! The command tree. Help, man pages and completions are all made from it.

mod bench;
mod controller;
mod dhchap;
mod fold;
mod groups;
mod image;
mod key;
mod kv;
mod kv_exec;
mod kv_files;
mod kv_shell;
mod live;
mod negative;
mod nvm;
mod nvme;
mod nvme_cli;
mod serve;
mod sql;
mod tdm;
mod tls;
mod top;
mod uri;
mod work;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use byway_console::failure;
use byway_console::number;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::target::Target;
pub use bench::*;
pub use controller::*;
pub use dhchap::*;
pub use image::*;
pub use key::*;
pub use kv::*;
pub use kv_exec::*;
pub use kv_files::*;
pub use kv_shell::*;
pub use live::*;
pub use nvm::*;
pub use nvme::*;
pub use serve::*;
pub use sql::*;
pub use tdm::*;
pub use tls::*;
pub use top::*;
pub use uri::*;
pub use work::*;

/// An NVMe SSD in software, and tools for it and for other storage devices.
#[derive(Debug, Parser)]
#[command(
    name = "byway",
    version = version(),
    propagate_version = true,
    after_help = AFTER_HELP
)]
pub struct Cli {
    /// Say on standard error what each device's name is taken for.
    #[arg(long, short, global = true)]
    pub verbose: bool,
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

/// The command tree.
pub fn command() -> clap::Command {
    groups::grouped(nvme_cli::with_its_spellings(Cli::command()))
}

/// The arguments of this process.
pub struct Parsed {
    /// What was asked for.
    pub cli: Cli,
    /// Every device that was named.
    pub targets: Vec<Target>,
}

/// Reads the arguments of this process. Where they ask for JSON, failures are reported as JSON from then on.
///
/// # Errors
/// Arguments that are wrong, and help that was asked for.
pub fn parse() -> Result<Parsed, clap::Error> {
    let mut command = negative::as_values(command());
    if asks_for_json(std::env::args_os().skip(1)) {
        failure::report_as_json();
    }
    let matched = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = matched.and_then(|matched| {
        Ok(Parsed { targets: targets_of(&matched), cli: Cli::from_arg_matches(&matched)? })
    });
    parsed.map_err(|error| negative::explained(error.format(&mut command)))
}

/// Whether words of a command line ask for JSON, in the place of options. They may be wrong otherwise, so no parser says it.
fn asks_for_json(words: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<OsString> = words.take_while(|word| word != "--").collect();
    let is_format =
        |pair: &[OsString]| (pair[0] == "-o" || pair[0] == "--output-format") && pair[1] == "json";
    let is_json = |word: &OsString| {
        ["--json", "-ojson", "-o=json", "--output-format=json"].iter().any(|json| word == json)
    };
    words.iter().any(is_json) || words.windows(2).any(is_format)
}

/// Every device that the arguments name.
fn targets_of(matched: &ArgMatches) -> Vec<Target> {
    let of_one = |id: &clap::Id| {
        let found = matched.try_get_many::<Target>(id.as_str()).ok().flatten();
        found.into_iter().flatten().cloned().collect::<Vec<_>>()
    };
    let below = matched.subcommand().map(|(_, below)| targets_of(below)).unwrap_or_default();
    matched.ids().flat_map(of_one).chain(below).collect()
}

const AFTER_HELP: &str = "\
Examples:
  byway create disk.img --size 8G
  byway kv put 'embedded:disk.img?transfer=inline' 0041 'LATIN CAPITAL LETTER A'
  byway bench transfer --sizes 32 --methods prp,piggyback,inline

Exit codes: 0 done, 1 the answer is no (no such key, a condition that does not hold, a difference found), 2 an error, 130 \
interrupted. Sizes: a number of bytes, or one with K, M, G or T, such as 64M, 64MB, 64MiB or 1.5G: all are powers of 1024. \
How devices are named: `byway help uri`. As in nvme-cli, -n is --ns and -o json is --json.";

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an image: the file that holds one device.
    Create(Create),
    /// List the block devices and NVMe controllers that the kernel knows; none is opened.
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
    /// Serve a device to guests and processes (vfio-user) and to hosts (NVMe/TCP).
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
    /// Show a device at work: rates, latencies, link, flash and health.
    Top(Top),
    /// Make secrets for authentication (DH-HMAC-CHAP), and keys of TLS.
    Key(AuthKey),
    /// Put, get, list, import and export keys and values.
    Kv(Kv),
    /// Have a device execute SQL over a Parquet file that it holds.
    Sql(Sql),
    /// Read, write, copy, compare and zero blocks.
    Nvm(Nvm),
    /// Copy between any two places: devices of blocks, files, standard input and output.
    Dd(Dd),
    /// Run a load on any device, and measure it: blocks or keys and values.
    Perf(Box<Perf>),
    /// Measure what puts cost, by transfer method. More experiments: byway-lab.
    Bench(Bench),
    /// What nvme-cli has, by its names.
    #[command(flatten)]
    Nvme(NvmeCommand),
    /// Say how devices are named, or what a name is taken for.
    #[command(long_about = names_of_devices())]
    Uri(Names),
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

/// One device.
#[derive(Clone, Debug, Args)]
pub struct Whole {
    /// The device: the path of an image, file or device node, or a URI (`byway help uri`).
    #[arg(value_name = "DEVICE")]
    pub target: Target,
}

impl Whole {
    /// Its URI.
    pub fn uri(&self) -> &str {
        self.target.uri()
    }
}

/// One namespace of a device.
#[derive(Debug, Args)]
pub struct Device {
    #[command(flatten)]
    pub whole: Whole,
    /// Namespace, as `ns=` of a URI [default: the first that fits].
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
}

impl Device {
    /// The device's URI, with the namespace.
    pub fn uri(&self) -> String {
        let option = self.ns.map(|ns| format!("ns={ns}")).unwrap_or_default();
        byway::uri::with_options(self.whole.uri(), &option)
    }
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
        command().debug_assert();
    }

    #[test]
    fn version_has_the_commit_that_the_build_knows() {
        let shown = command().render_version();
        assert!(shown.starts_with(concat!("byway ", env!("CARGO_PKG_VERSION"))), "{shown}");
        assert!(byway_figure::commit().is_none_or(|commit| shown.contains(commit)), "{shown}");
    }

    #[test]
    fn json_is_asked_for_in_every_spelling_and_only_as_an_option() {
        let asks = |line: &str| asks_for_json(line.split(' ').map(OsString::from));
        for line in
            ["kv get a k --json", "id-ctrl a -o json", "id-ctrl a -ojson", "list --output-format=json"]
        {
            assert!(asks(line), "{line}");
        }
        for line in ["kv put a k -- --json", "dd a -o b", "kv put a json", "list"] {
            assert!(!asks(line), "{line}");
        }
    }

    #[test]
    fn spellings_of_nvme_cli_mean_ours() {
        let parsed = |line: &str| {
            let matched = command().try_get_matches_from(words(line)).unwrap();
            format!("{:?}", Cli::from_arg_matches(&matched).unwrap())
        };
        for (theirs, ours) in [
            ("byway kv list ram:64M -o json", "byway kv list ram:64M --json"),
            ("byway identify ram:64M -o binary", "byway identify ram:64M --raw"),
            ("byway log ram:64M smart --output-format=normal", "byway log ram:64M smart"),
            ("byway format ram:64M -n 1 --yes", "byway format ram:64M --ns 1 --yes"),
            ("byway identify ram:64M -b -H", "byway identify ram:64M --raw"),
            ("byway nvm flush ram:64M --namespace-id 2", "byway nvm flush ram:64M --ns 2"),
        ] {
            assert_eq!(parsed(theirs), parsed(ours), "{theirs}");
        }
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
        for (path, mut command) in commands(&command(), "") {
            let help = command.render_help().to_string();
            let example = help.split_once("Example").unwrap_or_else(|| panic!("{path} has no example")).1;
            assert!(example.contains(&path), "{path}: {example}");
            for line in example.lines().filter(|line| line.trim_start().starts_with(&path)) {
                let matched = super::command().try_get_matches_from(words(line));
                matched.unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }
}
