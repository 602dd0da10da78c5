//! Requests from other processes to the one that has an image open.
//!
//! A request is a frame of [`byway_admin`], with the descriptor of the copy. The socket is in the [folder of the user](crate::embedded::control_folder) whose process it is, under a name that follows from the
//! image's device and inode: it is there as long as the image is open, and every name of the image leads to it. Requests are
//! taken from the same user and from root. The file that a snapshot goes to is made by the client and handed over, once the
//! client knows that the listener is of its own user, of the image's owner or of root.
//!
//! While it copies, the listener reports progress five times a second, so that neither end waits for a stopped or silent
//! peer. A copy is cancelled once its client is gone. A device that closes waits for a copy under way, and for nothing else.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use byway_admin::{Client, Fields, Frame, Kind, Listener, ReplyError, Request, Text};
use byway_core::{Error, ErrorKind, Result};
use byway_flash::Flash;
use byway_local::{Embedded, Handle};
use byway_sys::CopyFile;

use crate::embedded::control_folder::{ControlSocket, OpenImage, Purpose, connect};
use crate::embedded::copying::{SnapshotReport, copy_in_use, given_up};

/// The request, which comes with the descriptor of the copy.
const SNAPSHOT: &str = "snapshot";

/// The reason for other users.
const OF_ANOTHER_USER: &str = "the image belongs to another user";

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
        let answer = move |request, client: &Client<'_>| answer(request, client, &handle);
        let started = Listener::start(socket, "byway-control", OF_ANOTHER_USER, answer);
        started.map(|listener| (listener, path)).map_err(|error| error.to_string())
    });
    match started {
        Ok((listener, path)) => {
            device.keep(listener);
            ControlSocket::At(path)
        }
        Err(why) => ControlSocket::Missing(why),
    }
}

/// Answers requests for copies of an image that this process replaces by one of another size: it is busy until then. `None`
/// where no socket can be had, which leaves clients with a less exact reason.
pub(crate) fn refuse_while_resized(flash: &Flash) -> Option<Listener> {
    let (socket, _) = OpenImage::of(flash)?.listen(Purpose::Snapshot).ok()?;
    let refuse = |_, client: &Client<'_>| {
        client.reply(&[said(Kind::Busy, "is in use by a resize; try again once that has ended")])
    };
    Listener::start(socket, "byway-control", OF_ANOTHER_USER, refuse).ok()
}

/// A frame of one field.
fn said(kind: Kind, field: impl ToString) -> Frame {
    Frame::new(kind, Text::default().with(field))
}

fn answer(Request { text, files }: Request, client: &Client<'_>, handle: &Handle) -> io::Result<()> {
    if text != SNAPSHOT {
        return client.refuse("the request is not one that this process knows");
    }
    let Some(to) = files.into_iter().next() else {
        return client.refuse("the request names no file");
    };
    // The client names the copy.
    match copy_for(client, handle, CopyFile::new(File::from(to), Path::new(""))) {
        Ok(SnapshotReport { pause_ns, copied_bytes }) => {
            client.reply(&[Frame::new(Kind::Done, Text::default().with(pause_ns).with(copied_bytes))])
        }
        Err(error) => client.refuse(&error.to_string()),
    }
}

/// Makes the copy and reports its progress every 200 ms. Cancels it once the client is gone.
fn copy_for(client: &Client<'_>, handle: &Handle, to: CopyFile) -> Result<SnapshotReport> {
    let (copied_bytes, client_gone) = &(AtomicU64::new(0), AtomicBool::new(false));
    let (ended, ends) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let reporter = scope.spawn(move || {
            while ends.recv_timeout(SIGN_OF_LIFE) == Err(mpsc::RecvTimeoutError::Timeout) {
                if client.reply(&[said(Kind::Progress, copied_bytes.load(Ordering::Relaxed))]).is_err() {
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
    let mut replies = byway_admin::ask(stream, Text::of(SNAPSHOT), &[to.as_fd()]).map_err(system)?;
    loop {
        let frame = replies.next_reply().map_err(|error| unanswered(image, error))?;
        match Said::of(&frame) {
            Some(Said::Copied(bytes)) if watch(bytes).is_break() => return Err(given_up()),
            Some(Said::Copied(_)) => {}
            Some(Said::Done(report)) => return Ok(report),
            Some(Said::Busy(why)) => {
                return Err(Error::host(ErrorKind::Busy, format!("{} {why}", image.display())));
            }
            Some(Said::Refused(why)) => return Err(of_process(image, &format!(": {why}"))),
            None => return Err(unanswered(image, ReplyError::OtherRelease)),
        }
    }
}

fn of_process(image: &Path, what: &str) -> Error {
    let said = format!("the process that has {} open{what}", image.display());
    Error::host(ErrorKind::System, said)
}

fn unanswered(image: &Path, error: ReplyError) -> Error {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    match error {
        ReplyError::System(error) if matches!(error.kind(), TimedOut | WouldBlock) => {
            let (image, seconds) = (image.display(), SERVER_TIMEOUT.as_secs());
            let said = format!("the process that has {image} open said nothing for {seconds} seconds");
            Error::host(ErrorKind::TimedOut, said)
        }
        ReplyError::System(error) => Error::kernel("ask for a snapshot", error),
        ReplyError::Ended => of_process(image, " ended before the copy was made"),
        other => of_process(image, &format!(" {other}")),
    }
}

/// A reply of the process that makes the copy.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Copied(u64),
    Done(SnapshotReport),
    /// The image cannot be copied now.
    Busy(String),
    Refused(String),
}

impl Said {
    fn of(frame: &Frame) -> Option<Self> {
        let (_, mut fields) = Fields::of(&frame.text);
        Some(match frame.kind {
            Kind::Progress => Self::Copied(fields.parsed()?),
            Kind::Done => {
                let (pause_ns, copied_bytes) = (fields.parsed()?, fields.parsed()?);
                Self::Done(SnapshotReport { pause_ns, copied_bytes })
            }
            Kind::Busy => Self::Busy(fields.text()?),
            Kind::Refused => Self::Refused(fields.text()?),
            Kind::Request | Kind::Item => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_as_sent_and_others_are_of_another_release() {
        let report = SnapshotReport { pause_ns: 5, copied_bytes: 6 };
        let done = Text::default().with(5).with(6);
        assert_eq!(Said::of(&said(Kind::Progress, 7)), Some(Said::Copied(7)));
        assert_eq!(Said::of(&Frame::new(Kind::Done, done)), Some(Said::Done(report)));
        let why = "the disk\tis full".to_owned();
        assert_eq!(Said::of(&said(Kind::Busy, &why)), Some(Said::Busy(why.clone())));
        assert_eq!(Said::of(&said(Kind::Refused, &why)), Some(Said::Refused(why)));
        assert_eq!(Said::of(&said(Kind::Done, 5)), None);
        assert_eq!(Said::of(&said(Kind::Item, 5)), None);
    }
}
