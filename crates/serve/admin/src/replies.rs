//! The client's side: a request sent, its replies read.

use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use byway_sys::handover;

use crate::fields::Text;
use crate::frame::{Frame, FrameError, Kind, REPLY_BYTES_MAX};

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The listener speaks another version of the protocol.
    #[error("is of another release: restart it")]
    OtherRelease,
    /// The listener closed the connection before the last reply.
    #[error("ended before it had answered")]
    Ended,
    /// The system's error; `WouldBlock` where no reply came in time, `InvalidData` where replies are longer than they may be, or no
    /// text.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<FrameError> for ReplyError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Line | FrameError::Version(_) | FrameError::Kind(_) => Self::OtherRelease,
            FrameError::System(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Self::Ended,
                _ => Self::System(error),
            },
            FrameError::TooLong(_) => {
                let most = (REPLY_BYTES_MAX + 1) >> 20;
                malformed(format!("the reply is longer than {most} MiB, which is the most"))
            }
            FrameError::NotText => malformed("the reply is not UTF-8 text".to_owned()),
        }
    }
}

fn malformed(why: String) -> ReplyError {
    ReplyError::System(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Replies to a request, up to the last.
#[derive(Debug)]
pub struct Replies {
    stream: BufReader<UnixStream>,
    left_bytes: u64,
}

/// Sends a request with up to [`handover::FILES_MAX`] descriptors. The caller has checked whose process listens, and set the
/// stream's time limits.
///
/// # Errors
/// What the system says.
pub fn ask(stream: UnixStream, request: Text, files: &[BorrowedFd<'_>]) -> io::Result<Replies> {
    let request = Frame::new(Kind::Request, request).encode().map_err(io::Error::other)?;
    handover::send_all(&stream, &request, files)?;
    // A listener of a release before frames waits for the end of a line.
    stream.shutdown(Shutdown::Write)?;
    Ok(Replies { stream: BufReader::new(stream), left_bytes: REPLY_BYTES_MAX })
}

impl Replies {
    /// Waits for the next reply. Progress does not count towards the limit of bytes: a long copy reports it often.
    ///
    /// # Errors
    /// See [`ReplyError`].
    pub fn next_reply(&mut self) -> Result<Frame, ReplyError> {
        let frame = Frame::read(&mut self.stream, self.left_bytes)?.ok_or(ReplyError::Ended)?;
        match frame.kind {
            Kind::Progress => {}
            Kind::Request => return Err(ReplyError::OtherRelease),
            _ => self.left_bytes = self.left_bytes.saturating_sub(frame.text.len() as u64),
        }
        Ok(frame)
    }
}
