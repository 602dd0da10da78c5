//! The engines that are compared, in their configurations.

use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::store::{Opening, Store};

/// An engine, in one of its configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Engine {
    /// The embedded device, over its whole NVMe path.
    Byway,
    /// fjall, an LSM tree.
    Fjall,
    /// fjall with values kept beside the tree.
    #[value(skip)]
    FjallBlob,
    /// LMDB, a memory-mapped B+tree; one transaction for each put.
    Lmdb,
    /// LMDB with a thousand puts in each transaction.
    #[value(skip)]
    LmdbBatch,
    /// RocksDB, an LSM tree, where its library is installed (Debian: librocksdb-dev).
    Rocksdb,
}

impl Engine {
    /// As rows name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Byway => "byway",
            Self::Fjall => "fjall",
            Self::FjallBlob => "fjall-blob",
            Self::Lmdb => "lmdb",
            Self::LmdbBatch => "lmdb-1000",
            Self::Rocksdb => "rocksdb",
        }
    }

    /// Checks that it can be used here.
    ///
    /// # Errors
    /// What is missing, and which package has it.
    pub fn check(self) -> Result<()> {
        if self == Self::Rocksdb { super::rocksdb::check() } else { Ok(()) }
    }

    /// The configurations that stand for this engine where values are so long.
    pub fn configurations(self, value_bytes: u32) -> Vec<Self> {
        match self {
            Self::Fjall if value_bytes >= super::fjall::SEPARATED_BYTES => vec![Self::Fjall, Self::FjallBlob],
            Self::Lmdb => vec![Self::Lmdb, Self::LmdbBatch],
            other => vec![other],
        }
    }

    /// How many puts are acknowledged at once.
    pub fn puts_acknowledged_together(self) -> u64 {
        if self == Self::LmdbBatch { super::lmdb::BATCH_PUTS } else { 1 }
    }

    /// Opens the store in `folder`, making it if it is not there.
    ///
    /// # Errors
    /// What the engine says.
    pub fn open(self, folder: &Path, opening: &Opening) -> Result<Box<dyn Store>> {
        let opened: Result<Box<dyn Store>> = match self {
            Self::Byway => super::byway::open(folder, opening),
            Self::Fjall => super::fjall::open(folder, opening, false),
            Self::FjallBlob => super::fjall::open(folder, opening, true),
            Self::Lmdb => super::lmdb::open(folder, opening, 1),
            Self::LmdbBatch => super::lmdb::open(folder, opening, super::lmdb::BATCH_PUTS),
            Self::Rocksdb => super::rocksdb::open(folder, opening),
        };
        opened.with_context(|| format!("open {} in {}", self.name(), folder.display()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::contest::key::Key;
    use crate::contest::store::{Guarantee, Session};

    const KEYS: u8 = 100;

    fn opening(guarantee: Guarantee) -> Opening {
        let options = String::new();
        Opening { guarantee, keys: KEYS.into(), value_bytes: 1024, record_bytes: 64, options }
    }

    fn key(number: u8) -> Key {
        let mut key = Key::default();
        key[0] = number;
        key
    }

    fn value(number: u8) -> Vec<u8> {
        vec![number; 1 + usize::from(number)]
    }

    /// Stores every key, by single puts, batches and atomic batches by turns.
    fn fill(session: &mut dyn Session) {
        let numbers: Vec<u8> = (0..KEYS).rev().collect();
        for (turn, numbers) in numbers.chunks(10).enumerate() {
            let values: Vec<Vec<u8>> = numbers.iter().copied().map(value).collect();
            let pairs: Vec<(Key, &[u8])> =
                numbers.iter().copied().map(key).zip(values.iter().map(Vec::as_slice)).collect();
            match turn % 3 {
                0 => pairs.iter().for_each(|(key, value)| session.put(key, value).unwrap()),
                1 => session.put_together(&pairs).unwrap(),
                _ => session.put_batch(&pairs).unwrap(),
            }
        }
        session.settle().unwrap();
    }

    fn read(session: &mut dyn Session, number: u8) -> Option<Vec<u8>> {
        let mut seen = None;
        let found = session.get(&key(number), &mut |value| seen = Some(value.to_vec())).unwrap();
        assert_eq!(found, seen.is_some());
        seen
    }

    fn read_together(session: &mut dyn Session, numbers: &[u8]) -> (bool, Vec<Vec<u8>>) {
        let keys: Vec<Key> = numbers.iter().copied().map(key).collect();
        let mut seen = Vec::new();
        let all = session.get_together(&keys, &mut |value| seen.push(value.to_vec())).unwrap();
        (all, seen)
    }

    fn check_every_read(session: &mut dyn Session) {
        (0..KEYS).for_each(|number| assert_eq!(read(session, number), Some(value(number))));
        assert_eq!(read(session, KEYS), None);
        let numbers: Vec<u8> = (0..70).map(|number: u16| (number * 7 % u16::from(KEYS)) as u8).collect();
        let values: Vec<Vec<u8>> = numbers.iter().copied().map(value).collect();
        assert_eq!(read_together(session, &numbers), (true, values));
        assert_eq!(read_together(session, &[3, KEYS, 1]), (false, vec![value(3), value(1)]));
        assert_eq!(read_together(session, &[]), (true, Vec::new()));

        let (mut pairs, mut keys) = (Vec::new(), Vec::new());
        let seen = session.pairs(&key(90), 1000, &mut |key, value| pairs.push((key[0], value.to_vec())));
        assert_eq!(seen.unwrap(), 10);
        assert_eq!(pairs, (90..KEYS).map(|number| (number, value(number))).collect::<Vec<_>>());
        assert_eq!(session.keys(&key(5), 20, &mut |key| keys.push(key[0])).unwrap(), 20);
        assert_eq!(keys, (5..25).collect::<Vec<_>>());
        session.settle().unwrap();
    }

    fn check_store(engine: Engine) {
        let dir = tempfile::tempdir().unwrap();
        for guarantee in [Guarantee::Process, Guarantee::Media] {
            let store = engine.open(dir.path(), &opening(guarantee)).unwrap();
            let mut session = store.session().unwrap();
            if guarantee == Guarantee::Media {
                check_every_read(&mut *session);
            }
            fill(&mut *session);
            check_every_read(&mut *session);
        }
        let store = engine.open(dir.path(), &opening(Guarantee::Process)).unwrap();
        check_every_read(&mut *store.session().unwrap());
    }

    #[test]
    fn every_linked_store_reads_back_what_was_put_before_and_after_a_reopening() {
        let linked = [Engine::Byway, Engine::Fjall, Engine::FjallBlob, Engine::Lmdb, Engine::LmdbBatch];
        linked.into_iter().for_each(check_store);
    }

    #[test]
    fn rocksdb_reads_back_what_was_put_before_and_after_a_reopening() {
        match Engine::Rocksdb.check() {
            Ok(()) => check_store(Engine::Rocksdb),
            Err(error) => byway_conformance::skips::skip(
                "rocksdb_reads_back_what_was_put_before_and_after_a_reopening",
                &format!("{error:#}"),
            ),
        }
    }

    #[test]
    fn a_folder_that_rocksdb_cannot_use_is_refused_in_its_words() {
        let file = tempfile::NamedTempFile::new().unwrap();
        if Engine::Rocksdb.check().is_ok() {
            let refused = Engine::Rocksdb.open(file.path(), &opening(Guarantee::Process)).err().unwrap();
            assert!(format!("{refused:#}").contains("IO error"), "{refused:#}");
        }
    }
}
