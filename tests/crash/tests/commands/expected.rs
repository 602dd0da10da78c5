//! A plain map beside the device: what each key and each block holds.

use std::collections::BTreeMap;

use byway_crash_tests::content::{key_of, value_of};

use crate::op::{KEYS, Op};

/// What a slot holds, as far as a content follows from it: the number of the command that stored it, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub stamp: u64,
    pub len: u32,
}

impl Held {
    pub fn content(self, slot: u32) -> Vec<u8> {
        value_of(self.stamp, slot as u16, self.len as usize)
    }
}

/// The map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    pub pairs: BTreeMap<u16, Held>,
    pub blocks: BTreeMap<u32, Held>,
}

impl Expected {
    /// The map after a command that was done.
    pub fn after(&self, op: Op, stamp: u64, lba_bytes: u32) -> Self {
        let mut map = self.clone();
        let block = Held { stamp, len: lba_bytes };
        match op {
            Op::Put { key, len } | Op::PutByBytes { key, len } => map.put(key, len, stamp),
            Op::PutNew { key, len } if !self.pairs.contains_key(&key) => map.put(key, len, stamp),
            Op::PutOver { key, len } if self.pairs.contains_key(&key) => map.put(key, len, stamp),
            Op::Delete { key } => drop(map.pairs.remove(&key)),
            Op::Bulk { first, pairs, len } | Op::Load { first, pairs, len } => {
                (first..first + pairs).for_each(|key| map.put(key, len, stamp));
            }
            Op::Write { lba, blocks } => map.blocks.extend((lba..lba + blocks).map(|lba| (lba, block))),
            Op::Trim { lba, blocks } | Op::Zero { lba, blocks } => {
                map.blocks.retain(|at, _| !(lba..lba + blocks).contains(at));
            }
            Op::Sanitize { .. } => map = Self::default(),
            Op::FormatPairs { .. } => map.pairs.clear(),
            Op::FormatBlocks { .. } => map.blocks.clear(),
            _ => {}
        }
        map
    }

    fn put(&mut self, key: u16, len: u32, stamp: u64) {
        self.pairs.insert(key, Held { stamp, len });
    }

    /// Bytes of keys and values.
    pub fn live_bytes(&self) -> u64 {
        self.pairs.iter().map(|(key, held)| key_of(*key).len() as u64 + u64::from(held.len)).sum()
    }

    /// The keys that are there from one on, in their order.
    pub fn keys_from(&self, start: &[u8]) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = self.pairs.keys().map(|key| key_of(*key)).collect();
        keys.retain(|key| key.as_slice() >= start);
        keys.sort_unstable();
        keys
    }

    /// Takes for true what was found, where it is as in this map or as in `other`; says what is in neither.
    pub fn settle(&mut self, other: &Self, pairs: &Found<u16>, blocks: &Found<u32>) -> Result<(), String> {
        settle(&mut self.pairs, &other.pairs, pairs).map_err(|said| format!("key {said}"))?;
        settle(&mut self.blocks, &other.blocks, blocks).map_err(|said| format!("block {said}"))
    }
}

/// What slots hold, as they were read.
pub type Found<K> = BTreeMap<K, Option<Vec<u8>>>;

fn settle<K: Copy + Ord + Into<u32> + std::fmt::Display>(
    one: &mut BTreeMap<K, Held>,
    other: &BTreeMap<K, Held>,
    found: &Found<K>,
) -> Result<(), String> {
    for (slot, found) in found {
        let allowed = [one.get(slot).copied(), other.get(slot).copied()];
        let is = |held: &Option<Held>| held.map(|held| held.content((*slot).into())) == *found;
        match allowed.iter().find(|held| is(held)) {
            None => {
                return Err(format!("{slot} holds {}, and may hold {allowed:?}", describe(found.as_deref())));
            }
            Some(Some(held)) => _ = one.insert(*slot, *held),
            Some(None) => _ = one.remove(slot),
        }
    }
    Ok(())
}

/// Unexpected bytes, described by the step number that they begin with.
fn describe(found: Option<&[u8]>) -> String {
    let Some(bytes) = found else { return "nothing".into() };
    let stamp = bytes.first_chunk().map(|first| u64::from_le_bytes(*first));
    format!("{} bytes of stamp {stamp:?}", bytes.len())
}

/// Every key that commands use.
pub fn all_keys() -> impl Iterator<Item = u16> {
    0..KEYS
}
