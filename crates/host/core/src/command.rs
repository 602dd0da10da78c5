//! Typed I/O commands, and what came of them.
//!
//! A command owns what it sends and what it receives into, so a queue can hold it for as long as a device may touch
//! the memory. [`crate::encode`] turns it into the 64 bytes of the wire.

use byway_spec::vendor::{KeyRange, write_many_keys};
use byway_spec::{Command as Entry, Key};

use crate::buffer::Buffer;
use crate::buffers::Buffers;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Nsid;
use crate::memory::Memory;
use crate::payload::Payload;

/// One I/O command. Not `non_exhaustive`: each backend has to decide for a new command set, which the compiler checks.
#[derive(Debug)]
pub enum Command {
    /// A command of the NVM command set.
    Nvm(NvmCommand),
    /// A command of the Key Value command set.
    Kv(KvCommand),
    /// Any command, passed through.
    Raw(RawCommand),
}

/// A command of the NVM command set. Addresses and counts are in logical blocks; `blocks` counts from one.
#[derive(Debug)]
#[expect(
    missing_docs,
    reason = "fields are described where their command is; nsid and key are what they are everywhere"
)]
#[non_exhaustive]
pub enum NvmCommand {
    /// Reads `blocks` blocks from `slba` into `into`.
    Read { nsid: Nsid, slba: u64, blocks: u32, into: Buffer },
    /// Reads `blocks` blocks from `slba` into several buffers, one behind the other.
    ReadVectored { nsid: Nsid, slba: u64, blocks: u32, into: Buffers },
    /// Writes `blocks` blocks at `slba`.
    Write { nsid: Nsid, slba: u64, blocks: u32, data: Payload },
    /// Makes completed writes durable.
    Flush { nsid: Nsid },
    /// Makes a range read as zeroes; `deallocate` lets the device forget it.
    WriteZeroes { nsid: Nsid, slba: u64, blocks: u32, deallocate: bool },
    /// Deallocates ranges that are no longer needed.
    Deallocate { nsid: Nsid, ranges: LbaRanges },
    /// Compares `blocks` blocks at `slba` with `data`.
    Compare { nsid: Nsid, slba: u64, blocks: u32, data: Payload },
    /// Compares `blocks` blocks at `slba` with the first half of `data`, and writes the second half in their place if they are
    /// that: atomically to other writers (two fused commands). Else it fails as a Compare does, and writes nothing. A queue needs
    /// room for two commands.
    CompareAndWrite { nsid: Nsid, slba: u64, blocks: u32, data: Payload },
    /// Reads and checks a range within the device.
    Verify { nsid: Nsid, slba: u64, blocks: u32 },
    /// Copies ranges within the namespace to `to`.
    Copy { nsid: Nsid, to: u64, from: CopyRanges },
}

/// A command of the Key Value command set.
#[derive(Debug)]
#[expect(
    missing_docs,
    reason = "fields are described where their command is; nsid and key are what they are everywhere"
)]
#[non_exhaustive]
pub enum KvCommand {
    /// Stores a value.
    Store { nsid: Nsid, key: Key, value: Payload, options: StoreOptions },
    /// Reads a value into `into`; [`Outcome::dw0`] says how long the whole value is.
    Retrieve { nsid: Nsid, key: Key, into: Buffer },
    /// Deletes a key.
    Delete { nsid: Nsid, key: Key },
    /// Asks whether a key exists; if not, the error's kind is [`ErrorKind::KeyNotFound`].
    Exist { nsid: Nsid, key: Key },
    /// Lists keys in order from `start` (from the first if it is `None`) into `into`.
    List { nsid: Nsid, start: Option<Key>, into: Buffer },
    /// Store Many: stores many pairs by one command (vendor command of Byway devices); if `atomic`, all of them or none, and
    /// pairs may delete their keys.
    BulkStore { nsid: Nsid, pairs: Payload, atomic: bool },
    /// Reads the pairs of a range in order into `into`, at most `pairs` (0: as many as fit), of each value at most
    /// `value_prefix` bytes ([`WHOLE_VALUE`](byway_spec::vendor::WHOLE_VALUE) for all). [`crate::results`] reads what comes.
    Scan { nsid: Nsid, range: KeyRange, pairs: u16, value_prefix: u16, into: Buffer },
    /// Reads the values of the keys that `many` holds; the values replace the request in its buffer.
    RetrieveMany { nsid: Nsid, many: ManyKeys, value_prefix: u16 },
    /// Deletes keys of a range, at most `keys` (0: as many as the device likes);
    /// [`DeleteRangeResult`](byway_spec::vendor::DeleteRangeResult) in [`Outcome::dw0`] says how many, and whether to go on.
    DeleteRange { nsid: Nsid, range: KeyRange, keys: u32 },
}

/// Keys of a [`KvCommand::RetrieveMany`], in the form that the device reads, in the buffer that takes the values.
#[derive(Debug)]
pub struct ManyKeys {
    pub(crate) count: u32,
    pub(crate) request_bytes: u32,
    pub(crate) buffer: Buffer,
}

