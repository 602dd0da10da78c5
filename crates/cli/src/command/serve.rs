//! `byway serve`: a device for hosts in other processes.

use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use byway::serve::{ServeOptions, Told, serve};
use serde::Serialize;

use crate::args::{Idle, Serve, Sgl};
use crate::terminal::{INTERRUPTED, on_signal, print_done, print_json};

/// Serves until a signal comes.
///
/// # Errors
/// When the device cannot be opened, the socket is taken, or the device fails.
pub fn run(args: &Serve, out: &mut impl Write) -> Result<()> {
    let options = ServeOptions {
        vfio_user: args.vfio_user.clone(),
        sgls: args.sgl.map(|sgl| sgl == Sgl::On),
        idle: match args.idle {
            Idle::Sleep => byway::serve::Idle::Sleep,
            Idle::Poll => byway::serve::Idle::Poll,
        },
        threads: NonZeroU16::new(args.threads).unwrap_or(NonZeroU16::MIN),
    };
    let served = serve(&uri_of(&args.device)?, &options)?;
    let stopper = served.stopper();
    let is_stopping = AtomicBool::new(false);
    on_signal(move || {
        if is_stopping.swap(true, Ordering::Relaxed) {
            // As after a kill: everything acknowledged is in the image.
            std::process::exit(INTERRUPTED.into());
        }
        stopper.stop();
    })?;
    let device = args.device.as_str();
    let socket = args.vfio_user.display().to_string();
    print_done(out, args.json, &Event::Listening { device, socket })?;
    out.flush()?;
    served.run(|told| tell(told, args.json, out))?;
    print_done(out, args.json, &Event::Closed { device })?;
    Ok(())
}

/// What happens to a server, in words or as a line of JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Listening { device: &'a str, socket: String },
    ClientCame,
    ClientLeft,
    ClientSentAway { why: String },
    ClientRefused,
    Closed { device: &'a str },
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening { device, socket } => write!(f, "{device}: listening at {socket}"),
            Self::ClientCame => f.write_str("a client came"),
            Self::ClientLeft => f.write_str("the client left"),
            Self::ClientSentAway { why } => write!(f, "the client was sent away: {why}"),
            Self::ClientRefused => {
                f.write_str("another client came and was refused: one is served at a time")
            }
            Self::Closed { device } => write!(f, "{device}: closed"),
        }
    }
}

/// Whoever watches the server sees who comes and goes; scripts read standard output alone, and ask for JSON to see it there.
fn tell(told: Told<'_>, json: bool, out: &mut impl Write) {
    let event = match told {
        Told::Came => Event::ClientCame,
        Told::Left => Event::ClientLeft,
        Told::SentAway(why) => Event::ClientSentAway { why: why.to_string() },
        Told::Refused => Event::ClientRefused,
        _ => return,
    };
    // Service goes on where nobody listens any more.
    let _ = match json {
        true => print_json(out, &event).and_then(|()| out.flush()),
        false => writeln!(io::stderr(), "byway: {event}"),
    };
}

/// A path alone means an image.
fn uri_of(device: &str) -> Result<String> {
    let begins = |schemes: &[&str]| schemes.iter().any(|scheme| device.starts_with(scheme));
    ensure!(
        !begins(&["blocks:", "nil:", "file:", "vfio-user:", "pci:"]),
        "{device} has no controller that could be served: expected an image's path, embedded:PATH, ram:SIZE or null:SIZE"
    );
    let is_uri = begins(&["embedded:", "ram:", "null:"]);
    Ok(if is_uri { device.to_owned() } else { format!("embedded:{device}") })
}
