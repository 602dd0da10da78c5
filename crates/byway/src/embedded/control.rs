//! Requests from other processes to the one that has an image open.
//!
//! The socket is in the [folder of the user](crate::embedded::control_folder) whose process it is, under a name that follows from the
//! image's device and inode: it is there as long as the image is open, and every name of the image leads to it. Requests are
//! taken from the same user and from root. The file that a snapshot goes to is made by the client and handed over, once the
//! client knows that the listener is of its own user, of the image's owner or of root.
//!
//! While it copies, the listener reports progress five times a second, so that neither end waits for a stopped or silent
//! peer. A copy is cancelled once its client is gone. A device that closes waits for a copy under way, and for nothing else.

use std::fs::File;
use std::io::{BufReader, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use byway_core::{Error, ErrorKind, Result};
use byway_flash::Flash;
use byway_local::{Embedded, Handle};
use byway_sys::{CopyFile, handover};

use crate::embedded::answering::Answering;
use crate::embedded::control_folder::{ControlSocket, OpenImage, Purpose, connect};
use crate::embedded::copying::{SnapshotReport, copy_in_use, given_up};
use crate::embedded::reply_line::{REPLY_BYTES_MAX, next_line};

/// A client sends its request, and takes its answer, within this time.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// A process that has an image open answers or reports progress within this time.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of progress reports.
const SIGN_OF_LIFE: Duration = Duration::from_millis(200);

/// Takes requests for copies of a device's image until the device is closed; where, or why not.
pub(crate) fn start(image: Option<&OpenImage>, device: &mut Embedded) -> ControlSocket {
    let Some(image) = image else {
        return ControlSocket::Missing("a device in memory has no image".to_owned());
    };
    if image.is_shared() {
        let why = "an image that is open to be read is copied without its process";
        return ControlSocket::Missing(why.to_owned());
    }
    let handle = device.handle();
    let started = image.listen(Purpose::Snapshot).and_then(|(socket, path)| {
        let started = Answering::start(socket, "byway-control", move |stream| answer(stream, &handle));
        started.map(|answering| (answering, path)).map_err(|error| error.to_string())
    });
    match started {
        Ok((answering, path)) => {
            device.keep(answering);
            ControlSocket::At(path)
        }
        Err(why) => ControlSocket::Missing(why),
    }
}

/// Answers requests for copies of an image that this process replaces by one of another size: it is busy until then. `None`
/// where no socket can be had, which leaves clients with a less exact reason.
pub(crate) fn refuse_while_resized(flash: &Flash) -> Option<Answering> {
    let (door, _) = OpenImage::of(flash)?.listen(Purpose::Snapshot).ok()?;
    let refuse = |mut stream: &UnixStream| {
        stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        // What is left unread when a socket is closed takes the answer with it.
        handover::receive(stream)?;
        stream.write_all(b"busy is in use by a resize; try again once that has ended\n")
    };
    Answering::start(door, "byway-control", refuse).ok()
}

fn answer(mut stream: &UnixStream, handle: &Handle) -> std::io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    if !handover::is_allowed(stream)? {
        return stream.write_all(b"error the image belongs to another user\n");
    }
    let Some(to) = handover::receive(stream)? else {
        return stream.write_all(b"error the request names no file\n");
    };
    // The client names the copy.
    match copy_for(stream, handle, CopyFile::new(File::from(to), Path::new(""))) {
        Ok(report) => writeln!(stream, "done {} {}", report.pause_ns, report.copied_bytes),
        Err(error) => writeln!(stream, "error {error}"),
    }
}

/// Makes the copy and reports its progress every 200 ms. Cancels it once the client is gone.
fn copy_for(mut stream: &UnixStream, handle: &Handle, to: CopyFile) -> Result<SnapshotReport> {
    let (copied_bytes, client_gone) = &(AtomicU64::new(0), AtomicBool::new(false));
    let (ended, ends) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let reporter = scope.spawn(move || {
            while ends.recv_timeout(SIGN_OF_LIFE) == Err(mpsc::RecvTimeoutError::Timeout) {
                if writeln!(stream, "copied {}", copied_bytes.load(Ordering::Relaxed)).is_err() {
                    return client_gone.store(true, Ordering::Relaxed);
                }
            }
        });
        let made = copy_in_use(handle, to, &mut |bytes| {
            copied_bytes.store(bytes, Ordering::Relaxed);
            match client_gone.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        drop(ended);
        // Before the answer is written.
        let _ = reporter.join();
        made
    })
}

