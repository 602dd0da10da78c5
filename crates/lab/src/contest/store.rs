//! A store that one engine keeps in a folder, and sessions on it.

use anyhow::Result;

use super::key::Key;

/// Least bytes of a cache.
const CACHE_LEAST_BYTES: u64 = 256 << 20;
/// Most bytes of a cache: more would take the memory of a small machine.
const CACHE_MOST_BYTES: u64 = 2 << 30;
/// Bytes of a pair in a cache beside its value: key, headers, room that shards leave unused.
const CACHED_PAIR_BYTES: u64 = 256;

/// What a put that returned has survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// The death of the process, not that of the kernel.
    Process,
    /// The loss of power: it was synced to the medium.
    Media,
}

impl Guarantee {
    /// As rows name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Media => "media",
        }
    }
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// What its puts must survive.
    pub guarantee: Guarantee,
    /// Keys that it will hold at most.
    pub keys: u64,
    /// Bytes of the longest value.
    pub value_bytes: u32,
    /// Bytes of the values that most keys have.
    pub record_bytes: u32,
    /// More options of Byway's URI.
    pub options: String,
}

impl Opening {
    /// Bytes of the cache of an engine that has one of its own: it holds every pair, as the page cache does for engines
    /// that map their file. From 256 MiB to 2 GiB.
    pub fn cache_bytes(&self) -> u64 {
        let pairs_bytes = self.keys * (u64::from(self.record_bytes) + CACHED_PAIR_BYTES);
        pairs_bytes.clamp(CACHE_LEAST_BYTES, CACHE_MOST_BYTES)
    }
}

/// A store of an engine, open. It is closed when it is dropped; what it acknowledged is there at the next opening.
pub trait Store: Sync {
    /// One client of it, for the thread that asks.
    ///
    /// # Errors
    /// What the engine says.
    fn session(&self) -> Result<Box<dyn Session + '_>>;
}

/// One client of a store. Values and keys that are read are shown to `see`, so that an engine that hands out references
/// need not copy.
pub trait Session {
    /// Stores a value.
    ///
    /// # Errors
    /// What the engine says.
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()>;

    /// Shows the value of a key; says whether there is one.
    ///
    /// # Errors
    /// What the engine says.
    fn get(&mut self, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Shows the values of some keys, in their order; says whether all are there.
    ///
    /// # Errors
    /// What the engine says.
    fn get_together(&mut self, keys: &[Key], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        keys.iter().try_fold(true, |all, key| Ok(self.get(key, see)? && all))
    }

    /// Shows at most `limit` keys in order, from `from` on; says how many there were.
    ///
    /// # Errors
    /// What the engine says.
    fn keys(&mut self, from: &Key, limit: u64, see: &mut dyn FnMut(&[u8])) -> Result<u64>;

    /// The same with values.
    ///
    /// # Errors
    /// What the engine says.
    fn pairs(&mut self, from: &Key, limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64>;

    /// Stores values all or none, through a crash.
    ///
    /// # Errors
    /// What the engine says.
    fn put_batch(&mut self, pairs: &[(Key, &[u8])]) -> Result<()> {
        self.put_together(pairs)
    }

    /// Stores values that are acknowledged together, with as few syncs as the engine can.
    ///
    /// # Errors
    /// What the engine says.
    fn put_together(&mut self, pairs: &[(Key, &[u8])]) -> Result<()>;

    /// Ends what is gathered: an open transaction, a cursor.
    ///
    /// # Errors
    /// What the engine says.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}
