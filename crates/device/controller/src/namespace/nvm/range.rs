//! Write Zeroes, Dataset Management and Copy: what is done to ranges of blocks inside the device.

use byway_spec::nvm::{CopyRange, DSM_RANGES_MAX, DsmRange};
use byway_spec::{Command, Status};
use zerocopy::IntoBytes;

use super::NvmNamespace;
use super::command::{Blocks, copy_blocks, dsm_blocks};
use super::transfer::ByteRange;
use crate::error::CommandError;
use crate::namespace::{Execution, Outcome, sized};

/// Most source ranges of one Copy.
pub const COPY_RANGES_MAX: usize = 128;

/// Most bytes of one Copy. All sources are read before anything is written, so a destination may overlap them.
pub const COPY_MAX_BYTES: u64 = 1 << 20;

/// Limits of Copy in a namespace, as Identify reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyLimits {
    /// Longest source range in blocks (MSSRL).
    pub range_blocks: u16,
    /// Longest copy in blocks (MCL).
    pub copy_blocks: u32,
    /// Most source ranges, zero-based (MSRC).
    pub ranges_z: u8,
}

impl NvmNamespace {
    /// What Copy takes.
    pub fn copy_limits(&self) -> CopyLimits {
        let blocks = COPY_MAX_BYTES >> self.lba_shift;
        CopyLimits {
            range_blocks: blocks as u16,
            copy_blocks: blocks as u32,
            ranges_z: (COPY_RANGES_MAX - 1) as u8,
        }
    }

    pub(super) fn write_zeroes(
        &mut self,
        execution: &mut Execution<'_, '_>,
        blocks: Blocks,
    ) -> Result<Outcome, CommandError> {
        let range = self.bytes(blocks)?;
        self.clear(execution.flash, execution.port, range)?;
        Ok(Outcome::OK)
    }

    pub(super) fn dataset_management(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        ranges: usize,
        deallocate: bool,
    ) -> Result<Outcome, CommandError> {
        let mut list = [DsmRange::default(); DSM_RANGES_MAX];
        let list = execution.receive_ranges(command, ranges, &mut list)?;
        if !deallocate {
            return Ok(Outcome::OK);
        }
        // All are checked before any is deallocated.
        for range in list {
            self.bytes(dsm_blocks(range))?;
        }
        for range in list {
            let bytes = self.bytes(dsm_blocks(range))?;
            self.clear(execution.flash, execution.port, bytes)?;
        }
        Ok(Outcome::OK)
    }

    pub(super) fn copy(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        to_lba: u64,
        ranges: usize,
    ) -> Result<Outcome, CommandError> {
        let mut list = [CopyRange::default(); COPY_RANGES_MAX];
        let list = list.get_mut(..ranges).ok_or(COPY_TOO_LARGE)?;
        execution.receive(command, list.as_mut_bytes())?;
        let count = self.check_copy(list)?;
        let to = self.bytes(Blocks { slba: to_lba, count })?;
        self.gather(execution, list, to.len as usize)?;
        let Execution { flash, port, room, .. } = execution;
        self.save(flash, port, to.at, &room.bytes[..to.len as usize])?;
        Ok(Outcome::OK)
    }

    /// Blocks that `list` copies in all, if that is within the limits and every range within the namespace.
    fn check_copy(&self, list: &[CopyRange]) -> Result<u64, CommandError> {
        let limits = self.copy_limits();
        let mut total = 0;
        for (index, range) in list.iter().enumerate() {
            let blocks = copy_blocks(range);
            total += blocks.count;
            if blocks.count > u64::from(limits.range_blocks) || total > u64::from(limits.copy_blocks) {
                return Err(COPY_TOO_LARGE);
            }
            self.bytes(blocks).map_err(|error| of_range(error, index))?;
        }
        Ok(total)
    }

    /// Reads all source ranges one behind the other into working memory.
    fn gather(
        &self,
        execution: &mut Execution<'_, '_>,
        list: &[CopyRange],
        len: usize,
    ) -> Result<(), CommandError> {
        let Execution { flash, port, room, .. } = execution;
        let mut rest = sized(&mut room.bytes, len);
        for (index, range) in list.iter().enumerate() {
            let ByteRange { at, len } = self.bytes(copy_blocks(range))?;
            let (into, behind) = rest.split_at_mut(len as usize);
            self.load(flash, port, at, into).map_err(|error| of_range(error, index))?;
            rest = behind;
        }
        Ok(())
    }
}

/// The completion of a failed Copy names the first source range that was not copied.
fn of_range(mut error: CommandError, index: usize) -> CommandError {
    error.dw0 = index as u32;
    error
}

const COPY_TOO_LARGE: CommandError =
    CommandError::new(Status::COMMAND_SIZE_LIMIT_EXCEEDED, "more ranges or blocks than one Copy takes");
