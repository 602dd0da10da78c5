//! The command that shows a device at work.

use std::time::Duration;

use clap::Args;

use crate::target::Target;

/// `byway top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway top 127.0.0.1:9899
  byway top tcp://10.0.0.1/nqn.2026-11.example:disk --interval 5
  byway top disk.img --once
  byway top http://127.0.0.1:9899 --json | jq -c '.commands[] | [.command, .per_s, .p99_s]'

`byway serve --metrics` has the whole picture, and shows it in a browser too, at http://HOST:PORT/. A device that is opened has what its logs hold: health, \
commands of hosts, and of Byway devices their link and flash as well.

On a terminal the figures stay in place until q or Ctrl-C; elsewhere a report follows the other. The first comes after an interval, \
and covers it.")]
pub struct Top {
    /// What to look at: HOST:PORT or http://HOST:PORT of a server's metrics, or a device by its path or URI (`byway help uri`).
    #[arg(value_name = "DEVICE")]
    pub device: Target,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// End after one report.
    #[arg(long)]
    pub once: bool,
    /// Print each report as a line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// Seconds between two looks.
pub fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected seconds from 0.1 to 3600".to_owned())
}
