//! Power that goes at every moment of many histories of a file that comes home and goes below again: what a sync acknowledged is in the file
//! after recovery, and nothing is there that was never written.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the log asks more of it")]
#[path = "lower/mod.rs"]
mod lower;

use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use byway_forgetful::{ForgetfulMemory, LeftOut, Power, Random, every_cut};
use byway_tdm_engine::log::LowerFile;
use byway_tdm_engine::resident::{
    HOME_WORDS, Home, HomePlace, HomeWords, POINTS, Resident, recover, write_back,
};
use lower::Lower;

const PLACE: HomePlace = HomePlace { at: 128, len_bytes: 2048, identity: 0x1122_3344 };
const ROOM_BYTES: u64 = PLACE.len_bytes - 64;
const MEMORY_WORDS: usize = 512;

/// One thing that a program or the daemon does.
#[derive(Debug, Clone)]
enum Op {
    Write { at: u64, data: Vec<u8> },
    Append { data: Vec<u8> },
    Cut { size: u64 },
    Sync,
    ComeHome,
    GoBelow,
}

fn some_op(random: &mut Random, size: u64) -> Op {
    let byte = random.next() as u8 | 1;
    let len = 1 + if random.one_in(8) { random.below(400) } else { random.below(60) };
    let data = vec![byte; len as usize];
    match random.below(16) {
        0 => Op::Cut { size: random.below(size + 100).min(ROOM_BYTES) },
        1..=4 => Op::Sync,
        5 | 6 => Op::ComeHome,
        7 => Op::GoBelow,
        8..=10 => Op::Write { at: random.below(size + 100), data },
        _ => Op::Append { data },
    }
}

/// A file, where it lives, and what it has been.
struct Run<'a> {
    memory: &'a ForgetfulMemory,
    lower: &'a Lower,
    words: HomeWords<'a>,
    /// Which use of the place it is: what a table says, which is another's business.
    place: HomePlace,
    is_home: bool,
    /// The content after every operation, the first being the empty file.
    states: Vec<Vec<u8>>,
    /// The state that the last sync acknowledged.
    acknowledged: usize,
    /// The state from which on its size is one of its own, as a cut is kept at once.
    sized: usize,
}

impl Run<'_> {
    fn home(&self) -> Home<'_, ForgetfulMemory> {
        Home::new(self.memory, self.place).unwrap()
    }

    fn resident(&self) -> Resident<'_, ForgetfulMemory> {
        let resident = Resident::new(self.home(), self.words);
        resident.enter();
        resident
    }

    fn is_off(&self) -> bool {
        self.lower.power.is_off()
    }

    fn step(&mut self, op: &Op) {
        let mut next = self.states[self.states.len() - 1].clone();
        match op {
            Op::Write { at, data } => self.write(next, *at, data),
            Op::Append { data } => {
                let at = next.len() as u64;
                self.write(next, at, data);
            }
            Op::Cut { size } => {
                next.resize(*size as usize, 0);
                self.cut(*size, next);
            }
            Op::Sync => self.sync(),
            Op::ComeHome => self.come_home(),
            Op::GoBelow => self.go_below(),
        }
    }

    fn write(&mut self, mut next: Vec<u8>, at: u64, data: &[u8]) {
        lower::write(&mut next, at, data);
        if next.len() as u64 > ROOM_BYTES {
            return;
        }
        self.states.push(next);
        match self.is_home {
            true => self.resident().write(at, data.len() as u64, &mut &data[..]).unwrap(),
            false => self.lower.write_all_at(data, at).unwrap(),
        }
    }

    fn cut(&mut self, size: u64, next: Vec<u8>) {
        self.states.push(next);
        if !self.is_home {
            return self.lower.set_size(size).unwrap();
        }
        let is_kept = size < self.home().kept_size().unwrap();
        self.resident().cut(size).unwrap();
        if is_kept && !self.is_off() {
            self.sized = self.states.len() - 1;
        }
    }

    fn sync(&mut self) {
        match self.is_home {
            true => self.resident().sync().unwrap(),
            false => self.lower.sync().unwrap(),
        }
        if !self.is_off() {
            self.acknowledged = self.states.len() - 1;
            self.sized = self.acknowledged;
        }
    }

    fn come_home(&mut self) {
        if self.is_home {
            return;
        }
        self.place.identity += 1;
        let content = self.lower.now();
        self.home().fill(0, &content).unwrap();
        self.home().begin(content.len() as u64).unwrap();
        self.words.begin(content.len() as u64);
        self.is_home = true;
    }

    fn go_below(&mut self) {
        if !self.is_home {
            return;
        }
        write_back(self.home(), self.words.size_bytes(), self.lower).unwrap();
        self.home().end().unwrap();
        self.is_home = false;
    }
}

