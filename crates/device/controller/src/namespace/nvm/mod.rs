//! A namespace of logical blocks (NVM command set).
//!
//! Blocks are 512 or 4096 bytes; the flash maps units of 4096, so a smaller block is a part of a unit that is read,
//! changed and written anew. A deallocated block reads as zeroes. What was acknowledged is in power-protected state:
//! there is no volatile cache, force unit access costs nothing, and Flush syncs the image itself.

mod command;
mod range;
mod transfer;

use byway_flash::{Cause, Flash, FlashError, NamespaceKind, NamespaceRecord, UNIT_BYTES};
use byway_spec::nvm::{NvmCdw12, NvmOpcode};
use byway_spec::vendor::BlockObject;
use byway_spec::{Command, Status};

pub(crate) use self::command::Blocks;
pub(super) use self::command::{NvmCommand, OUT_OF_RANGE, copy_blocks, dsm_blocks};
pub(crate) use self::range::{COPY_MAX_BYTES, COPY_RANGES_MAX};
pub(crate) use self::transfer::ByteRange;
use super::media::{read_error, timed, write_error};
use super::{Execution, NO_SUCH_FORMAT, Outcome};
use crate::error::CommandError;
use crate::port::Port;
use crate::query::{RangeWatch, RangeWatches};

/// Block sizes a namespace can be formatted with, as powers of two: LBA formats 0 and 1.
pub const LBA_FORMATS: [u8; 2] = [9, 12];

/// A namespace of logical blocks.
#[derive(Debug)]
pub struct NvmNamespace {
    record: NamespaceRecord,
    lba_shift: u8,
    /// What queries read of it.
    watches: RangeWatches,
}

/// Number and size of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    blocks: u64,
    lba_shift: u8,
}

impl Shape {
    /// The bytes of `blocks`, if all of them are there.
    #[inline]
    pub(crate) fn bytes(self, blocks: Blocks) -> Result<ByteRange, CommandError> {
        let end = blocks.slba.checked_add(blocks.count).ok_or(OUT_OF_RANGE)?;
        if end > self.blocks {
            return Err(OUT_OF_RANGE);
        }
        Ok(ByteRange { at: blocks.slba << self.lba_shift, len: blocks.count << self.lba_shift })
    }

    /// Bytes that a command which reads or writes says it moves.
    #[inline]
    pub fn moved_bytes(self, command: &Command) -> u64 {
        (u64::from(NvmCdw12::from_bits(command.cdw12).nlb_z()) + 1) << self.lba_shift
    }

    /// The bytes that a read or a write names.
    ///
    /// # Errors
    /// The status for a command with invalid fields; Invalid Command Opcode for any other command.
    #[inline]
    pub fn range_of(self, command: &Command) -> Result<ByteRange, CommandError> {
        match NvmCommand::parse(command)? {
            NvmCommand::Read(blocks) | NvmCommand::Write(blocks) => self.bytes(blocks),
            _ => Err(CommandError::new(Status::INVALID_OPCODE, "neither a read nor a write")),
        }
    }
}

impl NvmNamespace {
    /// The namespace of `record`. Its first byte of owner state, if set, is the block size it was formatted with.
    pub fn new(record: NamespaceRecord) -> Self {
        let made_with = match record.kind {
            NamespaceKind::Nvm { lba_bytes } => lba_bytes.trailing_zeros() as u8,
            NamespaceKind::Kv => 0,
        };
        let [formatted_with, ..] = record.owner_state;
        let known = |shift: &u8| LBA_FORMATS.contains(shift);
        let lba_shift = [formatted_with, made_with].into_iter().find(known).unwrap_or(LBA_FORMATS[0]);
        Self { record, lba_shift, watches: RangeWatches::default() }
    }

    /// Its record in the image.
    pub fn record(&self) -> &NamespaceRecord {
        &self.record
    }

    /// Size of a block as a power of two.
    pub fn lba_shift(&self) -> u8 {
        self.lba_shift
    }

    /// Index of its LBA format.
    pub fn format_index(&self) -> u8 {
        LBA_FORMATS.iter().position(|shift| *shift == self.lba_shift).unwrap_or(0) as u8
    }

    /// Number of blocks.
    #[inline]
    pub fn blocks(&self) -> u64 {
        self.record.size_bytes >> self.lba_shift
    }

    /// Number of blocks that hold data. The first call after opening walks the map.
    ///
    /// # Errors
    /// Errors of the flash.
    pub fn used_blocks(&self, flash: &mut Flash) -> Result<u64, FlashError> {
        Ok((flash.mapped_bytes(self.record.extent)? >> self.lba_shift).min(self.blocks()))
    }

    /// Forgets every block and takes LBA format `index`.
    ///
    /// # Errors
    /// Invalid Format for an unknown index; errors of the flash.
    pub fn format(&mut self, flash: &mut Flash, index: u8) -> Result<(), CommandError> {
        let shift = *LBA_FORMATS.get(usize::from(index)).ok_or(NO_SUCH_FORMAT)?;
        self.watches.note(ByteRange { at: 0, len: self.record.size_bytes });
        flash.clear(self.record.extent).map_err(write_error)?;
        flash.set_owner_state(self.record.nsid, &[shift]).map_err(write_error)?;
        self.record.owner_state[0] = shift;
        self.lba_shift = shift;
        Ok(())
    }

