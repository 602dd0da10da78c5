//! `byway tdm serve`: runs the daemon until it is stopped.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use anyhow::{Context, Result};
use byway_console::failure::No;
use byway_console::files;
use byway_console::size::counted;
use byway_console::terminal::{on_signal, print_done};
use byway_tdm_daemon::{Daemon, EndedFile, Options, RecoveredFile, RegionReport, Rules};
use byway_tdm_region::Opening;
use serde::Serialize;

use super::words;
use crate::args::{TdmRegion, TdmServe};

/// Serves until a signal.
///
/// # Errors
/// The region or socket cannot be opened; or a file could not be synced at the end.
pub fn run(args: &TdmServe, out: &mut impl Write) -> Result<()> {
    let (say, asked) = channel();
    on_signal(move || {
        // The second signal has no effect.
        let _ = say.send(());
    })?;
    let socket = args.socket.path()?;
    let rules = args.rules.as_deref().map(rules).transpose()?.unwrap_or_default();
    let options =
        options(&args.region, socket.clone(), args.log_size).rules(rules).promotion(args.promote.promotion());
    let daemon = Daemon::start(options)?;
    let region = daemon.report().region;
    let begun = Begun { event: "listening", region: &region, recovered: daemon.recovered(), socket: &socket };
    print_done(out, args.json, &begun)?;
    out.flush()?;
    // The sender lives as long as the process.
    let _ = asked.recv();
    let ended = Ended::of(&daemon.end());
    print_done(out, args.json, &ended)?;
    out.flush()?;
    ended.verdict()
}

fn rules(file: &Path) -> Result<Rules> {
    let text = String::from_utf8(files::read_settings(file)?).with_context(|| file.display().to_string())?;
    Rules::parse(&text).with_context(|| file.display().to_string())
}

/// Options of a daemon, or of a recovery.
pub fn options(region: &TdmRegion, socket: PathBuf, ring_bytes: u64) -> Options {
    let opening = Opening {
        emulate_persistence: region.emulate_persistence,
        domain: region.domain,
        ..Opening::default()
    };
    Options::new(&region.region, socket)
        .opening(opening)
        .file_tables(&region.file_tables)
        .ring_bytes(ring_bytes)
}

/// Printed when programs may connect.
#[derive(Serialize)]
struct Begun<'a> {
    event: &'static str,
    region: &'a RegionReport,
    recovered: &'a [RecoveredFile],
    socket: &'a Path,
}

impl fmt::Display for Begun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", words::region(self.region))?;
        for file in self.recovered {
            writeln!(f, "{}", words::recovered(file))?;
        }
        write!(f, "listening at {}", self.socket.display())
    }
}

/// Printed at the end.
#[derive(Serialize)]
struct Ended {
    event: &'static str,
    settled: usize,
    left: Vec<PathBuf>,
}

impl Ended {
    fn of(files: &[EndedFile]) -> Self {
        let left = files.iter().filter(|file| !file.is_settled).map(|file| file.path.clone());
        let left: Vec<PathBuf> = left.collect();
        Self { event: "closed", settled: files.len() - left.len(), left }
    }

    fn verdict(&self) -> Result<()> {
        let Some(first) = self.left.first() else { return Ok(()) };
        let files = counted(self.left.len() as u64, "file");
        let (first, help) = (first.display(), "the region keeps what it has of them for the next start");
        Err(No(format!("{files} could not be synced below, {first} among them: {help}")).into())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = counted(self.settled as u64, "file");
        write!(f, "closed: {files} taken down to the kernel, synced")
    }
}
