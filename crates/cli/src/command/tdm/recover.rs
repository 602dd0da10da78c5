//! `byway tdm recover`: writes back what a region has, without serving it.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use byway_console::failure::No;
use byway_console::size::counted;
use byway_console::terminal::print_done;
use byway_tdm_daemon::{RecoveredFile, forget, recover, remove};
use byway_tdm_region::{Description, Place};
use serde::Serialize;

use super::{serve, words};
use crate::args::TdmRecover;

/// Unused: no file gets a log here.
const RING_BYTES: u64 = 64 << 10;

/// Writes back what a region has.
///
/// # Errors
/// The region cannot be opened, as while a daemon has it; or something is left in it.
pub fn run(args: &TdmRecover, out: &mut impl Write) -> Result<()> {
    let described: Description = args.region.region.parse()?;
    if let Place::Emu(path) = &described.place {
        ensure!(path.exists(), "{} does not exist, so that there is nothing to recover", path.display());
    }
    let is_emulated = matches!(described.place, Place::Emu(_));
    ensure!(
        is_emulated || !args.remove,
        "--remove applies to emulated regions (emu:NAME) only; {} is device memory",
        args.region.region
    );
    // Recovery has no socket.
    let options = serve::options(&args.region, PathBuf::new(), RING_BYTES);
    let files = if args.forget { forget(&options, args.force) } else { recover(&options, args.force) }?;
    let left = files.iter().filter(|file| !file.outcome.is_done()).count();
    let is_removed = args.remove && left == 0;
    if is_removed {
        remove(&options)?;
    }
    print_done(out, args.json, &Recovered { files: &files, left, is_removed })?;
    out.flush()?;
    match left {
        0 => Ok(()),
        left => Err(No(format!("the log of {} is left in the region", counted(left as u64, "file"))).into()),
    }
}

/// Results for all files.
#[derive(Serialize)]
struct Recovered<'a> {
    files: &'a [RecoveredFile],
    left: usize,
    #[serde(rename = "removed")]
    is_removed: bool,
}

impl fmt::Display for Recovered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = self.files.iter().map(words::recovered).collect();
        if lines.is_empty() {
            lines.push("nothing is left in the region".to_owned());
        }
        if self.is_removed {
            lines.push("the region is removed, with its shared file tables".to_owned());
        }
        f.write_str(&lines.join("\n"))
    }
}
