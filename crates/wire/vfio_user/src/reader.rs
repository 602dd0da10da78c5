//! The incremental reader: bytes in, messages out.
//!
//! **Assigning descriptors to messages.** A stream socket delivers descriptors with the bytes they were sent with,
//! and one `recvmsg` never reads past the end of such a piece (`unix(7)`). So descriptors that come with a chunk
//! belong to the message that contains the chunk's last byte. This holds if the peer sends each message separately,
//! as all known peers do. The reader accepts chunks of any size.

use crate::{Broken, Command, HEADER_BYTES, Header, Kind, WireError};

/// How much is taken of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of data of a read or a write: what VERSION agreed on as `max_data_xfer_size`.
    pub data_bytes: usize,
    /// Descriptors with one message: what VERSION agreed on as `max_msg_fds`.
    pub fds: usize,
}

impl Default for Limits {
    /// The protocol's default of 1 MiB, and QEMU's of 8 descriptors.
    fn default() -> Self {
        Self { data_bytes: 1 << 20, fds: 8 }
    }
}

impl Limits {
    /// Fixed parts, lists and texts of any message that is not data: version texts, areas, small writes.
    const OTHER_BYTES: usize = 16 << 10;

    /// The largest payload accepted for `command`.
    fn payload_bytes(&self, command: Command) -> usize {
        match command {
            Command::REGION_READ | Command::REGION_WRITE | Command::DMA_READ | Command::DMA_WRITE => {
                self.data_bytes.saturating_add(Self::OTHER_BYTES)
            }
            _ => Self::OTHER_BYTES,
        }
    }
}

/// A complete message.
#[derive(Debug)]
pub struct Message<'a, F> {
    /// Header of the message.
    pub header: Header,
    /// What follows the header: for [`Request::parse`](crate::Request::parse) or [`Reply::parse`](crate::Reply::parse).
    pub payload: &'a [u8],
    /// Its descriptors; those not taken are closed when the message is dropped.
    pub fds: Vec<F>,
}

/// A message, or a refusal, read from the stream.
#[derive(Debug)]
pub enum Incoming<'a, F> {
    /// A message.
    Message(Message<'a, F>),
    /// An invalid message. Its payload was skipped and its descriptors closed. If its sender waits for a reply,
    /// answer it with [`encode_error`](crate::encode_error).
    Refused {
        /// Header of the message.
        header: Header,
        /// Why not.
        why: WireError,
    },
}

/// State of the message being received.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The header is incomplete.
    Header,
    /// The payload is incomplete.
    Payload(Header),
    /// Its payload is being skipped.
    Skip(Header, WireError, u32),
}

/// Bytes in, messages out, for one direction of one socket. `F` is a descriptor.
///
/// Take out all messages after each push: then it holds no more bytes and descriptors than [`Limits`] allow for one message,
/// and one chunk.
#[derive(Debug)]
pub struct Reader<F> {
    limits: Limits,
    state: State,
    buffer: Vec<u8>,
    /// Consumed bytes of the buffer, removed at the next push.
    taken: usize,
    /// Descriptors, each with the stream position of the last byte it came with.
    fds: Vec<(u64, F)>,
    /// Descriptors that were closed because the limit was met, with such a position.
    dropped: Option<(u64, usize)>,
    /// Stream position at which descriptors were lost because the process had no free ones.
    lost: Option<u64>,
    /// Position in the stream of the buffer's first byte.
    base: u64,
}

