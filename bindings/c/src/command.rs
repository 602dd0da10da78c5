//! Commands of any kind as a structure: what `byway_queue_submit` and `byway_queue_execute` take.

use std::ffi::c_void;

use byway::spec::Command as Entry;
use byway::{
    Buffer, Buffers, Command, CopyRanges, Key, KvCommand, LbaRange, LbaRanges, Nsid, NvmCommand, Payload,
    RawCommand, RawData, Result, StoreOptions,
};
use zerocopy::FromBytes;

use crate::arg::{bytes, invalid};
use crate::buffer::byway_buffer;
use crate::sized::{self, crossing};

/// Bytes of a submission queue entry.
pub(crate) const ENTRY_BYTES: usize = 64;

/// What a command does.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byway_opcode {
    /// Reads blocks into the memory.
    Read = 1,
    /// Writes blocks from the memory.
    Write = 2,
    /// Makes completed writes durable.
    Flush = 3,
    /// Makes blocks read as zeroes; with BYWAY_DEALLOCATE the device may forget them.
    WriteZeroes = 4,
    /// Deallocates blocks that are no longer needed (Dataset Management): `slba` and `blocks`, or `ranges`.
    Trim = 5,
    /// Compares blocks with the memory.
    Compare = 6,
    /// Reads and checks blocks within the device.
    Verify = 7,
    /// Copies the blocks of `ranges` to `slba` within the device, one behind the other.
    Copy = 8,
    /// Compares blocks with the first half of the memory and writes the second half in their place if they are equal,
    /// atomically against other writers. Else it fails as BYWAY_OPCODE_COMPARE does and writes nothing. `compare_and_write` of
    /// byway_device_get_capabilities() says whether there is such a thing; a queue needs to be two deep.
    CompareAndWrite = 9,
    /// Stores the memory as the value of the key.
    Store = 16,
    /// Reads the value of the key into the memory; `dw0` of the completion is the whole value's length in bytes.
    Retrieve = 17,
    /// Deletes the key.
    Delete = 18,
    /// Asks whether the key exists: if not, the error's kind is BYWAY_ERROR_KIND_KEY_NOT_FOUND.
    Exist = 19,
    /// Lists keys in order into the memory, from the key on, or from the first if there is no key: a 4-byte count, then
    /// for each key its length in 2 bytes and its bytes, padded to a multiple of 4, little-endian.
    List = 20,
    /// Stores many pairs, where `bulk_store` of byway_device_get_capabilities() is set. The memory holds them: a 4-byte count,
    /// then for each pair the key's length in 1 byte, 3 zero bytes, the value's length in 4, the key padded to a multiple of
    /// 4, the value padded to a multiple of 4, little-endian. byway_kv_load() puts this together.
    BulkStore = 21,
    /// Passes `entry` through. Bits 1:0 of its opcode say which way the memory goes, as the specification has it: 01b to
    /// the device, 10b from it, 00b for no memory.
    Raw = 32,
}

/// Of BYWAY_OPCODE_WRITE_ZEROES: the device may forget the blocks.
pub const BYWAY_DEALLOCATE: u32 = 1;
/// Of BYWAY_OPCODE_STORE: only if the key exists.
pub const BYWAY_MUST_EXIST: u32 = 2;
/// Of BYWAY_OPCODE_STORE: only if the key does not exist.
pub const BYWAY_MUST_NOT_EXIST: u32 = 4;
/// Of BYWAY_OPCODE_STORE: the device shall not compress the value.
pub const BYWAY_UNCOMPRESSED: u32 = 8;

/// A command. What its opcode does not use is zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_command {
    /// sizeof(byway_command).
    pub size: usize,
    /// What it does: a byway_opcode.
    pub opcode: u32,
    /// Namespace.
    pub nsid: u32,
    /// The program's own word for the command: its completion carries it.
    pub tag: u64,
    /// First block.
    pub slba: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// BYWAY_DEALLOCATE, BYWAY_MUST_EXIST, BYWAY_MUST_NOT_EXIST, BYWAY_UNCOMPRESSED.
    pub flags: u32,
    /// The memory; its length is what the command moves.
    pub buffer: *mut byway_buffer,
    /// In place of `buffer`: several, one behind the other.
    pub buffers: *const *mut byway_buffer,
    /// How many those are.
    pub buffer_count: u32,
    /// Length of the key in bytes.
    pub key_bytes: u32,
    /// The key.
    pub key: *const c_void,
    /// Of BYWAY_OPCODE_RAW: the submission queue entry, 64 bytes. The identifier and the data pointer are written by the
    /// backend.
    pub entry: *const c_void,
    /// After how many nanoseconds the command is given up; 0 for the queue's (byway_queue_set_timeout()).
    pub timeout_ns: u64,
    /// Of BYWAY_OPCODE_TRIM, in place of `slba` and `blocks`, and of BYWAY_OPCODE_COPY: ranges of blocks.
    pub ranges: *const byway_range,
    /// How many those are: 1 to 256.
    pub range_count: u32,
    /// 0.
    pub reserved: u32,
}
crossing!(byway_command of 88);

