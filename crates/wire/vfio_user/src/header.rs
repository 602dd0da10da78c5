//! The header that every message begins with.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::Errno;
use crate::layout::put;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;

const KIND_MASK: u32 = 0xf;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

open_enum! {
    /// Command number of a message.
    pub struct Command(u16) {
        /// The first message: version and capabilities.
        VERSION = 1,
        /// Memory that the device may touch.
        DMA_MAP = 2,
        /// Memory that it may touch no more.
        DMA_UNMAP = 3,
        /// Gets type and size of the device.
        DEVICE_GET_INFO = 4,
        /// Gets size and mappable areas of a region.
        DEVICE_GET_REGION_INFO = 5,
        /// Gets descriptors that replace writes to a region.
        DEVICE_GET_REGION_IO_FDS = 6,
        /// Gets flags and count of an interrupt type.
        DEVICE_GET_IRQ_INFO = 7,
        /// Arms, disarms, masks or triggers interrupts.
        DEVICE_SET_IRQS = 8,
        /// Reads a region.
        REGION_READ = 9,
        /// Writes a region.
        REGION_WRITE = 10,
        /// The server reads the client's memory.
        DMA_READ = 11,
        /// The server writes the client's memory.
        DMA_WRITE = 12,
        /// Resets the device.
        DEVICE_RESET = 13,
        /// Several small writes to regions.
        REGION_WRITE_MULTI = 15,
        /// Features of migration; not parsed here.
        DEVICE_FEATURE = 16,
        /// State of a migration, out; not parsed here.
        MIG_DATA_READ = 17,
        /// State of a migration, in; not parsed here.
        MIG_DATA_WRITE = 18,
    }
}

impl Command {
    /// Whether messages of this command are parsed here.
    pub const fn is_known(self) -> bool {
        matches!(self.0, 1..=13 | 15)
    }

    /// Whether the server asks the client by it.
    pub const fn is_from_server(self) -> bool {
        matches!(self, Self::DMA_READ | Self::DMA_WRITE)
    }
}

/// The number that a reply repeats. It is the sender's alone: peers assume nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(pub u16);

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asks for something.
    Command,
    /// Answers a command.
    Reply,
    /// Neither, which a [`Reader`](crate::Reader) refuses.
    Unknown(u8),
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number that its reply repeats.
    pub id: MessageId,
    /// Command number.
    pub command: Command,
    /// Size of the whole message, header included.
    pub size_bytes: u32,
    /// Command or reply.
    pub kind: Kind,
    /// In a command: the sender waits for no reply, and none may be sent.
    pub no_reply: bool,
    /// Of a reply: the command failed, for this reason.
    pub error: Option<Errno>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHeader {
    id: u16,
    command: u16,
    size: u32,
    flags: u32,
    error: u32,
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES);

impl Header {
    /// Reads a header. Flags that are not known are ignored, as the protocol's later versions may add some.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let raw: RawHeader = zerocopy::transmute!(*bytes);
        let kind = match raw.flags & KIND_MASK {
            0 => Kind::Command,
            1 => Kind::Reply,
            other => Kind::Unknown(other as u8),
        };
        Self {
            id: MessageId(raw.id),
            command: Command(raw.command),
            size_bytes: raw.size,
            kind,
            no_reply: kind == Kind::Command && raw.flags & NO_REPLY != 0,
            error: (kind == Kind::Reply && raw.flags & ERROR != 0).then_some(Errno(raw.error)),
        }
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self.kind {
            Kind::Command => 0,
            Kind::Reply => 1,
            Kind::Unknown(other) => u32::from(other) & KIND_MASK,
        };
        let no_reply = if self.no_reply { NO_REPLY } else { 0 };
        let error = if self.error.is_some() { ERROR } else { 0 };
        put(
            out,
            &RawHeader {
                id: self.id.0,
                command: self.command.0,
                size: self.size_bytes,
                flags: kind | no_reply | error,
                error: self.error.map_or(0, |errno| errno.0),
            },
        );
    }
}

/// Appends a message: the header, with its size set, and the bytes that `payload` appends.
pub(crate) fn frame(mut header: Header, out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    header.encode(out);
    payload(out);
    header.size_bytes = (out.len() - begin) as u32;
    if let Some(size) = out.get_mut(begin + 4..begin + 8) {
        size.copy_from_slice(&header.size_bytes.to_ne_bytes());
    }
}
