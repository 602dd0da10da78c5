//! The client of a listener: its request, and how it is answered.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use byway_sys::handover;

use crate::fields::Text;
use crate::frame::{Frame, FrameError, Kind, REQUEST_BYTES_MAX};

/// Time for each read of the request and each write of a reply, not for the whole of either.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a client asks.
#[derive(Debug)]
pub struct Request {
    /// Its text, as [`Fields`](crate::Fields) reads it.
    pub text: String,
    /// Descriptors that came with it, at most [`handover::FILES_MAX`].
    pub files: Vec<OwnedFd>,
}

/// What a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Frames,
    /// Lines of the same fields, as releases before frames.
    Lines,
}

/// A connected client of a user that may ask.
#[derive(Debug)]
pub struct Client<'a> {
    stream: &'a UnixStream,
    form: Form,
}

impl<'a> Client<'a> {
    /// Checks the client's user, then reads its request. Refuses it with a reason where there is none to be answered.
    pub(crate) fn admit(
        stream: &'a UnixStream,
        of_another_user: &str,
    ) -> io::Result<Option<(Request, Self)>> {
        stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        let client = |form| Self { stream, form };
        if !handover::is_allowed(stream)? {
            return client(Form::Frames).refuse(of_another_user).map(|()| None);
        }
        let mut first = [0];
        let files = handover::receive_all(stream, &mut first)?;
        match Frame::read(&mut first.as_slice().chain(stream), REQUEST_BYTES_MAX) {
            Ok(Some(Frame { kind: Kind::Request, text })) => {
                Ok(Some((Request { text, files }, client(Form::Frames))))
            }
            Err(FrameError::Line) => {
                let text = line_after(first, stream)?;
                Ok(Some((Request { text, files }, client(Form::Lines))))
            }
            Err(FrameError::System(error)) => Err(error),
            Err(why) => {
                client(Form::Frames).refuse(&format!("the request is not understood: {why}")).map(|()| None)
            }
            Ok(_) => client(Form::Frames).refuse("the request is a reply").map(|()| None),
        }
    }

    /// Sends replies.
    ///
    /// # Errors
    /// What the system says: the client has gone, or reads nothing.
    pub fn reply(&self, frames: &[Frame]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for frame in frames {
            match self.form {
                Form::Frames => bytes.extend(frame.encode().map_err(io::Error::other)?),
                Form::Lines => bytes.extend(frame.to_line().into_bytes()),
            }
        }
        let mut stream = self.stream;
        stream.write_all(&bytes)
    }

    /// Refuses the request for a reason.
    ///
    /// # Errors
    /// Those of [`Self::reply`].
    pub fn refuse(&self, why: &str) -> io::Result<()> {
        self.reply(&[Frame::new(Kind::Refused, Text::default().with(why))])
    }
}

/// The line that begins with a byte; what has no end in time, or within the limit, is an empty one.
fn line_after(first: [u8; 1], rest: &UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    BufReader::new(first.as_slice().chain(rest).take(REQUEST_BYTES_MAX)).read_until(b'\n', &mut line)?;
    let line = line.strip_suffix(b"\n").unwrap_or_default();
    Ok(String::from_utf8(line.to_vec()).unwrap_or_default())
}
