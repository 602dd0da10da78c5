//! fjall: an LSM tree with a journal.
//!
//! No compression, a cache that holds all pairs, filters and levels as the library has them by default. Without a sync, a
//! put is in the journal's file when it returns: it survives the process. With one, `persist(SyncData)` follows each put.

use std::path::Path;

use anyhow::Result;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};

use super::key::Key;
use super::store::{Guarantee, Opening, Session, Store};

/// Values from this length on are kept beside the tree, where that is asked for: the library's own threshold.
pub const SEPARATED_BYTES: u32 = 1024;

struct Tree {
    database: Database,
    keyspace: Keyspace,
    media: bool,
}

/// Opens, or makes, the database of a folder.
pub fn open(folder: &Path, opening: &Opening, separated: bool) -> Result<Box<dyn Store>> {
    let database = Database::builder(folder)
        .cache_size(opening.cache_bytes())
        .journal_compression(CompressionType::None)
        .open()?;
    let separation = KvSeparationOptions::default()
        .separation_threshold(SEPARATED_BYTES)
        .compression(CompressionType::None);
    let options = || KeyspaceCreateOptions::default().with_kv_separation(separated.then_some(separation));
    let keyspace = database.keyspace("bench", options)?;
    Ok(Box::new(Tree { database, keyspace, media: opening.guarantee == Guarantee::Media }))
}

impl Store for Tree {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Client(self)))
    }
}

struct Client<'a>(&'a Tree);

impl Session for Client<'_> {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        self.0.keyspace.insert(key.as_slice(), value)?;
        if self.0.media {
            self.0.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.0.keyspace.get(key)?;
        Ok(value.is_some_and(|value| {
            see(&value);
            true
        }))
    }

    fn keys(&mut self, from: &Key, limit: u64, see: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let mut seen = 0;
        for guard in self.0.keyspace.range(from.as_slice()..).take(limit as usize) {
            see(&guard.key()?);
            seen += 1;
        }
        Ok(seen)
    }

    fn pairs(&mut self, from: &Key, limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut seen = 0;
        for guard in self.0.keyspace.range(from.as_slice()..).take(limit as usize) {
            let (key, value) = guard.into_inner()?;
            see(&key, &value);
            seen += 1;
        }
        Ok(seen)
    }

    fn put_together(&mut self, pairs: &[(Key, &[u8])]) -> Result<()> {
        let mode = if self.0.media { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.0.database.batch().durability(Some(mode));
        for (key, value) in pairs {
            batch.insert(&self.0.keyspace, key.as_slice(), *value);
        }
        Ok(batch.commit()?)
    }
}
