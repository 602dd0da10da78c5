//! What the terminal sees: data on standard output, and Ctrl-C.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use byway::ErrorKind;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure;
pub use crate::progress::Progress;
use crate::visible;

/// Exit code of a command that was interrupted: 128 and the number of the signal, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// The work was interrupted, and what became of it.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; {0}")]
pub struct Interrupted(pub Cow<'static, str>);

/// What becomes of puts.
const KEPT: &str = "every put that was acknowledged is kept";

/// Whether Ctrl-C or SIGTERM came. The first asks the work to end and close its device; the second ends the process.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system refuses a signal handler.
    pub fn listen() -> io::Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&came))?;
            signal_hook::flag::register(signal, Arc::clone(&came))?;
        }
        Ok(Self(came))
    }

    /// Ends the work if it was asked to.
    ///
    /// # Errors
    /// [`Interrupted`] once a signal came.
    pub fn check(&self) -> Result<(), Interrupted> {
        // Relaxed: the flag guards no other memory.
        if self.0.load(Ordering::Relaxed) { Err(Interrupted(KEPT.into())) } else { Ok(()) }
    }

    /// The same for work that puts nothing.
    ///
    /// # Errors
    /// [`Interrupted`] once a signal came, with what is `left`.
    pub fn checked(&self, left: &'static str) -> Result<(), Interrupted> {
        self.check().map_err(|_| Interrupted(left.into()))
    }

    /// The same for a callback that long work of the library calls, and that may end it.
    pub fn flow(&self) -> ControlFlow<()> {
        match self.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// What watched work ended in: where [`flow`](Self::flow) ended it, an interruption that `left` the rest so.
    ///
    /// # Errors
    /// The work's own; [`Interrupted`].
    pub fn ended<T>(&self, work: byway::Result<T>, left: &'static str) -> anyhow::Result<T> {
        match work {
            Err(error) if error.kind() == ErrorKind::Cancelled && self.check().is_err() => {
                Err(Interrupted(left.into()).into())
            }
            work => Ok(work?),
        }
    }

    /// Forgets the signals that came: what they ended is over, and the next one ends what is begun next.
    pub fn forget(&self) {
        // Relaxed: the flag guards no other memory.
        self.0.store(false, Ordering::Relaxed);
    }

    /// For work that looks at nothing and may end at any instant: a signal ends the process, and says what is `left`.
    ///
    /// # Errors
    /// When the system refuses a signal handler or a thread.
    pub fn ends_at_once(&self, left: &'static str) -> io::Result<()> {
        on_signal(move || {
            failure::report_interrupted("byway", &Interrupted(left.into()));
            std::process::exit(INTERRUPTED.into());
        })
    }

    /// For work that cannot be stopped: a signal has that said. A second one ends the process all the same.
    ///
    /// # Errors
    /// As [`ends_at_once`](Self::ends_at_once).
    pub fn has_to_wait(&self, why: &'static str) -> io::Result<()> {
        on_signal(move || note!("byway: {why}; a second Ctrl-C ends the program all the same"))
    }
}

/// Has a thread of its own do something at each signal that asks for an end.
///
/// # Errors
/// When the system refuses a signal handler or a thread.
pub fn on_signal(what: impl Fn() + Send + 'static) -> io::Result<()> {
    on_each_of(&[SIGINT, SIGTERM], what)
}

/// The same at each SIGHUP, which ends nothing then.
///
/// # Errors
/// As [`on_signal`].
pub fn on_hangup(what: impl Fn() + Send + 'static) -> io::Result<()> {
    on_each_of(&[SIGHUP], what)
}

fn on_each_of(signals: &[i32], what: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            what();
        }
    })?;
    Ok(())
}

/// Writes one JSON object as a line on standard output.
///
/// # Errors
/// Those of standard output.
pub fn print_json(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    let text = serde_json::to_string(value).map_err(io::Error::from)?;
    out.write_all(visible::json(&text).as_bytes())?;
    out.write_all(b"\n")
}

/// Prints what was done: as one JSON object where that was asked for, else in words.
///
/// # Errors
/// Those of standard output.
pub fn print_done(
    out: &mut impl Write,
    json: bool,
    done: &(impl serde::Serialize + fmt::Display),
) -> io::Result<()> {
    if json { print_json(out, done) } else { put!(out, "{done}\n") }
}

/// Prints what was done as one JSON object, where that was asked for: without it the exit code says all of it.
///
/// # Errors
/// Those of standard output.
pub fn print_if_json(out: &mut impl Write, json: bool, done: &impl serde::Serialize) -> io::Result<()> {
    if json { print_json(out, done) } else { Ok(()) }
}
