//! Keys of one Retrieve Many and the result that is made of them.

use byway_kv::PREFETCH_GROUP;
use byway_spec::vendor::{Found, FoundValue, ScanHeader, read_many_keys};
use byway_spec::{Command, Key};
use zerocopy::IntoBytes;

use super::retrieve_many::RetrieveMany;
use crate::data_pointer;
use crate::error::CommandError;
use crate::payload::{HostData, Mapped, Stage};
use crate::port::Port;

/// Values in a result are padded to this.
const ALIGN_BYTES: usize = 4;

/// Bytes of one key in a result, without its value.
const HEAD_BYTES: usize = size_of::<FoundValue>();

/// Bytes that are kept for the results of further commands.
const KEPT_BYTES: usize = 64 << 10;

const OTHER_LENGTH: CommandError =
    CommandError::data_length("the request came not at all, or not in the length that the command says");
const WRONG_REQUEST: CommandError = CommandError::invalid_field("the request is no list of keys");

/// What a look-up found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A value of `len` bytes, of which as much was copied as there was room for.
    Value { len: u32 },
    /// There is no such key.
    Absent,
    /// The value could not be read.
    Unreadable,
}

/// Keys of one Retrieve Many, and its result as far as it is made. Reused for the next one.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    keys: Vec<Key>,
    /// Keys that are in the result.
    answered: usize,
    /// Values that are in the result.
    values: u32,
    /// The request, then the result in the first `filled` bytes.
    bytes: Vec<u8>,
    filled: usize,
    /// Where the result ends at the latest.
    end: usize,
    prefix_bytes: usize,
}

impl Lookups {
    /// Maps the host's buffer and reads the request: from `carried` over a fabric, else from the buffer.
    ///
    /// # Errors
    /// A command or request out of bounds, or a data pointer that does not name the buffer.
    pub fn receive(
        &mut self,
        port: &mut Port<'_>,
        (mapped, stage): (&mut Mapped, &mut Stage),
        command: &Command,
        carried: Option<&[u8]>,
        whole_pages: bool,
    ) -> Result<(), CommandError> {
        let many = RetrieveMany::parse(command)?;
        let buffer_bytes = many.buffer_bytes;
        let data = data_pointer::map_buffer(port, mapped, command, buffer_bytes, buffer_bytes, whole_pages)?;
        self.begin(&many);
        match carried {
            Some(request) if request.len() == many.request_bytes => self.take_keys(request, many.keys),
            Some(_) => Err(OTHER_LENGTH),
            None if port.capsule.is_some() => Err(OTHER_LENGTH),
            None => {
                let mut bytes = std::mem::take(&mut self.bytes);
                let request = &mut bytes[..many.request_bytes];
                let taken = data.source(stage).fill(port, request);
                let taken = taken.and_then(|()| self.take_keys(request, many.keys));
                self.bytes = bytes;
                taken
            }
        }
    }

    fn begin(&mut self, many: &RetrieveMany) {
        self.keys.clear();
        (self.answered, self.values) = (0, 0);
        if self.bytes.len() < many.buffer_bytes {
            self.bytes.resize(many.buffer_bytes, 0);
        }
        self.filled = size_of::<ScanHeader>();
        self.end = many.buffer_bytes - many.buffer_bytes % ALIGN_BYTES;
        self.prefix_bytes = many.prefix_bytes;
    }

    fn take_keys(&mut self, request: &[u8], count: usize) -> Result<(), CommandError> {
        read_many_keys(request, count, |key| self.keys.push(key)).map_err(|_| WRONG_REQUEST)
    }

    /// The next keys to look up, at most [`PREFETCH_GROUP`]; none once all are answered.
    #[inline]
    pub fn next_group(&self) -> &[Key] {
        let left = self.keys.get(self.answered..).unwrap_or_default();
        &left[..left.len().min(PREFETCH_GROUP)]
    }

    /// Has `look_up` look the next key up, given room for its value, and adds what it found to the result. `None` if it found
    /// nothing out: the key is the next one still.
    #[inline]
    pub fn answer(&mut self, look_up: impl FnOnce(&Key, &mut [u8]) -> Option<Lookup>) -> Option<()> {
        let key = self.keys.get(self.answered)?;
        // The heads of the keys behind it always have room.
        let heads_bytes = (self.keys.len() - self.answered) * HEAD_BYTES;
        let value_at = self.filled + HEAD_BYTES;
        let room_bytes = (self.end - self.filled - heads_bytes).min(self.prefix_bytes);
        let found = look_up(key, &mut self.bytes[value_at..value_at + room_bytes])?;
        let (found, value_len, moved) = match found {
            Lookup::Value { len } if (len as usize).min(self.prefix_bytes) <= room_bytes => {
                self.values += 1;
                (Found::VALUE, len, (len as usize).min(room_bytes))
            }
            Lookup::Value { len } => (Found::NO_ROOM, len, 0),
            Lookup::Absent => (Found::ABSENT, 0, 0),
            Lookup::Unreadable => (Found::UNREADABLE, 0, 0),
        };
        let head = FoundValue { found: found.0, value_len, value_moved: moved as u32 };
        self.bytes[self.filled..value_at].copy_from_slice(head.as_bytes());
        self.filled = value_at + moved.next_multiple_of(ALIGN_BYTES);
        self.bytes[value_at + moved..self.filled].fill(0);
        self.answered += 1;
        Some(())
    }

    /// Values in the result.
    #[inline]
    pub const fn values(&self) -> u32 {
        self.values
    }

    /// Bytes of the result.
    #[inline]
    pub const fn result_bytes(&self) -> usize {
        self.filled
    }

    /// Sends the result to the host's buffer, which [`receive`](Self::receive) has mapped.
    ///
    /// # Errors
    /// A buffer that the host has unmapped meanwhile.
    pub fn send(
        &mut self,
        port: &mut Port<'_>,
        mapped: &mut Mapped,
        stage: &mut Stage,
    ) -> Result<(), CommandError> {
        let (count, bytes) = (self.answered as u32, self.filled as u32);
        let head = ScanHeader { count, bytes, is_end: 1, resume_len: 0 };
        self.bytes[..size_of::<ScanHeader>()].copy_from_slice(head.as_bytes());
        mapped.len_bytes = self.filled;
        let mut sink = HostData::Mapped(mapped).sink(stage)?;
        sink.put(port, &self.bytes[..self.filled])?;
        sink.finish(port)
    }

    /// Releases the memory of a long result.
    pub fn trim(&mut self) {
        if self.bytes.len() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}
