//! An open device, and the commands on it.

use std::ops::ControlFlow;
use std::sync::Arc;

use byway::embedded::EmbeddedDevice;
use byway::{ErrorKind, FileEvents, Key, Kv, Nsid, Nvm, StoreOptions, Wipe};
use byway_crash_tests::content::{key_of, value_of};

use crate::expected::{Found, all_keys};
use crate::op::{BLOCKS, Op};

/// A device that is open, with a queue for each namespace.
pub struct Open {
    pub pairs: Kv,
    pub blocks: Nvm,
    pub device: EmbeddedDevice,
}

impl Open {
    pub fn new(uri: &str) -> Self {
        Self::of(byway::embedded::open(uri).unwrap())
    }

    /// The same with an observer of its file.
    pub fn new_watched(uri: &str, events: Arc<dyn FileEvents>) -> Self {
        Self::of(byway::embedded::open_watched(uri, events).unwrap())
    }

    fn of(device: EmbeddedDevice) -> Self {
        Self { pairs: device.kv(None).unwrap(), blocks: device.nvm(None).unwrap(), device }
    }

    /// Does a command that changes something. What is only looked at is looked at elsewhere.
    pub fn execute(&mut self, op: Op, stamp: u64) -> byway::Result<()> {
        let value = |key, len: u32| value_of(stamp, key, len as usize);
        let new = StoreOptions::NONE.must_not_exist(true);
        let over = StoreOptions::NONE.must_exist(true);
        match op {
            Op::Put { key, len } => self.pairs.put(&key_of(key), &value(key, len)),
            Op::PutNew { key, len } => self.pairs.put_if(&key_of(key), &value(key, len), new),
            Op::PutOver { key, len } => self.pairs.put_if(&key_of(key), &value(key, len), over),
            Op::PutByBytes { key, len } => self.pairs.put_by_bytes(&key_of(key), &value(key, len)),
            Op::Delete { key } => self.pairs.delete(&key_of(key)),
            Op::Bulk { first, pairs, len } => self.bulk(stamp, first..first + pairs, len),
            Op::Load { first, pairs, len } => {
                let named = |key| (Key::new(&key_of(key)).unwrap(), value(key, len));
                self.pairs.load((first..first + pairs).map(named)).map(drop)
            }
            Op::Write { lba, blocks } => {
                let len = self.blocks.lba_bytes();
                let data: Vec<u8> = (lba..lba + blocks).flat_map(|lba| value(lba as u16, len)).collect();
                self.blocks.write(lba.into(), &data)
            }
            Op::Trim { lba, blocks } => self.blocks.trim(lba.into(), blocks),
            Op::Zero { lba, blocks } => self.blocks.write_zeroes(lba.into(), blocks),
            Op::Flush => self.blocks.flush(),
            Op::Read { lba, blocks } if !self.has_blocks(lba, blocks) => {
                self.blocks.read(lba.into(), &mut vec![0; (blocks * self.blocks.lba_bytes()) as usize])
            }
            Op::FormatPairs { erase } => self.format(1, erase),
            Op::FormatBlocks { erase } => self.format(2, erase),
            Op::Sanitize { overwrite } => self.sanitize(overwrite),
            _ => Ok(()),
        }
    }

    fn bulk(&mut self, stamp: u64, keys: std::ops::Range<u16>, len: u32) -> byway::Result<()> {
        let values: Vec<_> = keys.clone().map(|key| value_of(stamp, key, len as usize)).collect();
        let keys = keys.map(|key| Key::new(&key_of(key)).unwrap());
        let pairs: Vec<_> = keys.zip(values.iter().map(Vec::as_slice)).collect();
        self.pairs.put_bulk(&pairs)
    }

    fn format(&mut self, nsid: u32, erase: bool) -> byway::Result<()> {
        // The format that a namespace of blocks was made with is the one of its block size.
        let format = if nsid == 2 && self.blocks.lba_bytes() == 4096 { 1 } else { 0 };
        self.device.format(Nsid::new(nsid).unwrap(), format, erase)?;
        if nsid == 1 {
            // A format ends what was bound to the namespace: windows are bound anew by a new queue.
            self.pairs = self.device.kv(None)?;
        }
        Ok(())
    }

    fn sanitize(&mut self, overwrite: bool) -> byway::Result<()> {
        let wipe =
            if overwrite { Wipe::Overwrite { passes: 1, pattern: 0x5555_5555 } } else { Wipe::BlockErase };
        self.device.sanitize(wipe, |_| ControlFlow::Continue(()))?;
        self.pairs = self.device.kv(None)?;
        Ok(())
    }

    pub fn read_pairs(&mut self) -> Found<u16> {
        all_keys().map(|key| (key, self.pairs.get(&key_of(key)).unwrap())).collect()
    }

    pub fn read_blocks(&mut self, lba: u32, blocks: u32) -> Found<u32> {
        let len = self.blocks.lba_bytes() as usize;
        let mut data = vec![0; blocks as usize * len];
        self.blocks.read(lba.into(), &mut data).unwrap();
        let held = |block: &[u8]| block.iter().any(|byte| *byte != 0).then(|| block.to_vec());
        (lba..).zip(data.chunks_exact(len).map(held)).collect()
    }

    pub fn read_all_blocks(&mut self) -> Found<u32> {
        self.read_blocks(0, BLOCKS.min(self.blocks.blocks() as u32))
    }

    /// Whether the namespace, which may have been made smaller, has all of these blocks.
    pub fn has_blocks(&self, lba: u32, blocks: u32) -> bool {
        u64::from(lba + blocks) <= self.blocks.blocks()
    }

    pub fn keys_from(&mut self, start: &[u8]) -> Vec<Vec<u8>> {
        let start = Key::new(start).unwrap();
        self.pairs.keys(Some(start)).map(|key| key.unwrap().as_bytes().to_vec()).collect()
    }
}

/// No room, more than the transfer method carries, or a condition that it does not carry: refused, and acknowledged as that.
pub fn is_refusal(error: &byway::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::CapacityExceeded | ErrorKind::TooLarge | ErrorKind::Unsupported | ErrorKind::OutOfRange
    )
}
