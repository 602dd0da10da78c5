//! Batches: stores and deletions that happen all or not at all.

use std::ops::Range;

use byway_core::{Error, ErrorKind, Key, KvCommand, Payload, Result};
use byway_spec::vendor::{BULK_COUNT_BYTES, BulkPair};

use crate::calls::kv::Kv;
use crate::calls::load::write_pair;

/// Stores and deletions for [`Kv::commit`]. Of several changes of one key the last counts.
///
/// ```
/// let mut batch = byway::Batch::new();
/// batch.put(b"to", b"110")?;
/// batch.put(b"from", b"90")?;
/// batch.delete(b"order")?;
/// assert_eq!(batch.len(), 3);
/// # Ok::<(), byway::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    changes: Vec<Change>,
    values: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Change {
    key: Key,
    /// Where its value is; `None` for a deletion.
    value: Option<Range<usize>>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a store.
    ///
    /// # Errors
    /// A key of a wrong length.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key, at) = (Key::new(key)?, self.values.len());
        self.values.extend_from_slice(value);
        self.changes.push(Change { key, value: Some(at..self.values.len()) });
        Ok(())
    }

    /// Adds a deletion; a key that is not there is deleted already.
    ///
    /// # Errors
    /// A key of a wrong length.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.changes.push(Change { key: Key::new(key)?, value: None });
        Ok(())
    }

    /// Stores and deletions added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Forgets what was added, and keeps the memory.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.values.clear();
    }

    fn payload_bytes(&self) -> usize {
        BULK_COUNT_BYTES + self.changes.iter().map(Change::payload_bytes).sum::<usize>()
    }

    fn write_to(&self, payload: &mut [u8]) {
        let (count, mut rest) = payload.split_at_mut(BULK_COUNT_BYTES);
        count.copy_from_slice(&(self.changes.len() as u32).to_le_bytes());
        for change in &self.changes {
            let (place, behind) = rest.split_at_mut(change.payload_bytes());
            let value = change.value.clone().and_then(|range| self.values.get(range));
            let flags = if value.is_none() { BulkPair::DELETE } else { 0 };
            write_pair(place, &change.key, value.unwrap_or_default(), flags);
            rest = behind;
        }
    }
}

impl Change {
    fn payload_bytes(&self) -> usize {
        BulkPair::bytes(self.key.len(), self.value.as_ref().map_or(0, Range::len))
    }
}

impl Kv {
    /// Does all that a batch holds, or nothing of it, through any crash. When this returns, it survives the death of the process
    /// at any instruction. Each get and each command of a scan beside it sees all of it or nothing; of the keys of one
    /// [`get_many`](Kv::get_many), some may be seen as before it and others as after it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on a device without atomic Store Many, and for a batch that is longer than the device takes
    /// ([`Limits::store_many_bytes`](crate::Limits::store_many_bytes)); else as [`Kv::put`]. Nothing is changed then.
    pub fn commit(&mut self, batch: &Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let bytes = batch.payload_bytes();
        self.check_commit(bytes)?;
        let mut payload = self.many_buffer(bytes)?;
        batch.write_to(payload.as_mut_slice());
        let (nsid, pairs) = (self.nsid(), Payload::Buffer(payload));
        let command = KvCommand::BulkStore { nsid, pairs, atomic: true };
        let done = self.execute(command.into()).map_err(|error| error.doing("commit a batch"))?;
        if let Some(payload) = done.buffer {
            self.keep_many(payload);
        }
        Ok(())
    }

    fn check_commit(&self, bytes: usize) -> Result<()> {
        let most = self.commit_max_bytes();
        let said = match (self.can().store_many_atomic, bytes > most) {
            (false, _) => "the device has no atomic Store Many, which batches need".into(),
            (true, true) => {
                format!(
                    "a batch of {bytes} bytes is longer than the {most} bytes that the device stores atomically"
                )
            }
            (true, false) => return Ok(()),
        };
        Err(Error::host(ErrorKind::Unsupported, said))
    }
}
