//! Commands, in either direction.

use crate::access::{encode_dma, encode_writes, parse_dma};
use crate::header::{Header, Kind, frame};
use crate::layout::{data, put, take};
use crate::{
    Access, Command, DmaMap, DmaUnmap, IrqIndex, MessageId, RegionIndex, SetIrqs, SmallWrite, Version,
    WireError, WriteMulti, device, io_fds, irq, region,
};

/// A command. `argsz` is how many bytes of a reply's payload the sender takes.
///
/// Descriptors are passed separately, in [`Message::fds`](crate::Message::fds).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The client's capabilities; the first message.
    Version(Version),
    /// Makes memory accessible to the device, by a descriptor if one came.
    DmaMap(DmaMap),
    /// The device may touch this memory no more.
    DmaUnmap(DmaUnmap),
    /// Gets type and size of the device.
    DeviceGetInfo,
    /// Gets size and flags of a region.
    RegionGetInfo {
        /// Which region.
        index: RegionIndex,
        /// How long the answer may be.
        argsz: u32,
    },
    /// Gets descriptors that replace writes to a region.
    RegionGetIoFds {
        /// Which region.
        index: RegionIndex,
        /// How long the answer may be.
        argsz: u32,
    },
    /// Gets flags and number of interrupts of a type.
    IrqGetInfo {
        /// Which kind.
        index: IrqIndex,
    },
    /// Arms, disarms, masks or triggers interrupts.
    SetIrqs(SetIrqs<'a>),
    /// Reads a region.
    RegionRead(Access),
    /// Writes a region.
    RegionWrite {
        /// Where; its length is the data's.
        to: Access,
        /// What.
        data: &'a [u8],
    },
    /// Writes regions several times.
    RegionWriteMulti(WriteMulti<'a>),
    /// The server reads the client's memory. `address + bytes` does not overflow.
    DmaRead {
        /// First address of the range.
        address: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// The server writes the client's memory. `address` and the length do not overflow.
    DmaWrite {
        /// First address of the range.
        address: u64,
        /// Bytes to write.
        data: &'a [u8],
    },
    /// Resets the device.
    DeviceReset,
}

impl<'a> Request<'a> {
    /// Reads the payload of a command.
    ///
    /// # Errors
    /// When the command is not known, or the payload is not one of it.
    pub fn parse(command: Command, payload: &'a [u8]) -> Result<Self, WireError> {
        Ok(match command {
            Command::VERSION => Self::Version(Version::parse(payload)?),
            Command::DMA_MAP => Self::DmaMap(DmaMap::parse(payload)?),
            Command::DMA_UNMAP => Self::DmaUnmap(DmaUnmap::parse(payload)?),
            Command::DEVICE_GET_INFO => take::<device::RawInfo>(payload).map(|_| Self::DeviceGetInfo)?,
            Command::DEVICE_GET_REGION_INFO => {
                let (raw, _) = take::<region::RawInfo>(payload)?;
                Self::RegionGetInfo { index: RegionIndex(raw.index), argsz: raw.argsz }
            }
            Command::DEVICE_GET_REGION_IO_FDS => {
                let (raw, _) = take::<io_fds::RawIoFds>(payload)?;
                Self::RegionGetIoFds { index: RegionIndex(raw.index), argsz: raw.argsz }
            }
            Command::DEVICE_GET_IRQ_INFO => {
                let (raw, _) = take::<irq::RawInfo>(payload)?;
                Self::IrqGetInfo { index: IrqIndex(raw.index) }
            }
            Command::DEVICE_SET_IRQS => Self::SetIrqs(SetIrqs::parse(payload)?),
            Command::DEVICE_RESET => Self::DeviceReset,
            _ => Self::parse_access(command, payload)?,
        })
    }

    fn parse_access(command: Command, payload: &'a [u8]) -> Result<Self, WireError> {
        Ok(match command {
            Command::REGION_READ => Self::RegionRead(Access::parse(payload)?.0),
            Command::REGION_WRITE => {
                let (to, rest) = Access::parse(payload)?;
                Self::RegionWrite { to, data: data(rest, u64::from(to.bytes))? }
            }
            Command::REGION_WRITE_MULTI => Self::RegionWriteMulti(WriteMulti::parse(payload)?),
            Command::DMA_READ => {
                let (address, bytes, _) = parse_dma(payload)?;
                Self::DmaRead { address, bytes }
            }
            Command::DMA_WRITE => {
                let (address, bytes, rest) = parse_dma(payload)?;
                Self::DmaWrite { address, data: data(rest, bytes)? }
            }
            other => return Err(WireError::UnknownCommand(other)),
        })
    }

    /// Which command it is.
    pub fn command(&self) -> Command {
        match self {
            Self::Version(_) => Command::VERSION,
            Self::DmaMap(_) => Command::DMA_MAP,
            Self::DmaUnmap(_) => Command::DMA_UNMAP,
            Self::DeviceGetInfo => Command::DEVICE_GET_INFO,
            Self::RegionGetInfo { .. } => Command::DEVICE_GET_REGION_INFO,
            Self::RegionGetIoFds { .. } => Command::DEVICE_GET_REGION_IO_FDS,
            Self::IrqGetInfo { .. } => Command::DEVICE_GET_IRQ_INFO,
            Self::SetIrqs(_) => Command::DEVICE_SET_IRQS,
            Self::RegionRead(_) => Command::REGION_READ,
            Self::RegionWrite { .. } => Command::REGION_WRITE,
            Self::RegionWriteMulti(_) => Command::REGION_WRITE_MULTI,
            Self::DmaRead { .. } => Command::DMA_READ,
            Self::DmaWrite { .. } => Command::DMA_WRITE,
            Self::DeviceReset => Command::DEVICE_RESET,
        }
    }

    /// Appends the command as a message. With `no_reply` the sender waits for no reply, and none may be sent.
    pub fn encode(&self, id: MessageId, no_reply: bool, out: &mut Vec<u8>) {
        frame(command_header(self.command(), id, no_reply), out, |out| self.encode_payload(out));
    }

    /// Appends several small writes as one message: REGION_WRITE_MULTI, at most [`MAX_MULTI_WRITES`](crate::MAX_MULTI_WRITES)
    /// of them, to a server that announced `write_multiple`.
    pub fn encode_writes(writes: &[SmallWrite], id: MessageId, no_reply: bool, out: &mut Vec<u8>) {
        let header = command_header(Command::REGION_WRITE_MULTI, id, no_reply);
        frame(header, out, |out| encode_writes(writes, out));
    }

    fn encode_payload(&self, out: &mut Vec<u8>) {
        match self {
            Self::Version(version) => version.encode(out),
            Self::DmaMap(map) => map.encode(out),
            Self::DmaUnmap(unmap) => unmap.encode(out),
            Self::DeviceGetInfo => {
                put(
                    out,
                    &device::RawInfo { argsz: size_of::<device::RawInfo>() as u32, ..Default::default() },
                );
            }
            Self::RegionGetInfo { index, argsz } => {
                put(out, &region::RawInfo { argsz: *argsz, index: index.0, ..Default::default() });
            }
            Self::RegionGetIoFds { index, argsz } => {
                put(out, &io_fds::RawIoFds { argsz: *argsz, index: index.0, ..Default::default() });
            }
            Self::IrqGetInfo { index } => {
                let argsz = size_of::<irq::RawInfo>() as u32;
                put(out, &irq::RawInfo { argsz, index: index.0, ..Default::default() });
            }
            Self::SetIrqs(set) => set.encode(out),
            Self::RegionRead(access) => access.encode(out),
            Self::RegionWrite { to, data } => {
                Access { bytes: data.len() as u32, ..*to }.encode(out);
                out.extend_from_slice(data);
            }
            Self::RegionWriteMulti(writes) => writes.encode(out),
            Self::DmaRead { address, bytes } => encode_dma(*address, *bytes, out),
            Self::DmaWrite { address, data } => {
                encode_dma(*address, data.len() as u64, out);
                out.extend_from_slice(data);
            }
            Self::DeviceReset => {}
        }
    }
}

fn command_header(command: Command, id: MessageId, no_reply: bool) -> Header {
    Header { id, command, size_bytes: 0, kind: Kind::Command, no_reply, error: None }
}
