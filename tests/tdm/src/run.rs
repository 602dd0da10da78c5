//! Random calls of served actors, each beside an unserved one: both get the same answers and the same bytes, while levels change and daemons
//! are replaced. After every acknowledged sync the whole file would survive power loss.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use byway_forgetful::Random;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::Order;

use crate::actor::Actor;
use crate::daemon::DaemonProcess;
use crate::place::{Place, ask_again};
use crate::survivor::assert_survives;

const STEPS: u64 = 250;

/// The shortest logs, which are often full.
const RING_BYTES: u64 = 64 << 10;

const SLOTS: [char; 4] = ['a', 'b', 'c', 'd'];

/// A served program, and an unserved one that makes the same calls.
#[derive(Debug)]
struct Pair {
    served: Actor,
    plain: Actor,
    /// Descriptors by slot.
    numbers: HashMap<char, i64>,
}

/// Pairs of actors, and the events of their files and daemons.
#[derive(Debug)]
pub struct Run {
    random: Random,
    pairs: Vec<Pair>,
    program: &'static str,
    daemon: Option<DaemonProcess>,
    session: Session,
    reported: Vec<String>,
    place: Place,
}

impl Run {
    /// Without programs yet, in a place in `parent`, with the program `daemon` as its daemon.
    #[must_use]
    pub fn new(parent: &str, program: &'static str, seed: u64) -> Self {
        eprintln!("seed {seed}");
        let place = Place::with_rings(parent, RING_BYTES);
        let daemon = Some(place.start_daemon(program));
        let (session, random) = (place.session(), Random::new(seed));
        Self { random, pairs: Vec::new(), program, daemon, session, reported: Vec::new(), place }
    }

    /// Its place.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Adds a served program, which works on the place's files in any way.
    pub fn join(&mut self, served: Actor) {
        self.pairs.push(Pair { served, plain: self.place.plain_actor(), numbers: HashMap::new() });
    }

    /// Runs; returns the place without programs.
    pub fn go(mut self) -> Place {
        for pair in 0..self.pairs.len() {
            for slot in &SLOTS[..3] {
                self.step(pair, &format!("open {slot} f{slot} +c"));
            }
        }
        for _ in 0..STEPS {
            let (pair, line) = (self.pair(), self.line());
            self.step(pair, &line);
            if self.random.one_in(6) {
                self.flip();
            }
            if self.random.one_in(3) {
                let (pair, slot) = (self.pair(), self.slot());
                self.step(pair, &format!("fdatasync {slot}"));
            }
        }
        self.compare();
        self.place
    }

    fn step(&mut self, pair: usize, line: &str) {
        self.reported.push(format!("{pair}: {line}"));
        let of = &mut self.pairs[pair];
        if !line.starts_with("sum_at") {
            of.look();
        }
        let (served, plain) = (of.served.asked(line), of.plain.asked(line));
        assert_eq!(served, plain, "served and not, after {:#?}", self.reported);
        of.note(line, &served);
        let words: Vec<&str> = line.split(' ').collect();
        if served == "0" && ["fsync", "fdatasync"].contains(&words[0]) {
            self.survives(pair, words[1].chars().next().unwrap());
        }
    }

    fn survives(&self, pair: usize, slot: char) {
        let Pair { served, numbers, .. } = &self.pairs[pair];
        let open = PathBuf::from(format!("/proc/{}/fd/{}", served.id(), numbers[&slot]));
        // Unlinked files end with their programs.
        if std::fs::metadata(&open).is_ok_and(|found| found.nlink() > 0) {
            eprintln!("after {:?}", self.reported.last());
            assert_survives(&self.place, &self.session, &open);
        }
    }

    fn pair(&mut self) -> usize {
        self.random.below(self.pairs.len() as u64) as usize
    }

    fn slot(&mut self) -> char {
        SLOTS[self.random.below(4) as usize]
    }

    fn name(&mut self) -> String {
        format!("f{}", SLOTS[self.random.below(3) as usize])
    }

    /// The next call.
    fn line(&mut self) -> String {
        let (slot, other, name) = (self.slot(), self.slot(), self.name());
        let random = &mut self.random;
        let len = if random.one_in(8) { random.below(70_000) } else { random.below(900) };
        let (at, seed) = (random.below(20_000), random.below(1000));
        match random.below(45) {
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
            38 => format!("mapped_private {slot} 1 {seed} 0"),
            39..43 => format!("sum_at {slot} {len} {at}"),
            _ => format!("fsync {slot}"),
        }
    }

    /// Changes a level or a daemon.
    fn flip(&mut self) {
        let name = self.name();
        let is_there = self.place.file(&name).exists();
        match self.random.below(12) {
            0 => drop(self.daemon.take()),
            1 => self.daemon.take().into_iter().for_each(DaemonProcess::end),
            2..5 if self.daemon.is_none() => self.daemon = Some(self.place.start_daemon(self.program)),
            5 if is_there => drop(self.place.order(Order::Evict, &name)),
            6 if is_there => drop(self.place.order(Order::Drain, &name)),
            7 if is_there => drop(self.place.order(Order::Unpin, &name)),
            8 if is_there => drop(self.place.order(Order::Pin, &name)),
            _ => {
                self.session.file_table().entries().for_each(ask_again);
                let pair = self.pair();
                for slot in SLOTS {
                    (0..3).for_each(|_| self.step(pair, &format!("fdatasync {slot}")));
                }
            }
        }
    }

    fn compare(&self) {
        for name in ["fa", "fb", "fc"] {
            let plain: PathBuf = self.place.path().join("plain").join(name);
            let [served, plain] = [self.place.file(name), plain].map(|path| std::fs::read(path).ok());
            assert!(served == plain, "{name} is another file after {:#?}", self.reported);
        }
    }
}

impl Pair {
    /// Queries file sizes: in a mount the kernel copies and appends by the size that it last knew.
    fn look(&self) {
        for number in self.numbers.values() {
            let _ = std::fs::metadata(format!("/proc/{}/fd/{number}", self.served.id()));
        }
    }

    /// Records the descriptor of a slot.
    fn note(&mut self, line: &str, answer: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let slot = match words[0] {
            "open" | "creat" => words[1],
            "dup" => words[2],
            _ => return,
        };
        self.numbers.insert(slot.chars().next().unwrap(), answer.parse().unwrap_or(-1));
    }
}
