//! The position of a file at home is taken while others move it.

use crate::resident::{HOME_WORDS, Home, HomePlace, HomeWords, Resident};
use byway_tdm_region::Interleaved;
use loom::sync::Mutex;

use super::parties;
use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::housed::{HOUSED_WORDS, Housed};

/// What a write writes.
const WORD: u64 = 9;

/// A file at home, of no bytes, whose position is at its beginning.
struct File {
    home: [AtomicU64; HOME_WORDS],
    housed: [AtomicU64; HOUSED_WORDS],
    memory: Interleaved,
    lock: Mutex<()>,
    /// Size and position, as they were taken.
    taken: [AtomicU64; 2],
    /// What its program was told.
    told: Mutex<Vec<Told>>,
}

/// What came of a call at the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It is done.
    Done,
    /// It is to be done by the kernel, at the position.
    Here,
    /// It is to be done by the kernel, at an offset: the position has moved on.
    Claimed(u64),
}

impl File {
    fn begin() -> Self {
        let file = Self {
            home: Default::default(),
            housed: Default::default(),
            memory: Interleaved::new(192),
            lock: Mutex::new(()),
            taken: Default::default(),
            told: Mutex::default(),
        };
        file.home_words().begin(0);
        file
    }

    fn home_words(&self) -> HomeWords<'_> {
        HomeWords::new(&self.home)
    }

    fn housed(&self) -> Housed<'_> {
        Housed(&self.housed)
    }

    fn resident(&self) -> Resident<'_, Interleaved> {
        let place = HomePlace { at: 0, len_bytes: 192, identity: 3 };
        Resident::new(Home::new(&self.memory, place).expect("a place"), self.home_words())
    }

    /// A program writes at the position.
    fn write(&self) {
        let told = self.write_at_home();
        self.told.lock().expect("a lock").push(told);
    }

    fn write_at_home(&self) -> Told {
        let _held = self.lock.lock().expect("a lock");
        if self.home_words().is_closed() {
            return Told::Here;
        }
        self.resident().enter();
        let Some(at) = self.housed().advance(8) else { return Told::Here };
        match self.resident().write(at, 8, &mut &WORD.to_le_bytes()[..]) {
            Ok(()) => Told::Done,
            Err(_) if self.housed().retreat(8) => Told::Here,
            Err(_) => Told::Claimed(at),
        }
    }

    /// A program writes to the end.
    fn append(&self) {
        let told = self.append_at_home();
        self.told.lock().expect("a lock").push(told);
    }

    fn append_at_home(&self) -> Told {
        let _held = self.lock.lock().expect("a lock");
        if self.home_words().is_closed() {
            return Told::Here;
        }
        self.resident().enter();
        let at = self.resident().claim(8).expect("room");
        self.housed().set_position(at + 8);
        match self.resident().write_claimed(at, 8, &mut &WORD.to_le_bytes()[..]) {
            Ok(()) => Told::Done,
            Err(_) => Told::Here,
        }
    }

    /// A program reads at the position.
    fn read(&self) {
        let _held = self.lock.lock().expect("a lock");
        let told = self.housed().advance(8).map_or(Told::Here, |_| Told::Done);
        self.told.lock().expect("a lock").push(told);
    }

    /// Its program moves the position.
    fn seek(&self) {
        let _held = self.lock.lock().expect("a lock");
        let told = match self.housed().seek(|_| Ok::<u64, ()>(64)) {
            Ok(Some(_)) => Told::Done,
            _ => Told::Here,
        };
        self.told.lock().expect("a lock").push(told);
    }

    /// Somebody brings it below.
    fn leave(&self) {
        let size_bytes = self.home_words().close();
        let position = self.housed().take_position();
        self.taken[0].store(size_bytes, Ordering::Relaxed);
        self.taken[1].store(position, Ordering::Relaxed);
    }

    fn taken(&self) -> [u64; 2] {
        [0, 1].map(|i: usize| self.taken[i].load(Ordering::Relaxed))
    }

    fn told(&self) -> Vec<Told> {
        self.told.lock().expect("a lock").clone()
    }

    /// The kernel does what is left to it: its writes each lie where nothing else is, and behind all of them is the position.
    fn check_writes(&self) {
        let [size_bytes, mut position] = self.taken();
        let mut written: Vec<u64> = (0..size_bytes / 8).map(|word| word * 8).collect();
        for told in self.told() {
            match told {
                Told::Done => {}
                Told::Claimed(at) => written.push(at),
                Told::Here => {
                    written.push(position);
                    position += 8;
                }
            }
        }
        written.sort_unstable();
        let expected: Vec<u64> = (0..self.told().len() as u64).map(|word| word * 8).collect();
        assert_eq!((written, position), (expected, self.told().len() as u64 * 8));
    }
}

#[test]
fn a_write_at_the_position_is_made_once_and_where_it_was_to_be() {
    parties(4, File::begin, [File::leave, File::write], File::check_writes);
    parties(3, File::begin, [File::leave, File::write, File::write], File::check_writes);
}

#[test]
fn an_append_that_is_over_has_moved_the_position_that_is_taken() {
    parties(4, File::begin, [File::leave, File::append], |file| match file.told()[..] {
        // The kernel's append moves it from wherever it is.
        [Told::Here] => assert_eq!(file.taken()[0], 0),
        _ => assert_eq!(file.taken(), [8, 8]),
    });
}

#[test]
fn a_read_is_in_the_position_that_is_taken_or_is_told_that_it_is_not() {
    parties(4, File::begin, [File::leave, File::read], |file| {
        let is_done = file.told() == [Told::Done];
        assert_eq!(file.taken()[1], if is_done { 8 } else { 0 });
    });
}

#[test]
fn a_seek_is_in_the_position_that_is_taken_or_is_told_that_it_is_not() {
    parties(4, File::begin, [File::leave, File::seek], |file| {
        let is_done = file.told() == [Told::Done];
        assert_eq!(file.taken()[1], if is_done { 64 } else { 0 });
    });
}
