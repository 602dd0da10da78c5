//! Deletion of many keys, and of ranges of keys.

use byway_core::{Key, KvCommand, Result};
use byway_spec::vendor::DeleteRangeResult;

use crate::calls::kv::Kv;
use crate::calls::page::wrong;
use crate::calls::range::{KeyRange, ScanOptions};

/// Answers in a row that delete nothing and say that there is more, after which a device is not asked again.
const IDLE_MAX: u32 = 1000;

/// Keys that are gathered before they are deleted, where the device has no Delete Range.
const GATHERED_KEYS: usize = 1024;

impl Kv {
    /// Deletes many keys, in any order; one that is not there is deleted already. Not atomic.
    ///
    /// # Errors
    /// As [`Kv::delete`]; other keys may be deleted by then.
    pub fn delete_many(&mut self, keys: &[Key]) -> Result<()> {
        let nsid = self.nsid();
        let deletions = keys.iter().map(|key| Ok(KvCommand::Delete { nsid, key: *key }.into()));
        self.pipeline(deletions).map_err(|error| error.doing("delete many keys"))
    }

    /// Deletes the keys of a range; how many there were. Not atomic: keys are deleted in parts, and keys that are stored
    /// meanwhile may be deleted or not.
    ///
    /// # Errors
    /// What the device says; some of the keys may be deleted by then.
    pub fn delete_range(&mut self, range: KeyRange) -> Result<u64> {
        self.delete_range_watched(range, |_| Ok(()))
    }

    /// The same, with a call of `on` after each part, which is passed how many keys were deleted so far and may end it.
    ///
    /// # Errors
    /// As [`Kv::delete_range`], and what `on` returns.
    pub fn delete_range_watched(
        &mut self,
        range: KeyRange,
        mut on: impl FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        if range.is_empty() {
            return Ok(0);
        }
        let bound_len = range.span(false).bound.map_or(0, |bound| bound.len());
        match self.can().delete_range && bound_len <= self.bound_max_bytes() {
            true => self.delete_by_range(range, &mut on),
            false => self.delete_by_keys(range, &mut on),
        }
    }

    fn delete_by_range(&mut self, range: KeyRange, on: &mut impl FnMut(u64) -> Result<()>) -> Result<u64> {
        let (nsid, mut range) = (self.nsid(), range);
        let (mut deleted, mut idle) = (0, 0);
        loop {
            let command = KvCommand::DeleteRange { nsid, range: range.span(false), keys: 0 };
            let outcome = self.execute(command.into()).map_err(|error| error.doing("delete a range"))?;
            let result = DeleteRangeResult::from_bits(outcome.dw0());
            deleted += u64::from(result.deleted());
            on(deleted)?;
            if !result.has_more() {
                return Ok(deleted);
            }
            idle = if result.deleted() == 0 { idle + 1 } else { 0 };
            if idle == IDLE_MAX {
                return Err(wrong("a deletion of a range that goes on and deletes nothing"));
            }
            // From the same start, each command would pass all keys that were deleted before it.
            let Some(first) = self.first_key(range)? else { return Ok(deleted) };
            range = range.from(Some(first));
        }
    }

    fn first_key(&mut self, range: KeyRange) -> Result<Option<Key>> {
        let mut keys = self.scan_with(range, ScanOptions::default().keys_only(true).limit(1));
        keys.next().map(|pair| pair.map(|(key, _)| key)).transpose()
    }

    fn delete_by_keys(&mut self, range: KeyRange, on: &mut impl FnMut(u64) -> Result<()>) -> Result<u64> {
        let (mut range, mut deleted) = (range, 0);
        loop {
            let options = ScanOptions::default().keys_only(true).limit(GATHERED_KEYS as u64);
            let scan = self.scan_with(range, options).map(|pair| pair.map(|(key, _)| key));
            let keys = scan.collect::<Result<Vec<_>>>()?;
            let Some(last) = keys.last() else { return Ok(deleted) };
            self.delete_many(&keys)?;
            deleted += keys.len() as u64;
            on(deleted)?;
            range = range.behind(*last);
        }
    }
}