/// Runs a history up to the loss of power; says what came of it, or how it broke the contract.
fn run(seed: u64, event: u64, left_out: Option<LeftOut>) -> Result<bool, String> {
    let mut random = Random::new(seed);
    let power = Rc::new(Power::until(event));
    let memory = ForgetfulMemory::new(vec![0xdead_beef; MEMORY_WORDS], Rc::clone(&power), left_out);
    let lower = Lower::new(Rc::clone(&power));
    let words: [AtomicU64; HOME_WORDS] = Default::default();
    let mut run = Run {
        memory: &memory,
        lower: &lower,
        words: HomeWords::new(&words),
        place: PLACE,
        is_home: false,
        states: vec![Vec::new()],
        acknowledged: 0,
        sized: 0,
    };
    for _ in 0..50 {
        let size = run.states[run.states.len() - 1].len() as u64;
        run.step(&some_op(&mut random, size.min(1000)));
        if power.is_off() {
            break;
        }
    }
    let file = recovered(run.home(), &memory, &lower, &mut random)?;
    check(&file, &run.states, (run.acknowledged, run.sized))?;
    Ok(power.is_off())
}

/// The file after a loss of power and a recovery that loses power itself, again and again.
fn recovered(
    home: Home<'_, ForgetfulMemory>,
    memory: &ForgetfulMemory,
    lower: &Lower,
    random: &mut Random,
) -> Result<Vec<u8>, String> {
    let mut words = memory.after_a_cut(random);
    let mut content = lower.after_a_cut(random);
    for event in [random.below(4), random.below(8), u64::MAX] {
        let power = Rc::new(Power::until(event));
        let memory = ForgetfulMemory::new(words, Rc::clone(&power), None);
        let below = Lower::with(content, Rc::clone(&power));
        recover(Home::new(&memory, home.place()).unwrap(), &below)
            .map_err(|error| format!("recovery: {error}"))?;
        words = memory.after_a_cut(random);
        content = if power.is_off() { below.after_a_cut(random) } else { below.now() };
    }
    Ok(content)
}

/// Every byte is one that stood there in the acknowledged state or a later one, and the size was one of theirs.
fn check(file: &[u8], states: &[Vec<u8>], (acknowledged, sized): (usize, usize)) -> Result<(), String> {
    if !states[sized..].iter().any(|state| state.len() == file.len()) {
        let sizes: Vec<usize> = states[sized..].iter().map(Vec::len).collect();
        return Err(format!("{} bytes, which were never its size since it was kept: {sizes:?}", file.len()));
    }
    let states = &states[acknowledged..];
    for (at, byte) in file.iter().enumerate() {
        if !states.iter().any(|state| state.get(at) == Some(byte)) {
            let stood: Vec<Option<&u8>> = states.iter().map(|state| state.get(at)).collect();
            return Err(format!("byte {at} is {byte}, and was {stood:?} since the sync"));
        }
    }
    Ok(())
}

#[test]
fn what_was_acknowledged_is_there_after_power_goes_at_any_moment() {
    let cuts = every_cut(0..600, |seed, event| run(seed, event, None)).unwrap();
    assert!(cuts > 30_000, "{cuts} cuts");
}

#[test]
fn each_flush_and_each_fence_is_missed_when_it_is_left_out() {
    for point in POINTS {
        for left_out in [LeftOut::Flush(point), LeftOut::Fence(point)] {
            let missed = every_cut(0..400, |seed, event| run(seed, event, Some(left_out)));
            assert!(missed.is_err(), "nothing was lost without {left_out:?}");
        }
    }
}

