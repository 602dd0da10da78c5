//! Changes of many keys that take effect atomically: atomic Store Many, and Delete Range.

use byway_kv::Change;
use byway_spec::Command;
use byway_spec::vendor::{BulkPair, DeleteRangeResult, KeyRange};

use super::KvNamespace;
use super::bulk::BulkPairs;
use super::deleted_space::is_disk_full;
use super::scan::{LONG_KEY, PAIRS_KEPT};
use crate::error::CommandError;
use crate::limits::BULK_MAX_BYTES;
use crate::namespace::media::timed;
use crate::namespace::{Execution, Outcome};

/// Bytes of records for each byte of payload, at most: 24 for a pair of 12 bytes, with a key of four bytes and no value.
const RECORD_BYTES_PER_PAIR_BYTE: u64 = 2;
/// A payload limit is a multiple of this.
const LIMIT_STEP_BYTES: u64 = 512;

impl KvNamespace {
    /// Longest payload of an atomic Store Many that fits a batch whatever its pairs are, in bytes. Longer ones may fit too.
    pub fn store_many_max_bytes(&self) -> u32 {
        let by_bytes = self.engine.batch_max_bytes() / RECORD_BYTES_PER_PAIR_BYTE;
        let by_changes = (self.engine.batch_max_changes() * BulkPair::bytes(1, 0)) as u64;
        let limit = by_bytes.min(by_changes).min(BULK_MAX_BYTES as u64);
        (limit - limit % LIMIT_STEP_BYTES) as u32
    }

    /// Atomic Store Many: all pairs of a payload, or none. DW0 is their number.
    pub(super) fn store_atomically(
        &mut self,
        execution: &mut Execution<'_, '_>,
        pairs: BulkPairs<'_>,
    ) -> Result<Outcome, CommandError> {
        let changes = pairs.collect::<Result<Vec<_>, _>>()?;
        let Execution { flash, port, .. } = execution;
        timed(port, |now_ps| {
            self.deleted.note_used(&self.engine);
            match self.engine.store_many(*flash, &changes, now_ps) {
                Err(error) if changes.iter().all(is_deletion) && is_disk_full(&error) => {
                    flash.with_reserve(|flash| self.engine.store_many(flash, &changes, now_ps))
                }
                Err(error) if self.reclaims(flash, &error) => {
                    self.engine.store_many(*flash, &changes, now_ps)
                }
                stored => stored,
            }
        })?;
        Ok(Outcome::with(changes.len() as u32))
    }

    /// Delete Range: deletes the first keys of a range atomically, at most CDW10 (0: no limit of the host's). DW0 is a [`DeleteRangeResult`].
    pub fn delete_range(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let range = KeyRange::read_from(command).map_err(|_| LONG_KEY)?;
        let most = if command.cdw10 == 0 { usize::MAX } else { command.cdw10 as usize };
        let Execution { flash, port, .. } = execution;
        let Self { engine, selection, deleted, .. } = self;
        let done = timed(port, |now_ps| {
            deleted.note_used(engine);
            match engine.delete_range(*flash, &range, most, selection, now_ps) {
                Err(error) if is_disk_full(&error) => {
                    flash.with_reserve(|flash| engine.delete_range(flash, &range, most, selection, now_ps))
                }
                done => done,
            }
        });
        selection.shrink_to(PAIRS_KEPT);
        let done = done?;
        let result =
            DeleteRangeResult::new().with_deleted(done.deleted_keys as u32).with_has_more(done.has_more);
        Ok(Outcome::with(result.into_bits()))
    }
}

fn is_deletion(change: &Change<'_>) -> bool {
    change.value.is_none()
}
