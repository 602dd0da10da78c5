//! Replies: what a command is answered with.

use crate::access::{encode_dma, parse_dma, parse_dma_written};
use crate::header::{Header, Kind, frame};
use crate::layout::{data, put, take};
use crate::{
    Access, Command, DeviceInfo, DmaUnmap, Errno, IrqInfo, RegionInfo, RegionIoFds, Version, WireError,
};

/// An answer. Descriptors do not stand in it: they go beside the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// It is done, and there is nothing to say: DMA_MAP, SET_IRQS, DEVICE_RESET.
    Done,
    /// What the server can do, of what the client proposed.
    Version(Version),
    /// What is no longer mapped: as asked.
    DmaUnmapped(DmaUnmap),
    /// What the device is.
    DeviceInfo(DeviceInfo),
    /// What the region is. If it is mappable, its descriptor comes beside.
    RegionInfo(RegionInfo),
    /// Which descriptors stand for writes to the region; they come beside.
    RegionIoFds(RegionIoFds),
    /// How many interrupts there are.
    IrqInfo(IrqInfo),
    /// What the region holds.
    RegionRead {
        /// Where; its length is the data's.
        from: Access,
        /// What.
        data: &'a [u8],
    },
    /// The region is written.
    RegionWritten(Access),
    /// So many writes were made.
    RegionWrittenMulti {
        /// How many.
        writes: u64,
    },
    /// What the client's memory holds.
    DmaRead {
        /// Where.
        address: u64,
        /// What.
        data: &'a [u8],
    },
    /// The client's memory is written.
    DmaWritten {
        /// Where.
        address: u64,
        /// How much.
        bytes: u32,
    },
}

impl<'a> Reply<'a> {
    /// Reads a reply.
    ///
    /// # Errors
    /// [`WireError::Failed`] when it says that the command failed; else when its payload is not that of its command.
    pub fn parse(header: &Header, payload: &'a [u8]) -> Result<Self, WireError> {
        if let Some(errno) = header.error {
            return Err(WireError::Failed(errno));
        }
        Ok(match header.command {
            Command::DMA_MAP | Command::DEVICE_SET_IRQS | Command::DEVICE_RESET => Self::Done,
            Command::VERSION => Self::Version(Version::parse(payload)?),
            // Some servers answer with the header alone.
            Command::DMA_UNMAP if payload.is_empty() => Self::Done,
            Command::DMA_UNMAP => Self::DmaUnmapped(DmaUnmap::parse(payload)?),
            Command::DEVICE_GET_INFO => Self::DeviceInfo(DeviceInfo::parse(payload)?),
            Command::DEVICE_GET_REGION_INFO => Self::RegionInfo(RegionInfo::parse(payload)?),
            Command::DEVICE_GET_REGION_IO_FDS => Self::RegionIoFds(RegionIoFds::parse(payload)?),
            Command::DEVICE_GET_IRQ_INFO => Self::IrqInfo(IrqInfo::parse(payload)?),
            other => Self::parse_access(other, payload)?,
        })
    }

    fn parse_access(command: Command, payload: &'a [u8]) -> Result<Self, WireError> {
        Ok(match command {
            Command::REGION_READ => {
                let (from, rest) = Access::parse(payload)?;
                Self::RegionRead { from, data: data(rest, u64::from(from.bytes))? }
            }
            Command::REGION_WRITE => Self::RegionWritten(Access::parse(payload)?.0),
            Command::REGION_WRITE_MULTI => Self::RegionWrittenMulti { writes: take::<u64>(payload)?.0 },
            Command::DMA_READ => {
                let (address, bytes, rest) = parse_dma(payload)?;
                Self::DmaRead { address, data: data(rest, bytes)? }
            }
            Command::DMA_WRITE => {
                let (address, bytes) = parse_dma_written(payload)?;
                Self::DmaWritten { address, bytes }
            }
            other => return Err(WireError::UnknownCommand(other)),
        })
    }

    /// Appends the reply to the command whose header is `to`, whole.
    pub fn encode(&self, to: &Header, out: &mut Vec<u8>) {
        self.encode_within(to, u32::MAX, out);
    }

    /// Appends the reply to a command that takes `argsz` bytes of payload: lists that do not fit are left out, and the
    /// reply says how long it would be.
    pub fn encode_within(&self, to: &Header, argsz: u32, out: &mut Vec<u8>) {
        frame(reply_header(to, None), out, |out| self.encode_payload(argsz, out));
    }

    fn encode_payload(&self, argsz: u32, out: &mut Vec<u8>) {
        match self {
            Self::Done => {}
            Self::Version(version) => version.encode(out),
            Self::DmaUnmapped(unmap) => unmap.encode(out),
            Self::DeviceInfo(info) => info.encode(out),
            Self::RegionInfo(info) => info.encode(argsz, out),
            Self::RegionIoFds(fds) => fds.encode(argsz, out),
            Self::IrqInfo(info) => info.encode(out),
            Self::RegionRead { from, data } => {
                Access { bytes: data.len() as u32, ..*from }.encode(out);
                out.extend_from_slice(data);
            }
            Self::RegionWritten(access) => access.encode(out),
            Self::RegionWrittenMulti { writes } => put(out, writes),
            Self::DmaRead { address, data } => {
                encode_dma(*address, data.len() as u64, out);
                out.extend_from_slice(data);
            }
            // 8 bytes of count serve those who read 8 and those who read 4, on the machines this runs on.
            Self::DmaWritten { address, bytes } => encode_dma(*address, u64::from(*bytes), out),
        }
    }
}

/// Appends the reply that the command whose header is `to` failed: a header and nothing else.
pub fn encode_error(to: &Header, errno: Errno, out: &mut Vec<u8>) {
    frame(reply_header(to, Some(errno)), out, |_| {});
}

fn reply_header(to: &Header, error: Option<Errno>) -> Header {
    Header { id: to.id, command: to.command, size_bytes: 0, kind: Kind::Reply, no_reply: false, error }
}