/// A file at home with these bytes, and what is done with it.
fn at_home(bytes: &[u8], then: impl FnOnce(&Resident<'_, ForgetfulMemory>)) {
    let memory = ForgetfulMemory::new(vec![u64::MAX; MEMORY_WORDS], Rc::new(Power::stays()), None);
    let words: [AtomicU64; HOME_WORDS] = Default::default();
    let home = Home::new(&memory, PLACE).unwrap();
    home.fill(0, bytes).unwrap();
    home.begin(bytes.len() as u64).unwrap();
    HomeWords::new(&words).begin(bytes.len() as u64);
    then(&Resident::new(home, HomeWords::new(&words)));
}

fn all_of(file: &Resident<'_, ForgetfulMemory>) -> Vec<u8> {
    let mut all = vec![0; 2048];
    let len = file.read(0, &mut all).unwrap();
    all.truncate(len);
    all
}

#[test]
fn a_gap_and_what_was_cut_away_read_as_zeroes() {
    at_home(b"abcdef", |file| {
        file.cut(2).unwrap();
        file.write(4, 1, &mut &b"x"[..]).unwrap();
        file.cut(7).unwrap();
        assert_eq!(all_of(file), b"ab\0\0x\0\0");
    });
}

#[test]
fn what_has_no_room_is_refused_and_changes_nothing() {
    at_home(b"abc", |file| {
        let long = [1; ROOM_BYTES as usize];
        assert!(file.append(ROOM_BYTES - 2, &mut &long[..]).is_err());
        assert!(file.write(u64::MAX, 2, &mut &long[..]).is_err() && file.cut(ROOM_BYTES + 1).is_err());
        assert_eq!(all_of(file), b"abc");
        file.append(ROOM_BYTES - 3, &mut &long[..]).unwrap();
    });
}

/// Writes from inside of a write, as a signal handler does.
struct Interrupted<'a>(&'a Resident<'a, ForgetfulMemory>);

impl byway_tdm_engine::log::Source for Interrupted<'_> {
    fn fill(&mut self, into: &mut [u8]) {
        into.fill(b'o');
        self.0.append(2, &mut &b"in"[..]).unwrap();
    }
}

#[test]
fn a_write_inside_of_a_write_lies_behind_it_and_both_are_there() {
    at_home(b"a", |file| {
        file.enter();
        file.append(3, &mut Interrupted(file)).unwrap();
        assert_eq!(all_of(file), b"aoooin");
    });
}

/// Syncs from inside of a write that it has put no byte of.
struct SyncedIn<'a>(&'a Resident<'a, ForgetfulMemory>);

impl byway_tdm_engine::log::Source for SyncedIn<'_> {
    fn fill(&mut self, into: &mut [u8]) {
        self.0.sync().unwrap();
        into.fill(b'o');
    }
}

#[test]
fn a_sync_inside_of_a_write_leaves_what_is_written_to_the_next_sync() {
    at_home(b"abcd", |file| {
        file.enter();
        file.write(0, 3, &mut SyncedIn(file)).unwrap();
        assert!(!file.words().is_kept());
    });
}

#[test]
fn a_place_at_the_end_is_nobody_else_s_once_it_is_claimed() {
    at_home(b"a", |file| {
        file.enter();
        let at = file.claim(2).unwrap();
        assert_eq!(file.append(1, &mut &b"h"[..]).unwrap(), at + 2);
        file.write_claimed(at, 2, &mut &b"bc"[..]).unwrap();
        assert_eq!(all_of(file), b"abch");
    });
}

#[test]
fn what_a_dead_writer_reserved_is_no_part_of_the_file() {
    at_home(b"a", |file| {
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| file.append(3, &mut Dying)));
        assert!(died.is_err());
        file.enter();
        file.append(1, &mut &b"b"[..]).unwrap();
        assert_eq!(all_of(file), b"ab");
    });
}

/// Ends in the middle of a write.
struct Dying;

impl byway_tdm_engine::log::Source for Dying {
    fn fill(&mut self, _: &mut [u8]) {
        panic!("killed");
    }
}