/// A range of blocks. In an array, the first says the size of each.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_range {
    /// sizeof(byway_range).
    pub size: usize,
    /// First block.
    pub slba: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// 0.
    pub reserved: u32,
}
crossing!(byway_range of 24);

/// Which memory a command brings.
pub(crate) enum Memory<'a> {
    None,
    One(*mut byway_buffer),
    Several(&'a [*mut byway_buffer]),
}

impl byway_command {
    /// The memory that it names.
    ///
    /// # Safety
    /// `buffers` points to `buffer_count` handles for as long as `'a`.
    pub(crate) unsafe fn memory<'a>(&self) -> Result<Memory<'a>> {
        match (self.buffer.is_null(), self.buffer_count) {
            (true, 0) => Ok(Memory::None),
            (false, 0) => Ok(Memory::One(self.buffer)),
            (false, _) => Err(invalid("a command has one buffer or several, not both")),
            (true, several) => {
                // SAFETY: the caller's word.
                unsafe { handles(self.buffers, several) }.map(Memory::Several)
            }
        }
    }

    /// The command with its memory.
    ///
    /// # Safety
    /// `key` and `entry` point to as many bytes as their lengths say.
    pub(crate) unsafe fn with(&self, memory: Payload) -> Result<Command, (byway::Error, Payload)> {
        // SAFETY: the caller's word.
        let head = match unsafe { self.head() } {
            Ok(head) if head.takes(&memory) => head,
            Ok(_) => return Err((self.wrong_memory(), memory)),
            Err(error) => return Err((error, memory)),
        };
        Ok(head.with(memory))
    }

    /// All of it but its memory.
    ///
    /// # Safety
    /// As [`Self::with`].
    unsafe fn head(&self) -> Result<Head> {
        let opcode = opcode_of(self.opcode)?;
        self.check_flags(opcode)?;
        self.check_ranges(opcode)?;
        if opcode == byway_opcode::Raw {
            // SAFETY: the caller's word.
            return unsafe { entry(self.entry) }.map(Head::Raw);
        }
        let nsid = Nsid::new(self.nsid)?;
        let range = LbaRange { slba: self.slba, blocks: self.blocks };
        Ok(match opcode {
            byway_opcode::Store
            | byway_opcode::Retrieve
            | byway_opcode::Delete
            | byway_opcode::Exist
            | byway_opcode::List => {
                // SAFETY: the caller's word.
                unsafe { self.head_with_key(opcode, nsid) }?
            }
            byway_opcode::BulkStore => Head::BulkStore(nsid),
            byway_opcode::Trim if self.range_count == 0 => Head::Trim(nsid, LbaRanges::new(&[range])?),
            byway_opcode::Trim => {
                // SAFETY: the caller's word.
                Head::Trim(nsid, LbaRanges::new(&unsafe { ranges(self.ranges, self.range_count) }?)?)
            }
            byway_opcode::Copy => {
                // SAFETY: the caller's word.
                let from = CopyRanges::new(&unsafe { ranges(self.ranges, self.range_count) }?)?;
                Head::Copy(nsid, self.slba, from)
            }
            _ => Head::Nvm(opcode, nsid, range, self.flags & BYWAY_DEALLOCATE != 0),
        })
    }

    /// # Safety
    /// As [`Self::with`].
    unsafe fn head_with_key(&self, opcode: byway_opcode, nsid: Nsid) -> Result<Head> {
        // SAFETY: the caller's word.
        let key = unsafe { bytes(self.key, self.key_bytes as usize, "byway_command.key") }?;
        Ok(match (opcode, key) {
            (byway_opcode::List, []) => Head::List(nsid, None),
            (byway_opcode::List, key) => Head::List(nsid, Some(Key::new(key)?)),
            (_, key) => Head::Kv(opcode, nsid, Key::new(key)?, store_options(self.flags)),
        })
    }

