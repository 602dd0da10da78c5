//! Power loss at every event in random histories of promotions, writes and demotions: recovery must give what syncs acknowledged, and nothing that
//! was never written.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the log asks more of it")]
#[path = "lower/mod.rs"]
mod lower;

use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use byway_forgetful::{ForgetfulMemory, LeftOut, Power, Random, every_cut};
use byway_tdm_engine::log::LowerFile;
use byway_tdm_engine::resident::{
    POINTS, RESIDENT_WORDS, ResidentFile, ResidentIo, ResidentPlace, ResidentWords, recover, write_back,
};
use lower::{Lower, check};

const PLACE: ResidentPlace = ResidentPlace { at: 128, len_bytes: 2048, identity: 0x1122_3344 };
const ROOM_BYTES: u64 = PLACE.len_bytes - 64;
const MEMORY_WORDS: usize = 512;

/// One thing that a program or the daemon does.
#[derive(Debug, Clone)]
enum Op {
    Write { at: u64, data: Vec<u8> },
    Append { data: Vec<u8> },
    Truncate { size: u64 },
    Sync,
    Promote,
    GoBelow,
}

fn some_op(random: &mut Random, size: u64) -> Op {
    let byte = random.next() as u8 | 1;
    let len = 1 + if random.one_in(8) { random.below(400) } else { random.below(60) };
    let data = vec![byte; len as usize];
    match random.below(16) {
        0 => Op::Truncate { size: random.below(size + 100).min(ROOM_BYTES) },
        1..=4 => Op::Sync,
        5 | 6 => Op::Promote,
        7 => Op::GoBelow,
        8..=10 => Op::Write { at: random.below(size + 100), data },
        _ => Op::Append { data },
    }
}

/// A file, where it lives, and what it has been.
struct Run<'a> {
    memory: &'a ForgetfulMemory,
    lower: &'a Lower,
    words: ResidentWords<'a>,
    /// The current use of the place, which the daemon's table would name.
    place: ResidentPlace,
    is_resident: bool,
    /// The content after every operation, the first being the empty file.
    states: Vec<Vec<u8>>,
    /// The state that the last sync acknowledged.
    acknowledged: usize,
    /// First state whose size the file may have: a truncation is durable at once.
    sized: usize,
}

impl Run<'_> {
    fn file(&self) -> ResidentFile<'_, ForgetfulMemory> {
        ResidentFile::new(self.memory, self.place).unwrap()
    }

    fn resident(&self) -> ResidentIo<'_, ForgetfulMemory> {
        let resident = ResidentIo::new(self.file(), self.words);
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
            Op::Truncate { size } => {
                next.resize(*size as usize, 0);
                self.truncate(*size, next);
            }
            Op::Sync => self.sync(),
            Op::Promote => self.promote_if_requested(),
            Op::GoBelow => self.demote_file(),
        }
    }

    fn write(&mut self, mut next: Vec<u8>, at: u64, data: &[u8]) {
        lower::write(&mut next, at, data);
        if next.len() as u64 > ROOM_BYTES {
            return;
        }
        self.states.push(next);
        match self.is_resident {
            true => self.resident().write(at, data.len() as u64, &mut &data[..]).unwrap(),
            false => self.lower.write_all_at(data, at).unwrap(),
        }
    }

    fn truncate(&mut self, size: u64, next: Vec<u8>) {
        self.states.push(next);
        if !self.is_resident {
            return self.lower.set_size(size).unwrap();
        }
        let is_kept = size < self.file().kept_size().unwrap();
        self.resident().truncate(size).unwrap();
        if is_kept && !self.is_off() {
            self.sized = self.states.len() - 1;
        }
    }

    fn sync(&mut self) {
        match self.is_resident {
            true => self.resident().sync().unwrap(),
            false => self.lower.sync().unwrap(),
        }
        if !self.is_off() {
            self.acknowledged = self.states.len() - 1;
            self.sized = self.acknowledged;
        }
    }

    fn promote_if_requested(&mut self) {
        if self.is_resident {
            return;
        }
        self.place.identity += 1;
        let content = self.lower.now();
        self.file().fill(0, &content).unwrap();
        self.file().begin(content.len() as u64).unwrap();
        self.words.begin(content.len() as u64);
        self.is_resident = true;
    }

    fn demote_file(&mut self) {
        if !self.is_resident {
            return;
        }
        write_back(self.file(), self.words.size_bytes(), self.lower).unwrap();
        self.file().end().unwrap();
        self.is_resident = false;
    }
}

/// Runs a history up to the loss of power; says what came of it, or how it broke the contract.
fn run(seed: u64, event: u64, left_out: Option<LeftOut>) -> Result<bool, String> {
    let mut random = Random::new(seed);
    let power = Rc::new(Power::until(event));
    let memory = ForgetfulMemory::new(vec![0xdead_beef; MEMORY_WORDS], Rc::clone(&power), left_out);
    let lower = Lower::new(Rc::clone(&power));
    let words: [AtomicU64; RESIDENT_WORDS] = Default::default();
    let mut run = Run {
        memory: &memory,
        lower: &lower,
        words: ResidentWords::new(&words),
        place: PLACE,
        is_resident: false,
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
    let file = recovered(run.file(), &memory, &lower, &mut random)?;
    check(&file, &run.states[run.sized..], &run.states[run.acknowledged..])?;
    Ok(power.is_off())
}

/// The file after a loss of power and a recovery that loses power itself, again and again.
fn recovered(
    resident: ResidentFile<'_, ForgetfulMemory>,
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
        recover(ResidentFile::new(&memory, resident.place()).unwrap(), &below)
            .map_err(|error| format!("recovery: {error}"))?;
        words = memory.after_a_cut(random);
        content = if power.is_off() { below.after_a_cut(random) } else { below.now() };
    }
    Ok(content)
}

