//! Namespaces: each executes the typed commands of one command set and says what Identify says of it.

pub mod engine;
mod exported;
pub mod kv;
pub(crate) mod media;
mod memory;
pub mod nvm;
mod ordered;
mod programs;
mod volatile;

use byway_flash::{Flash, NamespaceKind, NamespaceRecord};
use byway_spec::base::identify::Csi;
use byway_spec::nvm::{DSM_RANGES_MAX, DsmRange};
use byway_spec::{Command, DataPointer, Status};
use zerocopy::IntoBytes;

use crate::data_pointer;
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::inline_result::InlineResult;
pub(crate) use crate::outcome::Outcome;
use crate::payload::{HostData, Mapped, Stage};
use crate::port::Port;
use crate::queue::BoundWindow;
use crate::subsystem::{SubsystemError, SubsystemOptions};

pub use engine::BlockEngine;
pub use exported::ExportedNamespace;
pub use kv::{KvNamespace, VALUE_MAX_BYTES};
pub(crate) use media::timed;
pub use media::write_error;
pub use memory::MemoryNamespace;
pub(crate) use memory::{MemoryCopy, MemorySource};
pub use nvm::{LBA_FORMATS, NvmNamespace};
pub(crate) use ordered::Pair;
pub use programs::ProgramsNamespace;
pub(crate) use programs::{Prepared, Wanted};
pub(crate) use volatile::{Origin, Step, VolatileKind, refused, stopped};

/// A namespace of one of the command sets. Zones join here as a further variant.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "at most 64 exist, and a box would cost every command a load")]
pub enum Namespace {
    /// Logical blocks (NVM command set, CSI 0).
    Nvm(NvmNamespace),
    /// Key-value pairs (Key Value command set, CSI 1).
    Kv(KvNamespace),
    /// Logical blocks that an external engine keeps.
    Exported(ExportedNamespace),
    /// Volatile bytes (Subsystem Local Memory command set, CSI 3).
    Memory(MemoryNamespace),
    /// Programs (Computational Programs command set, CSI 4).
    Programs(ProgramsNamespace),
}

impl Namespace {
    /// Opens the namespace of `record`; a key-value namespace that is new gets its engine's state.
    ///
    /// # Errors
    /// When the engine's state on the image cannot be used.
    pub fn open(
        flash: &mut Flash,
        record: NamespaceRecord,
        options: &SubsystemOptions,
    ) -> Result<Self, SubsystemError> {
        let nsid = record.nsid;
        match record.kind {
            NamespaceKind::Nvm { .. } => Ok(Self::Nvm(NvmNamespace::new(record))),
            NamespaceKind::Kv => KvNamespace::open(flash, record, options.kv, &options.kv_format)
                .map(Self::Kv)
                .map_err(|source| SubsystemError::Kv { nsid, source }),
        }
    }

    /// A namespace of memory or of programs, which is not in the image.
    ///
    /// # Errors
    /// The statuses of sizes that no memory has.
    pub(crate) fn new_volatile(nsid: u32, kind: VolatileKind, origin: Origin) -> Result<Self, CommandError> {
        match kind {
            VolatileKind::Memory { size_bytes } => {
                MemoryNamespace::new(volatile::record(nsid, size_bytes, origin)).map(Self::Memory)
            }
            VolatileKind::Programs => {
                Ok(Self::Programs(ProgramsNamespace::new(volatile::record(nsid, 0, origin))))
            }
        }
    }

