//! Frames: a header of 8 bytes, then text.

use std::io::{self, ErrorKind, Read};

use crate::fields::Text;

/// Bytes of a header: length of the text (4), version (2), kind (2), all big-endian.
pub const HEADER_BYTES: usize = 8;

/// Version of the protocol.
pub const VERSION: u16 = 1;

/// Bytes of a request at most: the longest of a thousand names.
pub const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Bytes of all replies to a request at most, progress aside: room for the names of 16 requests, each as long as a request may be.
/// It leaves the first byte of a length 0, which no line of text begins with.
pub const REPLY_BYTES_MAX: u64 = (16 << 20) - 1;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// What is asked.
    Request = 1,
    /// How far it has come; others follow.
    Progress = 2,
    /// A part of the answer; others follow.
    Item = 3,
    /// It is done. The last reply.
    Done = 4,
    /// It cannot be done now, for this reason. The last reply.
    Busy = 5,
    /// It was not done, for this reason. The last reply.
    Refused = 6,
}

impl Kind {
    /// Every kind, with the word that a line of the release before begins with; none for those whose text has its own.
    const ALL: [(Self, &'static str); 6] = [
        (Self::Request, ""),
        (Self::Progress, "progress"),
        (Self::Item, ""),
        (Self::Done, "done"),
        (Self::Busy, "busy"),
        (Self::Refused, "refused"),
    ];

    fn of(number: u16) -> Option<Self> {
        Self::ALL.iter().map(|(kind, _)| *kind).find(|kind| *kind as u16 == number)
    }
}

/// Why bytes are no frame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It begins as a line of text does.
    #[error("it is a line of text, as releases before frames sent them")]
    Line,
    /// It has another version.
    #[error("it has version {0} of the protocol, not {VERSION}")]
    Version(u16),
    /// There is no such kind.
    #[error("it has kind {0}, which is none")]
    Kind(u16),
    /// It is longer than what it may have.
    #[error("it has {0} bytes, more than the limit")]
    TooLong(u32),
    /// Its text is no text.
    #[error("it is not UTF-8 text")]
    NotText,
    /// The system's error; `UnexpectedEof` for a frame that is cut off.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// Its text, as [`Fields`](crate::Fields) reads it.
    pub text: String,
}

impl Frame {
    /// A frame of that text.
    #[must_use]
    pub fn new(kind: Kind, text: Text) -> Self {
        Self { kind, text: text.finish() }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] for a text that no frame has room for.
    pub fn encode(&self) -> Result<Vec<u8>, FrameError> {
        let len = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        if u64::from(len) > REPLY_BYTES_MAX {
            return Err(FrameError::TooLong(len));
        }
        let header = [&len.to_be_bytes()[..], &VERSION.to_be_bytes(), &(self.kind as u16).to_be_bytes()];
        Ok([&header.concat()[..], self.text.as_bytes()].concat())
    }

    /// The line that stands for it at a client of the release before.
    pub(crate) fn to_line(&self) -> String {
        let word = Kind::ALL.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, word)| word);
        format!("{word}{}\n", self.text)
    }

    /// Reads one of at most `most_bytes` of text; `None` where nothing follows. Memory grows with what has arrived.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn read(from: &mut impl Read, most_bytes: u64) -> Result<Option<Self>, FrameError> {
        let (mut first, mut rest) = ([0], [0; HEADER_BYTES - 1]);
        match from.read_exact(&mut first) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        if first != [0] {
            return Err(FrameError::Line);
        }
        from.read_exact(&mut rest)?;
        let (kind, len) = header_of(rest, most_bytes)?;
        let mut text = Vec::new();
        from.take(u64::from(len)).read_to_end(&mut text)?;
        if text.len() != len as usize {
            return Err(FrameError::System(ErrorKind::UnexpectedEof.into()));
        }
        let text = String::from_utf8(text).map_err(|_| FrameError::NotText)?;
        Ok(Some(Self { kind, text }))
    }
}

/// Kind and length by a header without its first byte, which is 0. The version comes first: another one may mean other lengths.
fn header_of(rest: [u8; HEADER_BYTES - 1], most_bytes: u64) -> Result<(Kind, u32), FrameError> {
    let [b, c, d, version @ .., k, l] = rest;
    let (len, version) = (u32::from_be_bytes([0, b, c, d]), u16::from_be_bytes(version));
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    let number = u16::from_be_bytes([k, l]);
    let kind = Kind::of(number).ok_or(FrameError::Kind(number))?;
    match u64::from(len) > most_bytes {
        true => Err(FrameError::TooLong(len)),
        false => Ok((kind, len)),
    }
}
