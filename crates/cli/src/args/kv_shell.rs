//! `byway kv shell`.

use std::path::PathBuf;

use clap::Args;

use super::Device;

/// `byway kv shell`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway kv shell disk.img
  byway kv shell disk.img -c 'put sensor-7 21.5' -c 'get sensor-7'
  printf 'put a 1\\nput b 2\\nscan\\n' | byway kv shell disk.img
  byway kv shell disk.img --file commands.txt --keep-going

`help` at the prompt lists the commands. Where standard input is no terminal, and with -c or --file, each line is a command: \
results go to standard output, an error to standard error with the number of its line. The first error ends the script, unless \
--keep-going is given. Exit codes: 0 all done, 1 an answer was no (no such key), 2 an error.

Keys and values are words. Quotes hold blanks: 'as it is', or \"with \\n, \\t, \\\\, \\\" and \\x00 to \\xff\". After `format hex` they are \
hexadecimal digits. A line that begins with # is a comment.

The history of the prompt is kept in $XDG_STATE_HOME/byway/kv-history, else ~/.local/state/byway/kv-history, for its owner alone; a line that \
begins with a blank is left out.")]
pub struct Shell {
    #[command(flatten)]
    pub device: Device,
    /// Do this command, and leave; may be given several times.
    #[arg(long, short, value_name = "COMMAND", allow_hyphen_values = true, conflicts_with = "file")]
    pub command: Vec<String>,
    /// Do the commands of this file, and leave; - is standard input.
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Go on after an error of a script.
    #[arg(long)]
    pub keep_going: bool,
    /// Keep no history.
    #[arg(long)]
    pub no_history: bool,
}
