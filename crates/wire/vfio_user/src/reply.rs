//! Replies to commands.

use crate::access::{encode_dma, parse_dma, parse_dma_written};
use crate::header::{Header, Kind, frame};
use crate::layout::{data, put, take};
use crate::{
    Access, Command, DeviceInfo, DmaUnmap, Errno, IrqInfo, RegionInfo, RegionIoFds, Version, WireError,
};

/// A reply. Descriptors are passed separately, as ancillary data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Success without a payload: DMA_MAP, SET_IRQS, DEVICE_RESET.
    Done,
    /// The server's capabilities, within the client's proposal.
    Version(Version),
    /// The range that was unmapped, as requested.
    DmaUnmapped(DmaUnmap),
    /// Type and size of the device.
    DeviceInfo(DeviceInfo),
    /// Size and flags of the region. If it is mappable, its descriptor is passed beside.
    RegionInfo(RegionInfo),
    /// Descriptors that replace writes to the region, passed beside.
    RegionIoFds(RegionIoFds),
    /// How many interrupts there are.
    IrqInfo(IrqInfo),
    /// Bytes read from the region.
    RegionRead {
        /// Where; its length is the data's.
        from: Access,
        /// What.
        data: &'a [u8],
    },
    /// The region is written.
    RegionWritten(Access),
    /// The number of writes performed.
    RegionWrittenMulti {
        /// Writes performed.
        writes: u64,
    },
    /// Bytes read from the client's memory.
    DmaRead {
        /// First address.
        address: u64,
        /// What.
        data: &'a [u8],
    },
    /// The client's memory is written.
    DmaWritten {
        /// First address.
        address: u64,
        /// How much.
        bytes: u32,
    },
}

impl<'a> Reply<'a> {
    /// Reads a reply.
    ///
    /// # Errors
    /// [`WireError::Failed`] if the reply reports a failure; another error if the payload does not fit its command.
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

    /// Appends the complete reply to the command with header `to`.
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
            // An 8-byte count also works for peers that read 4 bytes, on little-endian machines.
            Self::DmaWritten { address, bytes } => encode_dma(*address, u64::from(*bytes), out),
        }
    }
}

/// Appends an error reply to the command with header `to`: a header without payload.
pub fn encode_error(to: &Header, errno: Errno, out: &mut Vec<u8>) {
    frame(reply_header(to, Some(errno)), out, |_| {});
}

fn reply_header(to: &Header, error: Option<Errno>) -> Header {
    Header { id: to.id, command: to.command, size_bytes: 0, kind: Kind::Reply, no_reply: false, error }
}