#[test]
fn acknowledged_bytes_survive_power_loss_at_any_event() {
    let cuts = every_cut(0..600, |seed, event| run(seed, event, None)).unwrap();
    assert!(cuts > 30_000, "{cuts} cuts");
}

#[test]
fn each_omitted_flush_or_fence_loses_bytes() {
    for point in POINTS {
        for left_out in [LeftOut::Flush(point), LeftOut::Fence(point)] {
            let missed = every_cut(0..400, |seed, event| run(seed, event, Some(left_out)));
            assert!(missed.is_err(), "nothing was lost without {left_out:?}");
        }
    }
}

/// Runs `then` on a DAX-resident file of these bytes.
fn with_resident(bytes: &[u8], then: impl FnOnce(&ResidentIo<'_, ForgetfulMemory>)) {
    let memory = ForgetfulMemory::new(vec![u64::MAX; MEMORY_WORDS], Rc::new(Power::stays()), None);
    let words: [AtomicU64; RESIDENT_WORDS] = Default::default();
    let resident = ResidentFile::new(&memory, PLACE).unwrap();
    resident.fill(0, bytes).unwrap();
    resident.begin(bytes.len() as u64).unwrap();
    ResidentWords::new(&words).begin(bytes.len() as u64);
    then(&ResidentIo::new(resident, ResidentWords::new(&words)));
}

fn all_of(file: &ResidentIo<'_, ForgetfulMemory>) -> Vec<u8> {
    let mut all = vec![0; 2048];
    let len = file.read(0, &mut all).unwrap();
    all.truncate(len);
    all
}

#[test]
fn gaps_and_truncated_bytes_read_as_zeroes() {
    with_resident(b"abcdef", |file| {
        file.truncate(2).unwrap();
        file.write(4, 1, &mut &b"x"[..]).unwrap();
        file.truncate(7).unwrap();
        assert_eq!(all_of(file), b"ab\0\0x\0\0");
    });
}

#[test]
fn write_without_room_is_refused_and_changes_nothing() {
    with_resident(b"abc", |file| {
        let long = [1; ROOM_BYTES as usize];
        assert!(file.append(ROOM_BYTES - 2, &mut &long[..]).is_err());
        assert!(file.write(u64::MAX, 2, &mut &long[..]).is_err() && file.truncate(ROOM_BYTES + 1).is_err());
        assert_eq!(all_of(file), b"abc");
        file.append(ROOM_BYTES - 3, &mut &long[..]).unwrap();
    });
}

/// A source that writes from inside a write, as a signal handler does.
struct Interrupted<'a>(&'a ResidentIo<'a, ForgetfulMemory>);

impl byway_tdm_engine::log::Source for Interrupted<'_> {
    fn fill(&mut self, into: &mut [u8]) {
        into.fill(b'o');
        self.0.append(2, &mut &b"in"[..]).unwrap();
    }
}

#[test]
fn nested_write_goes_behind_the_outer_one() {
    with_resident(b"a", |file| {
        file.enter();
        file.append(3, &mut Interrupted(file)).unwrap();
        assert_eq!(all_of(file), b"aoooin");
    });
}

/// A source that syncs before it gives any byte.
struct SyncedIn<'a>(&'a ResidentIo<'a, ForgetfulMemory>);

impl byway_tdm_engine::log::Source for SyncedIn<'_> {
    fn fill(&mut self, into: &mut [u8]) {
        self.0.sync().unwrap();
        into.fill(b'o');
    }
}

#[test]
fn sync_inside_a_write_leaves_its_bytes_to_the_next() {
    with_resident(b"abcd", |file| {
        file.enter();
        file.write(0, 3, &mut SyncedIn(file)).unwrap();
        assert!(!file.words().is_kept());
    });
}

#[test]
fn claimed_end_is_not_given_to_another_write() {
    with_resident(b"a", |file| {
        file.enter();
        let at = file.claim(2).unwrap();
        assert_eq!(file.append(1, &mut &b"h"[..]).unwrap(), at + 2);
        file.write_claimed(at, 2, &mut &b"bc"[..]).unwrap();
        assert_eq!(all_of(file), b"abch");
    });
}

#[test]
fn reservation_of_a_dead_writer_is_dropped() {
    with_resident(b"a", |file| {
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| file.append(3, &mut Dying)));
        assert!(died.is_err());
        file.enter();
        file.append(1, &mut &b"b"[..]).unwrap();
        assert_eq!(all_of(file), b"ab");
    });
}

/// A source that ends in the middle.
struct Dying;

impl byway_tdm_engine::log::Source for Dying {
    fn fill(&mut self, _: &mut [u8]) {
        panic!("killed");
    }
}
