//! `byway resize`: an image of another size.

use std::fmt;
use std::io::Write;

use anyhow::Result;
use byway_console::size;
use byway_console::terminal::{Interrupt, Progress, print_done};
use serde::Serialize;

use crate::args::Resize;

/// Result of a resize, to print.
#[derive(Serialize)]
struct Resized {
    image: String,
    bytes: u64,
}

/// Gives an image another size.
///
/// # Errors
/// When the namespaces do not fit, or the file system refuses; the image is as it was.
pub fn run(args: &Resize, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let progress = Progress::new("copying", 0);
    let mut watch = |done, total| {
        progress.set("copying", done, total);
        interrupt.flow()
    };
    let resized = byway::resize(&args.image, args.size, &args.namespaces, &mut watch);
    drop(progress);
    interrupt.ended(resized, "the image is as it was")?;
    let done = Resized { image: args.image.display().to_string(), bytes: args.size };
    Ok(print_done(out, args.json, &done)?)
}

impl fmt::Display for Resized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has {} now", self.image, size::human(self.bytes))
    }
}