    /// Opens the namespace of `record` beside its writer; `None` while that has not finished to make it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_beside(
        flash: &mut Flash,
        record: &NamespaceRecord,
        options: &SubsystemOptions,
    ) -> Result<Option<Self>, SubsystemError> {
        if record.kind == NamespaceKind::Kv && !kv::is_made(record) {
            return Ok(None);
        }
        Self::open(flash, record.clone(), options).map(Some)
    }

    /// Its record in the image: identifiers, size, extent.
    pub fn record(&self) -> &NamespaceRecord {
        match self {
            Self::Nvm(nvm) => nvm.record(),
            Self::Kv(kv) => kv.record(),
            Self::Exported(exported) => exported.record(),
            Self::Memory(memory) => memory.record(),
            Self::Programs(programs) => programs.record(),
        }
    }

    /// Its command set.
    pub fn csi(&self) -> Csi {
        match self {
            Self::Nvm(_) | Self::Exported(_) => Csi::NVM,
            Self::Kv(_) => Csi::KV,
            Self::Memory(_) => Csi::SLM,
            Self::Programs(_) => Csi::CP,
        }
    }

    /// The namespace, if it is one of blocks.
    ///
    /// # Errors
    /// Invalid Command Opcode: the command is none of this namespace's set.
    #[inline]
    pub(crate) fn nvm(&self) -> Result<&NvmNamespace, CommandError> {
        match self {
            Self::Nvm(nvm) => Ok(nvm),
            Self::Kv(_) | Self::Exported(_) | Self::Memory(_) | Self::Programs(_) => Err(NOT_BLOCKS),
        }
    }

    /// The namespace, if it is a key-value namespace.
    ///
    /// # Errors
    /// Invalid Command Opcode: the command is none of this namespace's set.
    #[inline]
    pub fn kv(&mut self) -> Result<&mut KvNamespace, CommandError> {
        match self {
            Self::Kv(kv) => Ok(kv),
            Self::Nvm(_) | Self::Exported(_) | Self::Memory(_) | Self::Programs(_) => Err(NOT_KEY_VALUE),
        }
    }

    /// The same, to look at.
    #[inline]
    pub(crate) fn as_kv(&self) -> Option<&KvNamespace> {
        match self {
            Self::Kv(kv) => Some(kv),
            Self::Nvm(_) | Self::Exported(_) | Self::Memory(_) | Self::Programs(_) => None,
        }
    }

    /// Prefetches memory for commands of this namespace that will come.
    #[inline]
    pub fn prefetch<'c>(&self, flash: &Flash, commands: impl Iterator<Item = &'c Command> + Clone) {
        match self {
            Self::Kv(kv) => kv.prefetch(flash, commands.filter_map(kv::looked_up_key)),
            Self::Nvm(nvm) => nvm.prefetch(flash, commands),
            Self::Exported(_) | Self::Memory(_) | Self::Programs(_) => {}
        }
    }

    /// Deletes all data and sets format `index` of its kind: an LBA format, or key-value format 0.
    ///
    /// # Errors
    /// Invalid Format for an index it does not have; what the flash says.
    pub fn format(&mut self, flash: &mut Flash, index: u8) -> Result<(), CommandError> {
        match self {
            Self::Nvm(nvm) => nvm.format(flash, index),
            Self::Kv(kv) if index == 0 => kv.format(flash),
            Self::Memory(memory) if index == 0 => {
                memory.memory().clear();
                Ok(())
            }
            Self::Kv(_) | Self::Memory(_) | Self::Programs(_) => Err(NO_SUCH_FORMAT),
            Self::Exported(_) => Err(OF_ITS_OWNER),
        }
    }
}

/// Working memory that every command of a controller shares; nothing in it outlives a command.
#[derive(Debug, Default)]
pub struct Room {
    /// Where the command's payload is mapped.
    pub mapped: Mapped,
    /// A page to stage pieces in.
    pub stage: Stage,
    /// Bytes of the command at hand: small values, blocks on their way, compare data.
    pub bytes: Vec<u8>,
    /// The memory of its lookup was prefetched.
    pub is_prefetched: bool,
    /// The command's result, if it is to stand behind the completion.
    pub result: InlineResult,
}

/// Most working memory that a controller keeps between commands, in bytes: there may be thousands of controllers.
const ROOM_KEPT_BYTES: usize = 32 << 10;

impl Room {
    /// Releases the memory of an unusually large command.
    #[inline]
    pub fn trim(&mut self) {
        if self.bytes.capacity() > ROOM_KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}

/// The resources of a command while it executes.
pub struct Execution<'a, 'p> {
    /// The device's flash.
    pub flash: &'a mut Flash,
    /// The controller that the command came over.
    pub controller: ControllerId,
    /// The link.
    pub port: &'a mut Port<'p>,
    /// Working memory.
    pub room: &'a mut Room,
    /// Payload that came with the command, if it did.
    pub carried: Option<&'a [u8]>,
    /// The profile's habit of moving whole host pages for PRPs.
    pub whole_pages: bool,
    /// The window of device memory bound to the command's queue in this namespace: values by DMA go there too.
    pub window: Option<BoundWindow>,
}

impl Execution<'_, '_> {
    /// The payload of a command that brings exactly `into.len()` bytes.
    ///
    /// # Errors
    /// A data pointer that does not name that many bytes the device may read.
    pub fn receive(&mut self, command: &Command, into: &mut [u8]) -> Result<(), CommandError> {
        let Self { port, room, carried, whole_pages, .. } = self;
        let data = data_pointer::map(port, &mut room.mapped, command, into.len(), *carried, *whole_pages)?;
        data.source(&mut room.stage).fill(port, into)
    }

