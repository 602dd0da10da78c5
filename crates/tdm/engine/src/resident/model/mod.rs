//! Loom models of a demotion while threads are inside calls.
//!
//! Bytes are relaxed atomics: only the step on the size makes them visible to the demoter. If that is too weak, some execution reads stale ones.

mod demotion;

use std::io;

use loom::model::Builder;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::log::LowerFile;
use byway_tdm_region::Interleaved;

use crate::resident::atomic::AtomicU64;
use crate::resident::words::{RESIDENT_WORDS, ResidentWords};
use crate::resident::{ResidentError, ResidentFile, ResidentIo, ResidentPlace, write_back};

const PLACE: ResidentPlace = ResidentPlace { at: 0, len_bytes: 128, identity: 3 };

/// Content before any call.
const BEFORE: u64 = 1;

/// A DAX-resident file.
struct File {
    words: [AtomicU64; RESIDENT_WORDS],
    memory: Interleaved,
    lock: Mutex<()>,
}

impl File {
    fn begin() -> Self {
        let file = Self {
            words: Default::default(),
            memory: Interleaved::new(PLACE.len_bytes),
            lock: Mutex::new(()),
        };
        file.resident().fill(0, &BEFORE.to_le_bytes()).expect("room");
        file.resident().begin(8).expect("room");
        file.resident_words().begin(8);
        file
    }

    fn resident(&self) -> ResidentFile<'_, Interleaved> {
        ResidentFile::new(&self.memory, PLACE).expect("a place")
    }

    fn resident_words(&self) -> ResidentWords<'_> {
        ResidentWords::new(&self.words)
    }

    /// A call under the file's lock. `false` if it is left to the kernel.
    fn call(&self, act: impl FnOnce(&ResidentIo<'_, Interleaved>) -> Result<(), ResidentError>) -> bool {
        let _guard = self.lock.lock().expect("a lock");
        if self.resident_words().is_closed() {
            return false;
        }
        let file = ResidentIo::new(self.resident(), self.resident_words());
        file.enter();
        match act(&file) {
            Ok(()) => true,
            Err(ResidentError::Demoting) => false,
            Err(error) => panic!("a call that nothing hinders: {error}"),
        }
    }

    /// Demotes the file past the lock's holder; returns the bytes written back.
    fn demote_file(&self) -> Vec<u64> {
        let below = Below(std::sync::Mutex::new(Vec::new()));
        write_back(self.resident(), self.resident_words().close(), &below).expect("a file below");
        below.0.into_inner().expect("a lock")
    }
}

/// A file below, in words of eight bytes.
struct Below(std::sync::Mutex<Vec<u64>>);

impl LowerFile for Below {
    fn write_all_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        let mut words = self.0.lock().expect("a lock");
        words.truncate(at as usize / 8);
        words.extend(data.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
        Ok(())
    }

    fn set_size(&self, size_bytes: u64) -> io::Result<()> {
        self.0.lock().expect("a lock").truncate(size_bytes as usize / 8);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs calls during a demotion; returns which were done, and the file below before the kernel repeated the others.
fn while_it_leaves<const CALLS: usize>(
    calls: [fn(&File) -> bool; CALLS],
    check: fn([bool; CALLS], Vec<u64>),
) {
    let mut model = Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let file = Arc::new(File::begin());
        let calling = calls.map(|call| {
            let file = file.clone();
            thread::spawn(move || call(&file))
        });
        let below = file.demote_file();
        check(calling.map(|call| call.join().expect("a call that ends")), below);
    });
}
