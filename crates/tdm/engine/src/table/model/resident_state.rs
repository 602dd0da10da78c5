//! Taking the position of a DAX-resident file while calls move it.

use crate::resident::{RESIDENT_WORDS, ResidentFile, ResidentIo, ResidentPlace, ResidentWords};
use byway_tdm_region::Interleaved;
use loom::sync::Mutex;

use super::parties;
use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::resident_state::{RESIDENT_STATE_WORDS, ResidentState};

/// What a write stores.
const WORD: u64 = 9;

/// An empty DAX-resident file at position 0.
struct File {
    resident: [AtomicU64; RESIDENT_WORDS],
    resident_state: [AtomicU64; RESIDENT_STATE_WORDS],
    memory: Interleaved,
    lock: Mutex<()>,
    /// Size and position as taken.
    taken: [AtomicU64; 2],
    /// Results of the program's calls.
    reported: Mutex<Vec<Outcome>>,
}

/// Result of a call at the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Done.
    Done,
    /// Left to the kernel, at the position.
    Here,
    /// Left to the kernel at an offset; the position has advanced.
    Claimed(u64),
}

impl File {
    fn begin() -> Self {
        let file = Self {
            resident: Default::default(),
            resident_state: Default::default(),
            memory: Interleaved::new(192),
            lock: Mutex::new(()),
            taken: Default::default(),
            reported: Mutex::default(),
        };
        file.resident_words().begin(0);
        file
    }

    fn resident_words(&self) -> ResidentWords<'_> {
        ResidentWords::new(&self.resident)
    }

    fn resident_state(&self) -> ResidentState<'_> {
        ResidentState(&self.resident_state)
    }

    fn resident(&self) -> ResidentIo<'_, Interleaved> {
        let place = ResidentPlace { at: 0, len_bytes: 192, identity: 3 };
        ResidentIo::new(ResidentFile::new(&self.memory, place).expect("a place"), self.resident_words())
    }

    /// Writes at the position.
    fn write(&self) {
        let reported = self.write_resident();
        self.reported.lock().expect("a lock").push(reported);
    }

    fn write_resident(&self) -> Outcome {
        let _guard = self.lock.lock().expect("a lock");
        if self.resident_words().is_closed() {
            return Outcome::Here;
        }
        self.resident().enter();
        let Some(at) = self.resident_state().advance(8) else { return Outcome::Here };
        match self.resident().write(at, 8, &mut &WORD.to_le_bytes()[..]) {
            Ok(()) => Outcome::Done,
            Err(_) if self.resident_state().retreat(8) => Outcome::Here,
            Err(_) => Outcome::Claimed(at),
        }
    }

    /// Appends.
    fn append(&self) {
        let reported = self.append_resident();
        self.reported.lock().expect("a lock").push(reported);
    }

    fn append_resident(&self) -> Outcome {
        let _guard = self.lock.lock().expect("a lock");
        if self.resident_words().is_closed() {
            return Outcome::Here;
        }
        self.resident().enter();
        let at = self.resident().claim(8).expect("room");
        self.resident_state().set_position(at + 8);
        match self.resident().write_claimed(at, 8, &mut &WORD.to_le_bytes()[..]) {
            Ok(()) => Outcome::Done,
            Err(_) => Outcome::Here,
        }
    }

    /// Reads at the position.
    fn read(&self) {
        let _guard = self.lock.lock().expect("a lock");
        let reported = self.resident_state().advance(8).map_or(Outcome::Here, |_| Outcome::Done);
        self.reported.lock().expect("a lock").push(reported);
    }

    /// Seeks.
    fn seek(&self) {
        let _guard = self.lock.lock().expect("a lock");
        let reported = match self.resident_state().seek(|_| Ok::<u64, ()>(64)) {
            Ok(Some(_)) => Outcome::Done,
            _ => Outcome::Here,
        };
        self.reported.lock().expect("a lock").push(reported);
    }

    /// Demotes the file.
    fn leave(&self) {
        let size_bytes = self.resident_words().close();
        let position = self.resident_state().take_position();
        self.taken[0].store(size_bytes, Ordering::Relaxed);
        self.taken[1].store(position, Ordering::Relaxed);
    }

    fn taken(&self) -> [u64; 2] {
        [0, 1].map(|i: usize| self.taken[i].load(Ordering::Relaxed))
    }

    fn reported(&self) -> Vec<Outcome> {
        self.reported.lock().expect("a lock").clone()
    }

    /// The kernel's repeated writes do not overlap others, and the position is behind all.
    fn check_writes(&self) {
        let [size_bytes, mut position] = self.taken();
        let mut written: Vec<u64> = (0..size_bytes / 8).map(|word| word * 8).collect();
        for reported in self.reported() {
            match reported {
                Outcome::Done => {}
                Outcome::Claimed(at) => written.push(at),
                Outcome::Here => {
                    written.push(position);
                    position += 8;
                }
            }
        }
        written.sort_unstable();
        let expected: Vec<u64> = (0..self.reported().len() as u64).map(|word| word * 8).collect();
        assert_eq!((written, position), (expected, self.reported().len() as u64 * 8));
    }
}

#[test]
fn write_at_the_position_is_made_once_in_place() {
    parties(4, File::begin, [File::leave, File::write], File::check_writes);
    parties(3, File::begin, [File::leave, File::write, File::write], File::check_writes);
}

#[test]
fn ended_append_has_moved_the_taken_position() {
    parties(4, File::begin, [File::leave, File::append], |file| match file.reported()[..] {
        // The kernel's append moves the position from anywhere.
        [Outcome::Here] => assert_eq!(file.taken()[0], 0),
        _ => assert_eq!(file.taken(), [8, 8]),
    });
}

#[test]
fn read_moves_the_taken_position_or_fails() {
    parties(4, File::begin, [File::leave, File::read], |file| {
        let is_done = file.reported() == [Outcome::Done];
        assert_eq!(file.taken()[1], if is_done { 8 } else { 0 });
    });
}

#[test]
fn seek_moves_the_taken_position_or_fails() {
    parties(4, File::begin, [File::leave, File::seek], |file| {
        let is_done = file.reported() == [Outcome::Done];
        assert_eq!(file.taken()[1], if is_done { 64 } else { 0 });
    });
}
