//! LMDB: a memory-mapped B+tree, through heed.
//!
//! Without a sync: a writable map and no sync (`WRITEMAP`, `NOSYNC`), so that a committed put survives the process.
//! With one: a writable map, synced at each commit. Reads share a transaction until the session writes.

use std::path::Path;

use anyhow::{Context, Result};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithoutTls};

use super::key::Key;
use super::store::{Guarantee, Opening, Session, Store};

/// Puts of one transaction, where they are gathered.
pub const BATCH_PUTS: u64 = 1000;
/// Least bytes of the map; it takes address space, not memory.
const MAP_BYTES: u64 = 4 << 30;
/// Bytes of the map for each byte of key and value: pages of random inserts are half to two thirds full.
const MAP_TIMES: u64 = 6;

type Table = Database<'static, Bytes, Bytes>;

struct Map {
    env: Env<WithoutTls>,
    table: Table,
    batch_puts: u64,
}

/// Opens, or makes, the environment of a folder.
pub fn open(folder: &Path, opening: &Opening, batch_puts: u64) -> Result<Box<dyn Store>> {
    let bytes = MAP_TIMES * opening.keys * (u64::from(opening.record_bytes) + 16) + MAP_BYTES;
    let env = map(folder, bytes.next_multiple_of(1 << 20) as usize, opening.guarantee)?;
    let made = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        opener.create_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    Ok(Box::new(Map { table: made.unwrap_commit(), env, batch_puts }))
}

#[expect(unsafe_code, reason = "heed requires that no other process changes the file")]
fn map(folder: &Path, bytes: usize, guarantee: Guarantee) -> Result<Env<WithoutTls>> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(bytes);
    let sync = if guarantee == Guarantee::Media { EnvFlags::empty() } else { EnvFlags::NO_SYNC };
    // SAFETY: no process reads what a system crash leaves of an unsynced file: the folder belongs to this bench
    // and is removed with it.
    unsafe { options.flags(EnvFlags::WRITE_MAP | sync) };
    // SAFETY: the folder was made by this process for this bench; no other process writes or truncates the file.
    Ok(unsafe { options.open(folder)? })
}

impl Store for Map {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Client { map: self, read: None, write: None, gathered: 0 }))
    }
}

struct Client<'a> {
    map: &'a Map,
    read: Option<RoTxn<'a, WithoutTls>>,
    write: Option<RwTxn<'a>>,
    gathered: u64,
}

impl Session for Client<'_> {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        self.read = None;
        let write = match &mut self.write {
            Some(write) => write,
            none => none.insert(self.map.env.write_txn()?),
        };
        self.map.table.put(write, key, value)?;
        self.gathered += 1;
        if self.gathered >= self.map.batch_puts { self.settle() } else { Ok(()) }
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.map.table;
        let value = table.get(self.reading()?, key)?;
        Ok(value.is_some_and(|value| {
            see(value);
            true
        }))
    }

    fn keys(&mut self, from: &Key, limit: u64, see: &mut dyn FnMut(&[u8])) -> Result<u64> {
        // The value of an item is a reference into the map: a cursor that wants keys alone reads no value.
        self.pairs(from, limit, &mut |key, _| see(key))
    }

    fn pairs(&mut self, from: &Key, limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let table = self.map.table;
        let from = (std::ops::Bound::Included(from.as_slice()), std::ops::Bound::Unbounded);
        let mut seen = 0;
        for item in table.range(self.reading()?, &from)?.take(limit as usize) {
            let (key, value) = item?;
            see(key, value);
            seen += 1;
        }
        Ok(seen)
    }

    fn put_together(&mut self, pairs: &[(Key, &[u8])]) -> Result<()> {
        // The environment has one writer: an open transaction of single puts would lock this one out.
        self.settle()?;
        let mut write = self.map.env.write_txn()?;
        for (key, value) in pairs {
            self.map.table.put(&mut write, key, value)?;
        }
        Ok(write.commit()?)
    }

    fn settle(&mut self) -> Result<()> {
        self.read = None;
        self.gathered = 0;
        match self.write.take() {
            Some(write) => Ok(write.commit()?),
            None => Ok(()),
        }
    }
}

impl Client<'_> {
    /// The transaction that reads see: the open one that writes, or one of their own.
    fn reading(&mut self) -> Result<&RoTxn<'_, WithoutTls>> {
        if let Some(write) = &self.write {
            return Ok(write);
        }
        if self.read.is_none() {
            self.read = Some(self.map.env.read_txn()?);
        }
        self.read.as_ref().context("a transaction was just begun")
    }
}