impl<F> Reader<F> {
    /// A reader at the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Header,
            buffer: Vec::new(),
            taken: 0,
            fds: Vec::new(),
            dropped: None,
            lost: None,
            base: 0,
        }
    }

    /// Other limits from the next message on, once VERSION has agreed on them.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Adds the bytes and descriptors of one `recvmsg`.
    pub fn push(&mut self, bytes: &[u8], fds: impl IntoIterator<Item = F>) {
        self.buffer.drain(..self.taken);
        self.base += self.taken as u64;
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
        let last = self.last();
        for fd in fds {
            self.keep(last, fd);
        }
    }

    /// Notes that descriptors of the last push were lost (`MSG_CTRUNC`). Their message is refused, as it would mean
    /// something else without them.
    pub fn note_lost_fds(&mut self) {
        self.lost = Some(self.last());
    }

    /// Stream position of the last byte received.
    fn last(&self) -> u64 {
        (self.base + self.buffer.len() as u64).saturating_sub(1)
    }

    /// Stores a descriptor, or closes it if the message already has the maximum. This bounds a peer's descriptors in
    /// this process, however a long message is cut.
    fn keep(&mut self, last: u64, fd: F) {
        if self.fds.len() < self.limits.fds {
            self.fds.push((last, fd));
            return;
        }
        let before = self.dropped.map_or(0, |(_, count)| count);
        self.dropped = Some((last, before + 1));
    }

    /// Whether [`next`](Self::next) would return something. Skips the payload of refused messages.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn is_ready(&mut self) -> Result<bool, Broken> {
        if self.state == State::Header && !self.begin()? {
            return Ok(false);
        }
        let here = self.pending().len();
        Ok(match &mut self.state {
            State::Header => false,
            State::Payload(header) => here >= payload_bytes(header),
            State::Skip(_, _, left) => {
                let skipped = here.min(*left as usize);
                self.taken += skipped;
                *left -= skipped as u32;
                *left == 0
            }
        })
    }

    /// The next message, or `None` until more is pushed.
    ///
    /// # Errors
    /// When the boundaries of messages are lost: the connection is to be closed.
    #[expect(clippy::should_implement_trait, reason = "what it gives is lent from the reader")]
    pub fn next(&mut self) -> Result<Option<Incoming<'_, F>>, Broken> {
        if !self.is_ready()? {
            return Ok(None);
        }
        Ok(match std::mem::replace(&mut self.state, State::Header) {
            State::Payload(header) => Some(self.finish(header)),
            State::Skip(header, why, _) => {
                self.take_fds();
                self.take_loss();
                Some(Incoming::Refused { header, why })
            }
            State::Header => None,
        })
    }

    /// Whether no message is partly received: the stream may end here.
    pub fn is_between_messages(&self) -> bool {
        self.state == State::Header && self.taken == self.buffer.len()
    }

    fn pending(&self) -> &[u8] {
        self.buffer.get(self.taken..).unwrap_or_default()
    }

    /// Parses the next header; false if it is incomplete.
    fn begin(&mut self) -> Result<bool, Broken> {
        let Some(bytes) = self.pending().first_chunk::<HEADER_BYTES>() else { return Ok(false) };
        let header = Header::parse(bytes);
        let payload_bytes = (header.size_bytes as usize)
            .checked_sub(HEADER_BYTES)
            .ok_or(Broken { size_bytes: header.size_bytes })?;
        self.taken += HEADER_BYTES;
        self.state = match self.refusal(&header, payload_bytes) {
            Some(why) => State::Skip(header, why, payload_bytes as u32),
            None => State::Payload(header),
        };
        Ok(true)
    }

    fn refusal(&self, header: &Header, payload_bytes: usize) -> Option<WireError> {
        if let Kind::Unknown(kind) = header.kind {
            return Some(WireError::UnknownKind(kind));
        }
        if !header.command.is_known() {
            return Some(WireError::UnknownCommand(header.command));
        }
        let limit_bytes = self.limits.payload_bytes(header.command);
        (payload_bytes > limit_bytes).then_some(WireError::TooLong {
            command: header.command,
            message_bytes: header.size_bytes,
            limit_bytes: limit_bytes.saturating_add(HEADER_BYTES),
        })
    }

    /// Returns the message, whose payload is complete.
    fn finish(&mut self, header: Header) -> Incoming<'_, F> {
        let begin = self.taken;
        self.taken += payload_bytes(&header);
        let are_lost = self.take_loss();
        let (fds, dropped) = self.take_fds();
        if are_lost {
            return Incoming::Refused { header, why: WireError::LostFds };
        }
        if fds.len() + dropped > self.limits.fds {
            let why = WireError::TooManyFds { fds: fds.len() + dropped, limit: self.limits.fds };
            return Incoming::Refused { header, why };
        }
        let payload = self.buffer.get(begin..self.taken).unwrap_or_default();
        Incoming::Message(Message { header, payload, fds })
    }

    /// Whether descriptors were lost before the pending bytes; resets the mark.
    fn take_loss(&mut self) -> bool {
        let end = self.base + self.taken as u64;
        self.lost.take_if(|last| *last < end).is_some()
    }

    /// Removes the descriptors received before the pending bytes; also returns how many were closed.
    fn take_fds(&mut self) -> (Vec<F>, usize) {
        let end = self.base + self.taken as u64;
        let mine = self.fds.iter().take_while(|(last, _)| *last < end).count();
        let fds = self.fds.drain(..mine).map(|(_, fd)| fd).collect();
        let dropped = self.dropped.take_if(|(last, _)| *last < end).map_or(0, |(_, count)| count);
        (fds, dropped)
    }
}

/// Payload bytes according to `header`.
const fn payload_bytes(header: &Header) -> usize {
    (header.size_bytes as usize).saturating_sub(HEADER_BYTES)
}
