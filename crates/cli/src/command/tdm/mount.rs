//! `byway tdm mount`: mounts a folder until it is stopped.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use anyhow::Result;
use byway_console::size::counted;
use byway_console::terminal::{on_signal, print_done};
use byway_tdm_mount::{Departure, MountError, Mounted, Options};
use serde::Serialize;

use crate::args::TdmMount;

/// An event of a mount.
enum Event {
    Signal,
    /// The mount has ended.
    Ended(io::Result<()>),
}

/// Mounts until a signal, or until a user unmounts it.
///
/// # Errors
/// It cannot be mounted, or the kernel ends it by an error.
pub fn run(args: &TdmMount, out: &mut impl Write) -> Result<()> {
    let (say, reported) = channel();
    let ended = say.clone();
    on_signal(move || {
        // A signal after the end has no receiver.
        let _ = say.send(Event::Signal);
    })?;
    let options =
        Options::new(&args.folder, args.socket.path()?).at(args.at.clone()).allow_other(args.allow_other);
    let mounted = Mounted::begin(&options, move |result| {
        let _ = ended.send(Event::Ended(result));
    })?;
    if let Some(why) = mounted.unserved() {
        let cause = why.source().map_or_else(String::new, |cause| format!(": {cause}"));
        note!("byway: {why}{cause}: files are the kernel's alone until one serves (`byway tdm serve`)");
    }
    let begun =
        Begun { event: "mounted", folder: &args.folder, at: mounted.at(), serves: is_served(&mounted) };
    print_done(out, args.json, &begun)?;
    out.flush()?;
    until_ended(&mounted, &reported)?;
    print_done(out, args.json, &Closed { event: "closed", settled: mounted.settle() })?;
    Ok(out.flush()?)
}

fn is_served(mounted: &Mounted) -> bool {
    mounted.unserved().is_none()
}

/// Waits for the end. The first signal unmounts; the second ends the process even if files are open.
fn until_ended(mounted: &Mounted, reported: &Receiver<Event>) -> Result<()> {
    for event in reported {
        match event {
            Event::Ended(result) => return Ok(result?),
            Event::Signal => leave(mounted)?,
        }
    }
    Ok(())
}

fn leave(mounted: &Mounted) -> Result<(), MountError> {
    if mounted.leave()? == Departure::Busy {
        note!(
            "byway: {} is in use: it has no name any more, and ends when the last file is closed; Ctrl-C again ends it at once",
            mounted.at().display()
        );
    }
    Ok(())
}

/// Printed when programs may use the mount.
#[derive(Serialize)]
struct Begun<'a> {
    event: &'static str,
    folder: &'a Path,
    at: &'a Path,
    serves: bool,
}

impl fmt::Display for Begun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (folder, at) = (self.folder.display(), self.at.display());
        let how = if self.serves { "files are served as under `byway tdm run`" } else { "unserved" };
        match std::path::absolute(self.folder).unwrap_or_else(|_| PathBuf::new()) == self.at {
            true => write!(f, "mounted {at} over itself: {how}"),
            false => write!(f, "mounted {folder} at {at}: {how}"),
        }
    }
}

/// Printed at the end.
#[derive(Serialize)]
struct Closed {
    event: &'static str,
    settled: usize,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = counted(self.settled as u64, "file");
        write!(f, "closed: {files} taken down to the kernel, synced")
    }
}
