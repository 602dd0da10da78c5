//! `byway serve`: a device for hosts in other processes.

use std::io::Write;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use byway::serve::{ServeOptions, Told, serve};

use crate::args::{Idle, Serve, Sgl};
use crate::terminal::{INTERRUPTED, on_signal};

/// Serves until a signal comes.
///
/// # Errors
/// When the device cannot be opened, the socket is taken, or the device fails.
pub fn run(args: &Serve, out: &mut impl Write) -> Result<()> {
    let socket = args.vfio_user.display();
    let options = ServeOptions {
        vfio_user: args.vfio_user.clone(),
        sgls: args.sgl.map(|sgl| sgl == Sgl::On),
        idle: match args.idle {
            Idle::Sleep => byway::serve::Idle::Sleep,
            Idle::Poll => byway::serve::Idle::Poll,
        },
        threads: NonZeroU16::new(args.threads).unwrap_or(NonZeroU16::MIN),
    };
    let served = serve(&uri_of(&args.device), &options)?;
    let stopper = served.stopper();
    let is_stopping = AtomicBool::new(false);
    on_signal(move || {
        if is_stopping.swap(true, Ordering::Relaxed) {
            // As after a kill: everything acknowledged is in the image.
            std::process::exit(INTERRUPTED.into());
        }
        stopper.stop();
    })?;
    writeln!(out, "{}: listening at {socket}", args.device)?;
    out.flush()?;
    served.run(tell)?;
    writeln!(out, "{}: closed", args.device)?;
    Ok(())
}

/// Whoever watches the server sees who comes and goes; scripts read standard output alone.
fn tell(told: Told<'_>) {
    let said = match told {
        Told::Came => "a client came".to_owned(),
        Told::Left => "the client left".to_owned(),
        Told::SentAway(why) => format!("the client was sent away: {why}"),
        Told::Refused => "another client came and was refused: one is served at a time".to_owned(),
        _ => return,
    };
    // Service goes on where nobody listens any more.
    let _ = writeln!(std::io::stderr(), "byway: {said}");
}

/// A path alone means an image.
fn uri_of(device: &str) -> String {
    let is_uri = ["embedded:", "ram:", "null:"].iter().any(|scheme| device.starts_with(scheme));
    if is_uri { device.to_owned() } else { format!("embedded:{device}") }
}
