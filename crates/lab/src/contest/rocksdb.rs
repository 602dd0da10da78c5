//! RocksDB, an LSM tree, where its library is installed.
//!
//! No compression, a block cache that holds all pairs, filters of 10 bits a key, two background threads; all else as the
//! library has it. Many keys are read by its MultiGet. Without a sync, a put is in the log's file when it returns: it survives the process. With one, each write syncs
//! the log. Debian's build of the library has its assertions on: a build without them is faster.

use std::path::Path;

use anyhow::Result;

use super::key::Key;
use super::rocksdb_library::Rocks;
use super::store::{Guarantee, Opening, Session, Store};

pub use super::rocksdb_library::check;

/// Background threads.
const THREADS: u32 = 2;

/// Opens, or makes, the database of a folder.
pub fn open(folder: &Path, opening: &Opening) -> Result<Box<dyn Store>> {
    let sync = opening.guarantee == Guarantee::Media;
    Ok(Box::new(Rocks::open(folder, opening.cache_bytes() as usize, THREADS, sync)?))
}

impl Store for Rocks {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Client(self)))
    }
}

struct Client<'a>(&'a Rocks);

impl Session for Client<'_> {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        self.0.put(key, value)
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.get(key, see)
    }

    fn get_together(&mut self, keys: &[Key], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.get_batch(keys, see)
    }

    fn keys(&mut self, from: &Key, limit: u64, see: &mut dyn FnMut(&[u8])) -> Result<u64> {
        self.0.walk(from, limit, false, &mut |key, _| see(key))
    }

    fn pairs(&mut self, from: &Key, limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        self.0.walk(from, limit, true, see)
    }

    fn put_together(&mut self, pairs: &[(Key, &[u8])]) -> Result<()> {
        self.0.put_batch(pairs.iter().map(|(key, value)| (key.as_slice(), *value)))
    }
}
