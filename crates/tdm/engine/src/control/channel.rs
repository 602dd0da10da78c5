//! A connection: messages with their descriptors, one request at a time.

use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use byway_sys::handover;

use crate::control::message::{MESSAGE_BYTES, Message, Reply, Request};
use crate::control::stopped::is_stopped;

/// The longest text that a reply announces.
const TEXT_MAX_BYTES: u32 = 64 << 20;

/// A daemon that has not read a question after so long stands still (SIGSTOP). One that has read it may take longer: it may have to sync a file.
const STILL: Duration = Duration::from_secs(1);

fn stands_still() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "whoever listens there stands still")
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    still: Duration,
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process when it connected, zero for one of a PID namespace that is not seen from here.
    pub pid: i32,
}

impl Channel {
    /// Connects to a daemon. It answers within `patience`, or is taken for gone.
    ///
    /// # Errors
    /// What the system says; `PermissionDenied` where another user listens there, who would be handed our files; `TimedOut` where who listens
    /// was stopped.
    pub fn connect(socket: &Path, patience: Duration) -> io::Result<Self> {
        Self::connect_unless_still(socket, patience, STILL)
    }

    /// The same, where a daemon that lets nobody in, or does not read a question, for so long is taken for gone as well.
    ///
    /// # Errors
    /// As [`Channel::connect`].
    pub fn connect_unless_still(socket: &Path, patience: Duration, still: Duration) -> io::Result<Self> {
        let stream = handover::connect(socket, still)?;
        stream.set_read_timeout(Some(patience))?;
        let channel = Self { stream, still };
        let Peer { uid, pid } = channel.peer()?;
        if uid != 0 && uid != rustix::process::geteuid().as_raw() {
            let why = format!("user {uid} listens there, who is neither root nor this program's");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        // Each program would wait for it to read the first question.
        if is_stopped(pid) { Err(stands_still()) } else { Ok(channel) }
    }

    /// The daemon's end of a connection.
    #[must_use]
    pub const fn accepted(stream: UnixStream) -> Self {
        Self { stream, still: STILL }
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// What the system says.
    pub fn peer(&self) -> io::Result<Peer> {
        let (uid, pid) = handover::peer(&self.stream)?;
        Ok(Peer { uid, pid })
    }

    /// Asks, with the files that belong to it; waits for the reply and those that belong to that.
    ///
    /// # Errors
    /// What the system says; `TimedOut` where nobody reads the question, `InvalidData` for a reply that is none.
    pub fn ask(&self, request: Request, files: &[BorrowedFd<'_>]) -> io::Result<(Reply, Vec<OwnedFd>)> {
        handover::send_all(&self.stream, &request.encode(), files)?;
        if handover::is_left_unread(&self.stream, self.still)? {
            return Err(stands_still());
        }
        let mut bytes = [0; MESSAGE_BYTES];
        let files = handover::receive_all(&self.stream, &mut bytes)?;
        let reply = Reply::decode(&bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok((reply, files))
    }

    /// The text behind a reply that announced it.
    ///
    /// # Errors
    /// What the system says; `InvalidData` for one that is too long, or no text.
    pub fn text(&self, len_bytes: u32) -> io::Result<String> {
        if len_bytes > TEXT_MAX_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; len_bytes as usize];
        (&self.stream).read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    /// The next message as bytes, with the files that came along.
    ///
    /// # Errors
    /// What the system says; `UnexpectedEof` once the other end is gone.
    pub fn receive(&self) -> io::Result<(Message, Vec<OwnedFd>)> {
        let mut bytes = [0; MESSAGE_BYTES];
        let files = handover::receive_all(&self.stream, &mut bytes)?;
        Ok((bytes, files))
    }

    /// Answers, with the files that belong to it and the text that it announced.
    ///
    /// # Errors
    /// What the system says.
    pub fn reply(&self, reply: Reply, files: &[BorrowedFd<'_>], text: &[u8]) -> io::Result<()> {
        handover::send_all(&self.stream, &reply.encode(), files)?;
        (&self.stream).write_all(text)
    }
}
