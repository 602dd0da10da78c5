//! What the model checker proves of a home that is brought below while others are inside of calls of it.
//!
//! Bytes are relaxed atomics, so only the step on the size can make them visible to who brings them below: where it is too weak, some execution brings stale
//! ones.

#[path = "demotion.rs"]
mod leaving;

use std::io;

use loom::model::Builder;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::log::LowerFile;
use byway_tdm_region::Interleaved;

use crate::resident::atomic::AtomicU64;
use crate::resident::words::{HOME_WORDS, HomeWords};
use crate::resident::{Home, HomeError, HomePlace, Resident, write_back};

const PLACE: HomePlace = HomePlace { at: 0, len_bytes: 128, identity: 3 };

/// What the file has before anybody comes.
const BEFORE: u64 = 1;

/// A file at home.
struct File {
    words: [AtomicU64; HOME_WORDS],
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
        file.home().fill(0, &BEFORE.to_le_bytes()).expect("room");
        file.home().begin(8).expect("room");
        file.home_words().begin(8);
        file
    }

    fn home(&self) -> Home<'_, Interleaved> {
        Home::new(&self.memory, PLACE).expect("a place")
    }

    fn home_words(&self) -> HomeWords<'_> {
        HomeWords::new(&self.words)
    }

    /// A call of it, under its lock; whether it was done, and not left to the kernel.
    fn call(&self, act: impl FnOnce(&Resident<'_, Interleaved>) -> Result<(), HomeError>) -> bool {
        let _held = self.lock.lock().expect("a lock");
        if self.home_words().is_closed() {
            return false;
        }
        let file = Resident::new(self.home(), self.home_words());
        file.enter();
        match act(&file) {
            Ok(()) => true,
            Err(HomeError::Leaving) => false,
            Err(error) => panic!("a call that nothing hinders: {error}"),
        }
    }

    /// Brings it below past who has its lock; what is there then.
    fn go_below(&self) -> Vec<u64> {
        let below = Below(std::sync::Mutex::new(Vec::new()));
        write_back(self.home(), self.home_words().close(), &below).expect("a file below");
        below.0.into_inner().expect("a lock")
    }
}

/// A file below, by words of eight bytes.
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

/// Some calls are made while somebody brings the file below: which of them were done, and what was below before the kernel did the others.
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
        let below = file.go_below();
        check(calling.map(|call| call.join().expect("a call that ends")), below);
    });
}