    fn check_ranges(&self, opcode: byway_opcode) -> Result<()> {
        if self.range_count == 0 || matches!(opcode, byway_opcode::Trim | byway_opcode::Copy) {
            return Ok(());
        }
        Err(invalid(format!("ranges mean nothing to {opcode:?}")))
    }

    fn check_flags(&self, opcode: byway_opcode) -> Result<()> {
        let known = match opcode {
            byway_opcode::WriteZeroes => BYWAY_DEALLOCATE,
            byway_opcode::Store => BYWAY_MUST_EXIST | BYWAY_MUST_NOT_EXIST | BYWAY_UNCOMPRESSED,
            _ => 0,
        };
        if self.flags & !known == 0 {
            return Ok(());
        }
        Err(invalid(format!("flags {:#x} mean nothing to {opcode:?}", self.flags & !known)))
    }

    #[cold]
    fn wrong_memory(&self) -> byway::Error {
        let said = match self.buffer.is_null() && self.buffer_count == 0 {
            true => "the command needs a buffer",
            false => "the command takes no such memory: none, or one buffer in place of several",
        };
        invalid(said)
    }
}

/// A command without its memory.
enum Head {
    Nvm(byway_opcode, Nsid, LbaRange, bool),
    Trim(Nsid, LbaRanges),
    Copy(Nsid, u64, CopyRanges),
    BulkStore(Nsid),
    Kv(byway_opcode, Nsid, Key, StoreOptions),
    List(Nsid, Option<Key>),
    Raw(Entry),
}

impl Head {
    /// Whether the command can have this memory.
    fn takes(&self, memory: &Payload) -> bool {
        use byway_opcode as Opcode;
        match (self, memory) {
            (Self::Nvm(Opcode::Read | Opcode::Write | Opcode::Compare, ..), memory) => {
                !matches!(memory, Payload::Empty)
            }
            (Self::BulkStore(_), memory) => !matches!(memory, Payload::Empty),
            (Self::Kv(Opcode::Store, ..), _) => true,
            (Self::Kv(Opcode::Retrieve, ..) | Self::List(..), memory) => {
                matches!(memory, Payload::Buffer(_))
            }
            (Self::Raw(entry), memory) => matches!(memory, Payload::Empty) || direction(entry).is_some(),
            (_, memory) => matches!(memory, Payload::Empty),
        }
    }

    /// The command with memory that it can have.
    fn with(self, memory: Payload) -> Command {
        match self {
            Self::Raw(entry) => Command::Raw(RawCommand { entry, data: raw_data(&entry, memory) }),
            Self::Trim(nsid, ranges) => Command::Nvm(NvmCommand::Deallocate { nsid, ranges }),
            Self::Copy(nsid, to, from) => Command::Nvm(NvmCommand::Copy { nsid, to, from }),
            Self::BulkStore(nsid) => Command::Kv(KvCommand::BulkStore { nsid, pairs: memory, atomic: false }),
            Self::Nvm(opcode, nsid, range, free) => Command::Nvm(nvm(opcode, nsid, range, free, memory)),
            Self::Kv(opcode, nsid, key, options) => Command::Kv(kv(opcode, nsid, key, options, memory)),
            Self::List(nsid, start) => Command::Kv(KvCommand::List { nsid, start, into: one(memory) }),
        }
    }
}

fn nvm(opcode: byway_opcode, nsid: Nsid, range: LbaRange, deallocate: bool, memory: Payload) -> NvmCommand {
    let LbaRange { slba, blocks } = range;
    match opcode {
        byway_opcode::Read => match memory.into_buffers() {
            (Some(into), _) => NvmCommand::Read { nsid, slba, blocks, into },
            (None, into) => NvmCommand::ReadVectored { nsid, slba, blocks, into },
        },
        byway_opcode::Write => NvmCommand::Write { nsid, slba, blocks, data: memory },
        byway_opcode::Compare => NvmCommand::Compare { nsid, slba, blocks, data: memory },
        byway_opcode::CompareAndWrite => NvmCommand::CompareAndWrite { nsid, slba, blocks, data: memory },
        byway_opcode::Verify => NvmCommand::Verify { nsid, slba, blocks },
        byway_opcode::WriteZeroes => NvmCommand::WriteZeroes { nsid, slba, blocks, deallocate },
        _ => NvmCommand::Flush { nsid },
    }
}