    /// The first `ranges` of a Dataset Management's list.
    ///
    /// The list may be longer: Linux always passes a buffer for the largest number of ranges.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_ranges<'l>(
        &mut self,
        command: &Command,
        ranges: usize,
        list: &'l mut [DsmRange; DSM_RANGES_MAX],
    ) -> Result<&'l [DsmRange], CommandError> {
        let list = &mut list[..ranges.min(DSM_RANGES_MAX)];
        let into = list.as_mut_bytes();
        let Self { port, room, carried, whole_pages, .. } = self;
        let mapped = &mut room.mapped;
        let data = match *carried {
            Some(bytes) => {
                let first = bytes.get(..into.len()).unwrap_or(bytes);
                data_pointer::map(port, mapped, command, into.len(), Some(first), *whole_pages)?
            }
            None => {
                let offered =
                    data_pointer::offered_bytes(command, into.len(), size_of::<[DsmRange; DSM_RANGES_MAX]>());
                data_pointer::map_buffer(port, mapped, command, offered, into.len(), *whole_pages)?
            }
        };
        data.source(&mut room.stage).fill(port, into)?;
        Ok(list)
    }

    /// Maps the host's buffer for `bytes` of a command that reads. The mapping stays in working memory until the command
    /// completes.
    ///
    /// # Errors
    /// A data pointer that does not name that many bytes the device may write.
    pub fn map(&mut self, command: &Command, bytes: usize) -> Result<(), CommandError> {
        let Self { port, room, carried, whole_pages, .. } = self;
        match data_pointer::map(port, &mut room.mapped, command, bytes, *carried, *whole_pages)? {
            HostData::Carried(_) => Err(ONE_WAY),
            HostData::None | HostData::Mapped(_) => Ok(()),
        }
    }

    /// Gives `bytes` to the host of a command that asks for `asked_bytes`, which are as many or more. An SGL names all of them, of PRPs
    /// no more is looked at than is needed.
    ///
    /// # Errors
    /// A data pointer that does not name that many bytes the device may write.
    pub fn send(&mut self, command: &Command, asked_bytes: u64, bytes: &[u8]) -> Result<(), CommandError> {
        let Self { port, room, whole_pages, .. } = self;
        if let Some(result) = room.result.take(bytes.len()) {
            result.extend_from_slice(bytes);
            return Ok(());
        }
        let is_sgl = command.cdw0.psdt() == DataPointer::Sgl && port.capsule.is_none();
        let buffer_bytes = if is_sgl { asked_bytes as usize } else { bytes.len() };
        let data = data_pointer::map_buffer(
            port,
            &mut room.mapped,
            command,
            buffer_bytes,
            bytes.len(),
            *whole_pages,
        )?;
        let mut sink = data.sink(&mut room.stage)?;
        sink.put(port, bytes)?;
        sink.finish(port)
    }
}

/// The first `len` bytes of working memory, which grows to hold them.
fn sized(bytes: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if bytes.len() < len {
        bytes.resize(len, 0);
    }
    &mut bytes[..len]
}

const NOT_KEY_VALUE: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "not a command of a block namespace");
const NOT_BLOCKS: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "not a command of a key-value namespace");
/// Refuses to format or delete a namespace that an external engine keeps.
pub const OF_ITS_OWNER: CommandError = CommandError::new(
    Status::INVALID_OPCODE,
    "what is exported is formatted, sanitized and removed where it is",
);
const ONE_WAY: CommandError = CommandError::invalid_field("an inline payload only goes to the device");
const NO_SUCH_FORMAT: CommandError =
    CommandError::new(Status::INVALID_FORMAT, "the namespace has no such format");