impl ManyKeys {
    /// Writes the request into `buffer`, whose length is what the values have room for.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] for keys that the buffer has no room for.
    pub fn new(keys: &[Key], mut buffer: Buffer) -> Result<Self> {
        let request_bytes = write_many_keys(keys, buffer.as_mut_slice()).ok_or_else(|| {
            let said = format!("{} keys do not fit a request of {} bytes", keys.len(), buffer.len());
            Error::host(ErrorKind::TooLarge, said)
        })?;
        Ok(Self { count: keys.len() as u32, request_bytes: request_bytes as u32, buffer })
    }
}

/// A command passed through as it is: whether the device announced it is the program's affair. The backend writes the command
/// identifier and the data pointer.
#[derive(Debug)]
pub struct RawCommand {
    /// The submission queue entry.
    pub entry: Entry,
    /// What the device reads or writes.
    pub data: RawData,
}

/// Data of a command passed through.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum RawData {
    /// No data.
    #[default]
    None,
    /// Sent to the device.
    ToDevice(Payload),
    /// Received from the device.
    FromDevice(Buffer),
    /// Received from the device into several buffers, one behind the other.
    FromDeviceVectored(Buffers),
    /// Both: the first `sent_bytes` of the buffer are sent, then what is received takes their place. Opcodes of such commands end in 11b.
    Both {
        /// Sent and received.
        buffer: Buffer,
        /// Bytes of it that are sent.
        sent_bytes: usize,
    },
}

impl RawData {
    /// What the transfer reads or writes.
    #[must_use]
    #[inline]
    pub fn into_payload(self) -> Payload {
        match self {
            Self::None => Payload::Empty,
            Self::ToDevice(payload) => payload,
            Self::FromDevice(buffer) | Self::Both { buffer, .. } => Payload::Buffer(buffer),
            Self::FromDeviceVectored(parts) => Payload::Vectored(parts),
        }
    }
}

/// Conditions on a store (Key Value Command Set, Store, CDW11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Only if the key exists (SIKE).
    pub must_exist: bool,
    /// Only if the key does not exist (SINKE).
    pub must_not_exist: bool,
    /// The device shall not compress the value.
    pub uncompressed: bool,
}

impl StoreOptions {
    /// No condition.
    pub const NONE: Self = Self { must_exist: false, must_not_exist: false, uncompressed: false };

    byway_sys::setters! {
        /// Only if the key exists (SIKE).
        must_exist: bool;
        /// Only if the key does not exist (SINKE).
        must_not_exist: bool;
        /// The device shall not compress the value.
        uncompressed: bool;
    }

    /// Whether any option is set: then a transfer method that has no room for options cannot carry the store.
    #[must_use]
    #[inline]
    pub fn any(self) -> bool {
        self.must_exist | self.must_not_exist | self.uncompressed
    }

    /// The options as the command's option bits.
    #[must_use]
    #[inline]
    pub fn bits(self) -> u8 {
        u8::from(self.must_exist) | (u8::from(self.must_not_exist) << 1) | (u8::from(self.uncompressed) << 2)
    }
}

/// A range of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LbaRange {
    /// First block.
    pub slba: u64,
    /// Number of blocks.
    pub blocks: u32,
}

/// Ranges of a [`NvmCommand::Deallocate`], in the form that the device reads: 1 to 256.
#[derive(Debug)]
pub struct LbaRanges {
    pub(crate) count: u32,
    /// Blocks of the longest range.
    pub(crate) longest: u32,
    /// Blocks of all.
    pub(crate) blocks: u64,
    pub(crate) payload: Payload,
}

impl LbaRanges {
    /// The most ranges of one command (NVM Command Set, Dataset Management, NR).
    pub const MAX: usize = 256;

    /// These ranges.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if there are none or more than [`LbaRanges::MAX`].
    pub fn new(ranges: &[LbaRange]) -> Result<Self> {
        check_count("deallocate", ranges.len(), Self::MAX)?;
        let mut bytes = Vec::with_capacity(ranges.len() * 16);
        for range in ranges {
            bytes.extend_from_slice(&0u32.to_le_bytes());
            bytes.extend_from_slice(&range.blocks.to_le_bytes());
            bytes.extend_from_slice(&range.slba.to_le_bytes());
        }
        let lengths = ranges.iter().map(|range| range.blocks);
        Ok(Self {
            count: ranges.len() as u32,
            longest: lengths.clone().max().unwrap_or(0),
            blocks: lengths.map(u64::from).sum(),
            payload: Payload::copy_of(&bytes)?,
        })
    }
}

/// Source ranges of a [`NvmCommand::Copy`], in the form that the device reads (descriptor format 0): 1 to 256.
#[derive(Debug)]
pub struct CopyRanges {
    pub(crate) count: u32,
    /// Blocks of the longest range.
    pub(crate) longest: u32,
    /// Blocks of all.
    pub(crate) blocks: u64,
    pub(crate) payload: Payload,
}

