//! `byway resize`: an image of another size.

use std::io::Write;

use anyhow::Result;

use crate::args::Resize;
use crate::size;
use crate::terminal::{Interrupt, Progress};

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
    writeln!(out, "{} has {} now", args.image.display(), size::human(args.size))?;
    Ok(())
}
