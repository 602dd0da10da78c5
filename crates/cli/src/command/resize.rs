//! `byway resize`: an image of another size.

use std::io::Write;

use anyhow::Result;

use crate::args::Resize;
use crate::size;
use crate::terminal::Progress;

/// Gives an image another size.
///
/// # Errors
/// When the namespaces do not fit, or the file system refuses; the image is as it was.
pub fn run(args: &Resize, out: &mut impl Write) -> Result<()> {
    let progress = Progress::new("copying", 0);
    let mut watch = |done, total| progress.set("copying", done, total);
    byway::resize(&args.image, args.size, &args.namespaces, &mut watch)?;
    drop(progress);
    writeln!(out, "{} has {} now", args.image.display(), size::human(args.size))?;
    Ok(())
}