fn kv(opcode: byway_opcode, nsid: Nsid, key: Key, options: StoreOptions, memory: Payload) -> KvCommand {
    match opcode {
        byway_opcode::Store => KvCommand::Store { nsid, key, value: memory, options },
        byway_opcode::Retrieve => KvCommand::Retrieve { nsid, key, into: one(memory) },
        byway_opcode::Delete => KvCommand::Delete { nsid, key },
        _ => KvCommand::Exist { nsid, key },
    }
}

/// The buffer of a command that has one.
fn one(memory: Payload) -> Buffer {
    memory.into_buffer().unwrap_or_else(|| Buffer::from_bytes(Box::default()))
}

pub(crate) fn store_options(flags: u32) -> StoreOptions {
    StoreOptions::NONE
        .must_exist(flags & BYWAY_MUST_EXIST != 0)
        .must_not_exist(flags & BYWAY_MUST_NOT_EXIST != 0)
        .uncompressed(flags & BYWAY_UNCOMPRESSED != 0)
}

fn opcode_of(number: u32) -> Result<byway_opcode> {
    const ALL: [byway_opcode; 16] = [
        byway_opcode::Read,
        byway_opcode::Write,
        byway_opcode::Flush,
        byway_opcode::WriteZeroes,
        byway_opcode::Trim,
        byway_opcode::Compare,
        byway_opcode::Verify,
        byway_opcode::Copy,
        byway_opcode::CompareAndWrite,
        byway_opcode::Store,
        byway_opcode::Retrieve,
        byway_opcode::Delete,
        byway_opcode::Exist,
        byway_opcode::List,
        byway_opcode::BulkStore,
        byway_opcode::Raw,
    ];
    let opcode = ALL.into_iter().find(|opcode| *opcode as u32 == number);
    opcode.ok_or_else(|| invalid(format!("there is no opcode {number}")))
}

/// Ranges of a program's.
///
/// # Safety
/// `first` is NULL or points to `count` ranges, each as long as the first says.
pub(crate) unsafe fn ranges(first: *const byway_range, count: u32) -> Result<Vec<LbaRange>> {
    if count as usize > LbaRanges::MAX {
        return Err(invalid(format!("a command takes 1 to {} ranges, not {count}", LbaRanges::MAX)));
    }
    // SAFETY: the caller's word.
    unsafe { sized::each(first, count) }?
        .map(|range| range.map(|byway_range { slba, blocks, .. }| LbaRange { slba, blocks }))
        .collect()
}

/// A submission queue entry of a program's.
///
/// # Safety
/// `given` is NULL or points to 64 bytes.
pub(crate) unsafe fn entry(given: *const c_void) -> Result<Entry> {
    // SAFETY: the caller's word.
    let bytes = unsafe { bytes(given, ENTRY_BYTES, "entry") }?;
    Entry::read_from_bytes(bytes).map_err(|_| invalid("an entry has 64 bytes"))
}

/// Which way the data of a command goes: whether to the device, or `None` if it has none (NVM Express Base Specification,
/// Opcode).
pub(crate) fn direction(entry: &Entry) -> Option<bool> {
    match entry.opcode() & 3 {
        1 => Some(true),
        2 => Some(false),
        _ => None,
    }
}

/// The data of a command passed through.
pub(crate) fn raw_data(entry: &Entry, memory: Payload) -> RawData {
    if matches!(memory, Payload::Empty) {
        return RawData::None;
    }
    if direction(entry) == Some(true) {
        return RawData::ToDevice(memory);
    }
    match memory.into_buffers() {
        (Some(into), _) => RawData::FromDevice(into),
        (None, into) => RawData::FromDeviceVectored(into),
    }
}

/// The buffers of a vectored command.
///
/// # Safety
/// `first` is NULL or points to `count` handles for as long as `'a`.
pub(crate) unsafe fn handles<'a>(
    first: *const *mut byway_buffer,
    count: u32,
) -> Result<&'a [*mut byway_buffer]> {
    if first.is_null() {
        return Err(invalid("buffers is NULL"));
    }
    // SAFETY: not NULL, and the caller's word.
    Ok(unsafe { std::slice::from_raw_parts(first, count as usize) })
}

/// The memory of a command that reads into one buffer or several.
pub(crate) fn payload(one: Option<Buffer>, several: Buffers) -> Payload {
    match one {
        Some(one) => Payload::Buffer(one),
        None if several.is_empty() => Payload::Empty,
        None => Payload::Vectored(several),
    }
}