/// Asks the process that has the image at `image` open to copy it into a file. `watch` gets the bytes copied so far.
pub(crate) fn ask_for_snapshot(
    image: &Path,
    to: &File,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<SnapshotReport> {
    let unreachable = |why| {
        let said = format!(
            "{} is open in a process that cannot be asked for a copy: {why}; if that is a short command, try again",
            image.display()
        );
        Error::host(ErrorKind::Busy, said)
    };
    let stream = connect(image, Purpose::Snapshot, SERVER_TIMEOUT).map_err(unreachable)?;
    let system = |e| Error::kernel("ask for a snapshot", e);
    stream.set_read_timeout(Some(SERVER_TIMEOUT)).map_err(system)?;
    stream.set_write_timeout(Some(SERVER_TIMEOUT)).map_err(system)?;
    handover::send(&stream, to).map_err(system)?;
    let mut stream = BufReader::new(stream);
    // No limit to the number of lines: a long copy has many, and none is kept.
    let mut next = || next_line(&mut stream, REPLY_BYTES_MAX).map_err(|error| unanswered(image, error));
    while let Some(line) = next()? {
        match Said::of(&line) {
            Said::Copied(bytes) if watch(bytes).is_break() => return Err(given_up()),
            Said::Copied(_) => {}
            Said::Done(report) => return Ok(report),
            Said::Busy(why) => {
                return Err(Error::host(ErrorKind::Busy, format!("{} {why}", image.display())));
            }
            Said::Refused(why) => {
                let said = format!("the process that has {} open: {why}", image.display());
                return Err(Error::host(ErrorKind::System, said));
            }
        }
    }
    let said = format!("the process that has {} open ended before the copy was made", image.display());
    Err(Error::host(ErrorKind::System, said))
}

fn unanswered(image: &Path, error: std::io::Error) -> Error {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    if !matches!(error.kind(), TimedOut | WouldBlock) {
        return Error::kernel("ask for a snapshot", error);
    }
    let (image, seconds) = (image.display(), SERVER_TIMEOUT.as_secs());
    let said = format!("the process that has {image} open said nothing for {seconds} seconds");
    Error::host(ErrorKind::TimedOut, said)
}

/// A line of the process that makes the copy.
#[derive(Debug, PartialEq, Eq)]
enum Said<'a> {
    Copied(u64),
    Done(SnapshotReport),
    /// The image cannot be copied now.
    Busy(&'a str),
    Refused(&'a str),
}

impl<'a> Said<'a> {
    fn of(line: &'a str) -> Self {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let understood = match word {
            "copied" => rest.parse().ok().map(Self::Copied),
            "done" => report(rest).map(Self::Done),
            "busy" => Some(Self::Busy(rest)),
            _ => None,
        };
        understood.unwrap_or(Self::Refused(line.strip_prefix("error ").unwrap_or(line)))
    }
}

fn report(said: &str) -> Option<SnapshotReport> {
    let (pause_ns, copied_bytes) = said.split_once(' ')?;
    Some(SnapshotReport { pause_ns: pause_ns.parse().ok()?, copied_bytes: copied_bytes.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_reply_is_reported_verbatim() {
        assert_eq!(Said::of("copied 7"), Said::Copied(7));
        let report = SnapshotReport { pause_ns: 5, copied_bytes: 6 };
        assert_eq!(Said::of("done 5 6"), Said::Done(report));
        assert_eq!(Said::of("busy is in use"), Said::Busy("is in use"));
        assert_eq!(Said::of("error the disk is full"), Said::Refused("the disk is full"));
        assert_eq!(Said::of("done 5"), Said::Refused("done 5"));
    }
}
