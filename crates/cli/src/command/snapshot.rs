//! `byway snapshot`: a consistent copy of an image.

use std::io::Write;

use anyhow::Result;
use byway_console::size;
use byway_console::terminal::{Interrupt, print_json};
use serde::Serialize;

use crate::args::Snapshot;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    image: String,
    out: String,
    pause_ns: u64,
    copied_bytes: u64,
}

/// Copies an image.
///
/// # Errors
/// When there is no such image, the copy exists, or the file system refuses.
pub fn run(args: &Snapshot, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let taken = byway::snapshot_watched(&args.image, &args.out, &mut |_| interrupt.flow());
    let taken = interrupt.ended(taken, "nothing is left of the copy")?;
    let (image, to) = (args.image.display().to_string(), args.out.display().to_string());
    if args.json {
        let report = Report { image, out: to, pause_ns: taken.pause_ns, copied_bytes: taken.copied_bytes };
        return Ok(print_json(out, &report)?);
    }
    let copied = match taken.copied_bytes {
        0 => "its blocks are shared".to_owned(),
        bytes => format!("{} of data copied", size::human(bytes)),
    };
    put!(out, "{to}: a copy of {image}, {copied}")?;
    match taken.pause_ns {
        0 => writeln!(out)?,
        pause_ns => put!(out, "; writing paused for {:.1} ms\n", pause_ns as f64 / 1e6)?,
    }
    Ok(())
}