    /// Prefetches memory for commands that will come: the map's entries, and by them what reads begin with.
    #[inline]
    pub fn prefetch<'c>(&self, flash: &Flash, commands: impl Iterator<Item = &'c Command> + Clone) {
        let at = |command: &Command| command.cdw10_11().wrapping_shl(self.lba_shift.into());
        commands.clone().for_each(|command| flash.prefetch_entry(self.record.extent, at(command)));
        let reads = commands.filter(|command| command.opcode() == NvmOpcode::READ.0);
        reads.for_each(|command| flash.prefetch_unit(self.record.extent, at(command)));
    }

    /// Executes one command.
    #[inline]
    pub fn execute(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        match NvmCommand::parse(command)? {
            NvmCommand::Write(blocks) => self.write(execution, command, blocks),
            NvmCommand::Read(blocks) => self.read(execution, command, blocks),
            NvmCommand::Compare(blocks) => self.compare(execution, command, blocks),
            NvmCommand::Verify(blocks) => self.verify(execution, blocks),
            NvmCommand::WriteZeroes(blocks) => self.write_zeroes(execution, blocks),
            NvmCommand::DatasetManagement { ranges, deallocate } => {
                self.dataset_management(execution, command, ranges, deallocate)
            }
            NvmCommand::Copy { to_lba, ranges } => self.copy(execution, command, to_lba, ranges),
            NvmCommand::Flush => Ok(Outcome::OnceSynced),
        }
    }

    /// Number and size of its blocks.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        Shape { blocks: self.blocks(), lba_shift: self.lba_shift }
    }

    /// The bytes of `blocks`, if the namespace has all of them.
    #[inline]
    fn bytes(&self, blocks: Blocks) -> Result<ByteRange, CommandError> {
        self.shape().bytes(blocks)
    }

    /// The bytes of an object, if the namespace has all of them.
    ///
    /// # Errors
    /// LBA Out of Range.
    pub(crate) fn object_range(&self, object: BlockObject) -> Result<ByteRange, CommandError> {
        let at = object.slba.checked_mul(1 << self.lba_shift).ok_or(OUT_OF_RANGE)?;
        let end = at.checked_add(object.len_bytes).ok_or(OUT_OF_RANGE)?;
        if object.len_bytes == 0 || end > self.record.size_bytes {
            return Err(OUT_OF_RANGE);
        }
        Ok(ByteRange { at, len: object.len_bytes })
    }

    /// Watches a range for changes.
    pub(crate) fn watch(&mut self, range: ByteRange) -> RangeWatch {
        self.watches.add(range)
    }

    /// Whether a query reads a range: then every change is made under the run lock.
    pub(crate) fn is_watched(&self) -> bool {
        self.watches.any()
    }

    /// Reads bytes, which lie inside it, at modelled time `now_ps`.
    ///
    /// # Errors
    /// Errors of the flash.
    #[inline]
    pub(crate) fn read_at(
        &self,
        flash: &mut Flash,
        at: u64,
        into: &mut [u8],
        now_ps: &mut u64,
    ) -> Result<(), CommandError> {
        flash.read(self.record.extent, at, into, Cause::Host, now_ps).map_err(read_error)
    }

    /// Writes bytes, which lie inside it, at modelled time `now_ps`.
    ///
    /// # Errors
    /// Errors of the flash.
    #[inline]
    pub(crate) fn write_at(
        &self,
        flash: &mut Flash,
        at: u64,
        from: &[u8],
        now_ps: &mut u64,
    ) -> Result<(), CommandError> {
        self.watches.note(ByteRange { at, len: from.len() as u64 });
        flash.write_bytes(self.record.extent, at, from, Cause::Host, now_ps).map_err(write_error)
    }

    #[inline]
    fn load(
        &self,
        flash: &mut Flash,
        port: &mut Port<'_>,
        at: u64,
        into: &mut [u8],
    ) -> Result<(), CommandError> {
        timed(port, |now_ps| self.read_at(flash, at, into, now_ps))
    }

    #[inline]
    fn save(&self, flash: &mut Flash, port: &mut Port<'_>, at: u64, from: &[u8]) -> Result<(), CommandError> {
        timed(port, |now_ps| self.write_at(flash, at, from, now_ps))
    }

    /// Makes bytes read as zeroes: whole units are deallocated, parts of mapped units written.
    fn clear(&self, flash: &mut Flash, port: &mut Port<'_>, range: ByteRange) -> Result<(), CommandError> {
        self.watches.note(range);
        let unit = UNIT_BYTES as u64;
        let end = range.at + range.len;
        let (first, last) = (range.at.next_multiple_of(unit).min(end), end - end % unit);
        self.clear_part(flash, port, range.at, first)?;
        if last <= first {
            return self.clear_part(flash, port, first, end);
        }
        flash.trim(self.record.extent, first / unit..last / unit).map_err(write_error)?;
        self.clear_part(flash, port, last, end)
    }

    /// Writes zeroes over a part of one unit, unless the unit reads as zeroes already.
    fn clear_part(
        &self,
        flash: &mut Flash,
        port: &mut Port<'_>,
        from: u64,
        to: u64,
    ) -> Result<(), CommandError> {
        const ZEROES: [u8; UNIT_BYTES] = [0; UNIT_BYTES];
        if from == to {
            return Ok(());
        }
        let unit = from / UNIT_BYTES as u64;
        if !flash.is_mapped(self.record.extent, unit).map_err(write_error)? {
            return Ok(());
        }
        // Of a command that makes room.
        flash.with_reserve(|flash| self.save(flash, port, from, &ZEROES[..(to - from) as usize]))
    }
}
