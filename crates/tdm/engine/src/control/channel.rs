//! A connection: messages with descriptors, one request at a time.

use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use byway_sys::handover;

use crate::control::message::{MESSAGE_BYTES, Message, Reply, Request};
use crate::control::stopped::is_stopped;

/// Longest text of a reply.
const TEXT_MAX_BYTES: u32 = 64 << 20;

/// Time limit for reading a request: a daemon that has not read it is stopped (SIGSTOP). Answering may take longer, as it may sync a file.
const STOPPED_WAIT: Duration = Duration::from_secs(1);

fn stopped_error() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the daemon is not responding (stopped?)")
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    read_timeout: Duration,
}

/// The process at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process number when it connected; zero if it is not visible from this PID namespace.
    pub pid: i32,
}

impl Channel {
    /// Connects to a daemon that answers within `timeout`.
    ///
    /// # Errors
    /// The system's error; `PermissionDenied` if another user listens there, who would receive our files; `TimedOut` if the daemon is stopped.
    pub fn connect(socket: &Path, timeout: Duration) -> io::Result<Self> {
        Self::connect_unless_stopped(socket, timeout, STOPPED_WAIT)
    }

    /// As [`Channel::connect`], with another time limit for connecting and for reading a request.
    ///
    /// # Errors
    /// As [`Channel::connect`].
    pub fn connect_unless_stopped(
        socket: &Path,
        timeout: Duration,
        read_timeout: Duration,
    ) -> io::Result<Self> {
        let stream = handover::connect(socket, read_timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        let channel = Self { stream, read_timeout };
        let Peer { uid, pid } = channel.peer()?;
        if uid != 0 && uid != rustix::process::geteuid().as_raw() {
            let why = format!("user {uid} listens there, who is neither root nor this program's");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        // Checked first: each program would wait for its first request.
        if is_stopped(pid) { Err(stopped_error()) } else { Ok(channel) }
    }

    /// The daemon's end of a connection.
    #[must_use]
    pub const fn accepted(stream: UnixStream) -> Self {
        Self { stream, read_timeout: STOPPED_WAIT }
    }

    /// The process at the other end.
    ///
    /// # Errors
    /// What the system says.
    pub fn peer(&self) -> io::Result<Peer> {
        let (uid, pid) = handover::peer(&self.stream)?;
        Ok(Peer { uid, pid })
    }

    /// Sends a request with its files; returns the reply and its files.
    ///
    /// # Errors
    /// The system's error; `TimedOut` if the daemon does not read the request, `InvalidData` for a malformed reply.
    pub fn ask(&self, request: Request, files: &[BorrowedFd<'_>]) -> io::Result<(Reply, Vec<OwnedFd>)> {
        handover::send_all(&self.stream, &request.encode(), files)?;
        if handover::is_left_unread(&self.stream, self.read_timeout)? {
            return Err(stopped_error());
        }
        let mut bytes = [0; MESSAGE_BYTES];
        let files = handover::receive_all(&self.stream, &mut bytes)?;
        let reply = Reply::decode(&bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok((reply, files))
    }

    /// The text announced by a reply.
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

    /// Receives a message and its files.
    ///
    /// # Errors
    /// What the system says; `UnexpectedEof` once the other end is gone.
    pub fn receive(&self) -> io::Result<(Message, Vec<OwnedFd>)> {
        let mut bytes = [0; MESSAGE_BYTES];
        let files = handover::receive_all(&self.stream, &mut bytes)?;
        Ok((bytes, files))
    }

    /// Sends a reply with its files and text.
    ///
    /// # Errors
    /// What the system says.
    pub fn reply(&self, reply: Reply, files: &[BorrowedFd<'_>], text: &[u8]) -> io::Result<()> {
        handover::send_all(&self.stream, &reply.encode(), files)?;
        (&self.stream).write_all(text)
    }
}