impl CopyRanges {
    /// The most ranges that the field of the command can count; the namespace's own limit (MSRC) may be lower.
    pub const MAX: usize = 256;

    /// These ranges.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if there are none, more than [`CopyRanges::MAX`], or one is empty or longer than
    /// 65536 blocks.
    pub fn new(ranges: &[LbaRange]) -> Result<Self> {
        check_count("copy", ranges.len(), Self::MAX)?;
        let mut bytes = Vec::with_capacity(ranges.len() * 32);
        for range in ranges {
            let mut entry = [0u8; 32];
            entry[8..16].copy_from_slice(&range.slba.to_le_bytes());
            entry[16..18].copy_from_slice(&blocks_z(range.blocks)?.to_le_bytes());
            bytes.extend_from_slice(&entry);
        }
        let lengths = ranges.iter().map(|range| range.blocks);
        Ok(Self {
            count: ranges.len() as u32,
            longest: lengths.clone().max().unwrap_or(0),
            blocks: lengths.map(u64::from).sum(),
            payload: Payload::copy_of(&bytes)?,
        })
    }
}

/// A count of blocks, 1 to 65536, as the zero-based field of a command.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for any other count.
#[inline]
pub fn blocks_z(blocks: u32) -> Result<u16> {
    u16::try_from(blocks.wrapping_sub(1)).map_err(|_| {
        Error::host(ErrorKind::InvalidArgument, format!("a command covers 1 to 65536 blocks, not {blocks}"))
    })
}

fn check_count(what: &str, count: usize, max: usize) -> Result<()> {
    if (1..=max).contains(&count) {
        return Ok(());
    }
    Err(Error::host(ErrorKind::InvalidArgument, format!("{what} takes 1 to {max} ranges, not {count}")))
}

/// What a successful command answered, and what it cost in commands and ring slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Completion dword 0: the command's own result.
    pub dw0: u32,
    /// Completion dword 1.
    pub dw1: u32,
    /// Commands that were sent for it.
    pub commands: u32,
    /// Submission ring slots that they took.
    pub slots: u32,
}

/// What a successful command answered, and its buffers.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The answer.
    pub answer: Answer,
    /// The buffer that the command took, sent or filled.
    pub buffer: Option<Buffer>,
    /// The buffers of a vectored command, in their order.
    pub vector: Buffers,
}

impl Outcome {
    /// Completion dword 0: the command's own result, for a retrieve the length of the whole value in bytes.
    #[must_use]
    pub fn dw0(&self) -> u32 {
        self.answer.dw0
    }
}

impl Command {
    /// What the command sends or receives into, for its holder while the command is outstanding.
    #[must_use]
    #[inline]
    pub fn into_payload(self) -> Payload {
        match self {
            Self::Nvm(command) => command.into_payload(),
            Self::Kv(command) => command.into_payload(),
            Self::Raw(command) => command.data.into_payload(),
        }
    }

    /// The buffer that the command holds, for a command that will not be sent.
    #[must_use]
    #[inline]
    pub fn into_buffer(self) -> Option<Buffer> {
        self.into_payload().into_buffer()
    }
}

impl Command {
    /// Memory of the command's data, for its holder while the command is outstanding.
    #[must_use]
    #[inline]
    pub fn into_memory(self) -> Memory {
        self.into_payload().into()
    }
}

impl NvmCommand {
    #[inline]
    fn into_payload(self) -> Payload {
        match self {
            Self::Read { into, .. } => Payload::Buffer(into),
            Self::ReadVectored { into, .. } => Payload::Vectored(into),
            Self::Write { data, .. } | Self::Compare { data, .. } | Self::CompareAndWrite { data, .. } => {
                data
            }
            Self::Deallocate { ranges, .. } => ranges.payload,
            Self::Copy { from, .. } => from.payload,
            Self::Flush { .. } | Self::WriteZeroes { .. } | Self::Verify { .. } => Payload::Empty,
        }
    }
}

impl KvCommand {
    #[inline]
    fn into_payload(self) -> Payload {
        match self {
            Self::Store { value, .. } => value,
            Self::Retrieve { into, .. } | Self::List { into, .. } | Self::Scan { into, .. } => {
                Payload::Buffer(into)
            }
            Self::RetrieveMany { many, .. } => Payload::Buffer(many.buffer),
            Self::BulkStore { pairs, .. } => pairs,
            Self::Delete { .. } | Self::Exist { .. } | Self::DeleteRange { .. } => Payload::Empty,
        }
    }
}

impl From<NvmCommand> for Command {
    fn from(command: NvmCommand) -> Self {
        Self::Nvm(command)
    }
}

impl From<KvCommand> for Command {
    fn from(command: KvCommand) -> Self {
        Self::Kv(command)
    }
}

impl From<RawCommand> for Command {
    fn from(command: RawCommand) -> Self {
        Self::Raw(command)
    }
}
