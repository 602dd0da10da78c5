//! Runs a workload's steps on an open device, one after the other.

use std::sync::Arc;

use byway::embedded::EmbeddedDevice;
use byway::{ErrorKind, FileEvents, Key, Kv, Nvm};

use crate::content::{BLOCK_BYTES, block_of, key_of, value_of};
use crate::workload::{Op, Workload};

/// An open device and the workload whose steps are run on it.
pub struct Runner {
    /// The namespace of pairs.
    pub pairs: Kv,
    /// The namespace of blocks.
    pub blocks: Nvm,
    /// The device.
    pub device: EmbeddedDevice,
    workload: Workload,
    seed: u64,
}

impl Runner {
    /// Opens a device; `events` observes its file operations.
    ///
    /// # Errors
    /// What the opening says.
    pub fn open(
        uri: &str,
        workload: Workload,
        seed: u64,
        events: Option<Arc<dyn FileEvents>>,
    ) -> byway::Result<Self> {
        let device = match events {
            Some(events) => byway::embedded::open_watched(uri, events)?,
            None => byway::embedded::open(uri)?,
        };
        Ok(Self { pairs: device.kv(None)?, blocks: device.nvm(None)?, device, workload, seed })
    }

    /// The value that a step stores to a key.
    #[must_use]
    pub fn value(&self, step: u64, key: u16) -> Vec<u8> {
        value_of(step, key, self.workload.len(self.seed, step, key) as usize)
    }

    /// Does a step from its beginning to its end. [`Op::Reopen`] is nothing that runner can do.
    ///
    /// # Errors
    /// What the device answers.
    pub fn execute(&mut self, op: Op, step: u64) -> byway::Result<()> {
        match op {
            Op::Put { key, .. } => {
                let value = self.value(step, key);
                self.pairs.put(&key_of(key), &value)
            }
            Op::Delete { key } => self.pairs.delete(&key_of(key)),
            Op::Get { key } => self.pairs.get(&key_of(key)).map(drop),
            Op::List => self.list(),
            Op::Bulk { first, pairs } => self.bulk(step, first, pairs),
            Op::Write { lba, blocks } => self.blocks.write(lba.into(), &blocks_of(step, lba, blocks)),
            Op::Trim { lba, blocks } => self.blocks.trim(lba.into(), blocks),
            Op::Zero { lba, blocks } => self.blocks.write_zeroes(lba.into(), blocks),
            Op::Flush => self.blocks.flush(),
            Op::FormatPairs => self.format(true),
            Op::FormatBlocks => self.format(false),
            Op::Reopen => Ok(()),
        }
    }

    fn list(&mut self) -> byway::Result<()> {
        let listed: Vec<Key> = self.pairs.keys(None).collect::<Result<_, _>>()?;
        if listed.is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        Err(byway::Error::host(ErrorKind::Protocol, "the list is not in order"))
    }

    fn bulk(&mut self, step: u64, first: u16, pairs: u16) -> byway::Result<()> {
        let values: Vec<Vec<u8>> = (first..first + pairs).map(|key| self.value(step, key)).collect();
        let named = |key| Key::new(&key_of(key)).map_err(byway::Error::from);
        let keys: Vec<Key> = (first..first + pairs).map(named).collect::<Result<_, _>>()?;
        let pairs: Vec<(Key, &[u8])> = keys.into_iter().zip(values.iter().map(Vec::as_slice)).collect();
        self.pairs.put_bulk(&pairs)
    }

    fn format(&mut self, pairs: bool) -> byway::Result<()> {
        let nsid = if pairs { self.pairs.nsid() } else { byway::Nsid::new(2)? };
        self.device.driver().admin(byway::AdminCommand::Format { nsid, format: 0, erase: false })?;
        if pairs {
            // A format ends what was bound to the namespace: windows of device memory are bound anew by a new queue.
            self.pairs = self.device.kv(None)?;
        }
        Ok(())
    }
}

/// What a step writes to blocks from `lba` on.
#[must_use]
pub fn blocks_of(step: u64, lba: u32, blocks: u32) -> Vec<u8> {
    let mut data = Vec::with_capacity(blocks as usize * BLOCK_BYTES);
    (lba..lba + blocks).for_each(|at| data.extend(block_of(step, at)));
    data
}
