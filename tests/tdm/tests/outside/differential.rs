//! Random calls of two actors, one under the library: both are answered alike, and have the same bytes in the end, while files go up and
//! down and daemons come and go. After every sync that is acknowledged, all of the file would survive.

use std::collections::HashMap;
use std::path::PathBuf;

use byway_forgetful::Random;
use byway_tdm_client::Session;
use byway_tdm_control::Order;
use byway_tdm_tests::{Actor, Keeper, Place, ask_again, assert_survives};

use crate::{KEEPER, rounds};

const STEPS: u64 = 250;

/// The shortest logs that there are, which are full all the time.
const RING_BYTES: u64 = 64 << 10;

/// Two actors and what is done to the one's files.
struct Run {
    random: Random,
    served: Actor,
    plain: Actor,
    keeper: Option<Keeper>,
    session: Session,
    /// Descriptors by their slot.
    numbers: HashMap<char, i64>,
    told: Vec<String>,
    place: Place,
}

impl Run {
    fn new(seed: u64) -> Self {
        let place = Place::with_rings(env!("CARGO_TARGET_TMPDIR"), RING_BYTES);
        let keeper = Some(place.keeper(KEEPER));
        let session = place.session();
        let (served, plain) = (place.actor(), place.plain_actor());
        let random = Random::new(seed);
        Self { random, served, plain, keeper, session, numbers: HashMap::new(), told: Vec::new(), place }
    }

    fn go(mut self) {
        for slot in ['a', 'b', 'c'] {
            self.step(&format!("open {slot} f{slot} +c"));
        }
        for _ in 0..STEPS {
            let line = self.line();
            self.step(&line);
            if self.random.one_in(6) {
                self.flip();
            }
            if self.random.one_in(3) {
                let slot = self.slot();
                self.step(&format!("fdatasync {slot}"));
            }
        }
        self.compare();
    }

    fn step(&mut self, line: &str) {
        self.told.push(line.to_owned());
        let (served, plain) = (self.served.asked(line), self.plain.asked(line));
        assert_eq!(served, plain, "under the library and without, after {:#?}", self.told);
        self.note(line, &served);
        let words: Vec<&str> = line.split(' ').collect();
        if served == "0" && ["fsync", "fdatasync"].contains(&words[0]) {
            self.survives(words[1].chars().next().unwrap());
        }
    }

    /// Which number a slot has now.
    fn note(&mut self, line: &str, answer: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let slot = match words[0] {
            "open" | "creat" => words[1],
            "dup" => words[2],
            _ => return,
        };
        self.numbers.insert(slot.chars().next().unwrap(), answer.parse().unwrap_or(-1));
    }

    fn survives(&self, slot: char) {
        let number = self.numbers[&slot];
        let Ok(path) = std::fs::read_link(format!("/proc/{}/fd/{number}", self.served.id())) else { return };
        if path.exists() {
            eprintln!("after {:?}", self.told.last());
            assert_survives(&self.place, &self.session, &path);
        }
    }

    fn slot(&mut self) -> char {
        ['a', 'b', 'c', 'd'][self.random.below(4) as usize]
    }

    fn name(&mut self) -> String {
        format!("f{}", ['a', 'b', 'c'][self.random.below(3) as usize])
    }

    /// The next call.
    fn line(&mut self) -> String {
        let (slot, other, name) = (self.slot(), self.slot(), self.name());
        let random = &mut self.random;
        let len = if random.one_in(8) { random.below(70_000) } else { random.below(900) };
        let (at, seed) = (random.below(20_000), random.below(1000));
        match random.below(40) {
            0..6 => format!("write {slot} {len} {seed}"),
            6..10 => format!("pwrite {slot} {len} {seed} {at}"),
            10..12 => format!("writev {slot} {len} {seed}"),
            12 => format!("pwritev {slot} {len} {seed} {at}"),
            13 => format!("pwritev2 {slot} {len} {seed} {at} {}", [0, 2, 16][seed as usize % 3]),
            14..17 => {
                let flags = ["+c", "+ca", "wc", "+ct", "wca", "r", "rt", "+cx"][random.below(8) as usize];
                format!("open {slot} {name} {flags}")
            }
            17 => format!("close {slot}"),
            18..20 => format!("lseek {slot} {at} {}", seed % 3),
            20..22 => format!("ftruncate {slot} {at}"),
            22 => format!("truncate {name} {at}"),
            23 => format!("fallocate {slot} {} {at} {}", [0, 1, 3, 16][seed as usize % 4], len + 1),
            24 => format!("posix_fallocate {slot} 0 {at} {}", len + 1),
            25 => format!("rename {name} {}", self.name()),
            26 => format!("dup {slot} {other}"),
            27 => format!("dup2 {slot} {other}"),
            28 => format!("child write {slot} {len} {seed}"),
            29 => format!("child pwrite {slot} {len} {seed} {at}"),
            30 => format!("child fsync {slot}"),
            31 => format!("thread write {slot} {len} {seed}"),
            32 => format!("sendfile {slot} {other} {len} {at}"),
            33 => format!("copy_file_range {slot} {other} {len} {at}"),
            34 => format!("splice {slot} {len} {seed}"),
            35 => format!("sys_pwrite {slot} {len} {seed} {at}"),
            36 if seed.is_multiple_of(8) => format!("mapped {slot} 1 {seed} 0"),
            36 if seed % 8 == 1 => format!("dprintf {slot} 40 {seed}"),
            37 => format!("child ftruncate {slot} {at}"),
            38 if seed.is_multiple_of(2) => format!("unlink {name}"),
            _ => format!("fsync {slot}"),
        }
    }

    /// Something happens to the files' levels, or to who serves them.
    fn flip(&mut self) {
        let name = self.name();
        let is_there = self.place.file(&name).exists();
        match self.random.below(12) {
            0 => drop(self.keeper.take()),
            1 => self.keeper.take().into_iter().for_each(Keeper::end),
            2..5 if self.keeper.is_none() => self.keeper = Some(self.place.keeper(KEEPER)),
            5 if is_there => drop(self.place.order(Order::Evict, &name)),
            6 if is_there => drop(self.place.order(Order::Drain, &name)),
            7 if is_there => drop(self.place.order(Order::Unpin, &name)),
            _ => {
                self.session.board().entries().for_each(ask_again);
                for slot in ['a', 'b', 'c', 'd'] {
                    (0..3).for_each(|_| self.step(&format!("fdatasync {slot}")));
                }
            }
        }
    }

    fn compare(&self) {
        for name in ["fa", "fb", "fc"] {
            let plain: PathBuf = self.place.path().join("plain").join(name);
            let [served, plain] = [self.place.file(name), plain].map(|path| std::fs::read(path).ok());
            assert!(served == plain, "{name} is another file after {:#?}", self.told);
        }
    }
}

#[test]
fn random_calls_are_answered_as_without_the_library_and_no_acknowledged_byte_is_lost() {
    for seed in 0..rounds(8) {
        eprintln!("seed {seed}");
        Run::new(seed).go();
    }
}
