//! Demotes a file step by step at each access of a writing thread, with power loss at every event, in random histories.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the log asks more of it")]
#[path = "lower/mod.rs"]
mod lower;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use byway_forgetful::{ForgetfulMemory, Power, Random, every_cut};
use byway_tdm_engine::log::{LowerFile, Source};
use byway_tdm_engine::resident::{
    RESIDENT_WORDS, ResidentError, ResidentFile, ResidentIo, ResidentPlace, ResidentWords, recover,
};
use byway_tdm_region::{Memory, MemoryError, Point};
use lower::Lower;

const PLACE: ResidentPlace = ResidentPlace { at: 128, len_bytes: 1024, identity: 0x1122_3344 };
const MEMORY_WORDS: usize = 256;
const SIZE_MOST: u64 = 600;

/// Bytes written back at a time.
const PIECE_BYTES: u64 = 64;

/// A file, and all that was ever in it.
struct File {
    memory: ForgetfulMemory,
    lower: Lower,
    words: [AtomicU64; RESIDENT_WORDS],
    place: Cell<ResidentPlace>,
    is_resident: Cell<bool>,
    states: RefCell<Vec<Vec<u8>>>,
    /// The call in flight: indices of the states before and after it.
    under_way: Cell<Option<(usize, usize)>>,
    /// The state that the last sync acknowledged.
    acknowledged: Cell<usize>,
    power: Rc<Power>,
}

impl File {
    fn new(power: Rc<Power>) -> Self {
        Self {
            memory: ForgetfulMemory::new(vec![0xdead_beef; MEMORY_WORDS], Rc::clone(&power), None),
            lower: Lower::new(Rc::clone(&power)),
            words: Default::default(),
            place: Cell::new(PLACE),
            is_resident: Cell::new(false),
            states: RefCell::new(vec![Vec::new()]),
            under_way: Cell::new(None),
            acknowledged: Cell::new(0),
            power,
        }
    }

    fn resident(&self) -> ResidentFile<'_, ForgetfulMemory> {
        ResidentFile::new(&self.memory, self.place.get()).unwrap()
    }

    fn words(&self) -> ResidentWords<'_> {
        ResidentWords::new(&self.words)
    }

    fn last(&self) -> usize {
        self.states.borrow().len() - 1
    }

    fn now(&self) -> Vec<u8> {
        self.states.borrow()[self.last()].clone()
    }

    fn become_what_is_below(&self) {
        self.states.borrow_mut().push(self.lower.now());
    }

    fn acknowledge(&self, state: usize) {
        if !self.power.is_off() {
            self.acknowledged.set(self.acknowledged.get().max(state));
        }
    }

    fn promote_if_requested(&self) {
        let place = self.place.get();
        self.place.set(ResidentPlace { identity: place.identity + 1, ..place });
        let content = self.lower.now();
        self.resident().fill(0, &content).unwrap();
        self.resident().begin(content.len() as u64).unwrap();
        self.words().begin(content.len() as u64);
        self.is_resident.set(true);
    }

    /// The demoted file has every call that ended, and any part of the one in flight.
    fn check_below(&self) {
        if self.power.is_off() {
            return;
        }
        let (file, states) = (self.lower.now(), self.states.borrow());
        let (before, behind) = self.under_way.get().unwrap_or((self.last(), self.last()));
        let may = [&states[before], &states[behind]];
        assert!(may.iter().any(|state| state.len() == file.len()), "{} bytes came below", file.len());
        for (at, byte) in file.iter().enumerate() {
            assert!(may.iter().any(|state| state.get(at) == Some(byte)), "byte {at} is {byte} below");
        }
    }

    /// The file after a loss of power and a recovery, if it is what it may be.
    fn check(&self, random: &mut Random) -> Result<(), String> {
        let power = Rc::new(Power::stays());
        let memory = ForgetfulMemory::new(self.memory.after_a_cut(random), Rc::clone(&power), None);
        let below = Lower::with(self.lower.after_a_cut(random), power);
        recover(ResidentFile::new(&memory, self.place.get()).unwrap(), &below)
            .map_err(|error| error.to_string())?;
        let (file, states) = (below.now(), self.states.borrow());
        let states = &states[self.acknowledged.get()..];
        lower::check(&file, states, states)
    }
}

/// Progress of a demotion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not begun.
    Wanted,
    /// Its size is closed, and it is below up to there.
    Closed {
        size: u64,
        at: u64,
    },
    Cut,
    Synced,
    /// Ended: the kernel and other programs write the file.
    Over,
}

/// The demoter, which later writes the file below.
struct Leaver<'f> {
    file: &'f File,
    random: RefCell<Random>,
    phase: Cell<Phase>,
    /// Accesses of the writer before the next step.
    wait: Cell<u64>,
    /// The writer is inside a sync; its signal handler comes after this many accesses.
    handler: Cell<Option<u64>>,
}

impl Leaver<'_> {
    /// The writer makes its next access.
    fn reached(&self) {
        self.handle();
        while self.wait.get() == 0 {
            self.step();
            let mut random = self.random.borrow_mut();
            self.wait.set(if random.one_in(2) { 0 } else { random.below(6) });
        }
        self.wait.set(self.wait.get() - 1);
    }

    /// A signal handler of the writer writes inside its sync, and mostly syncs, and ends first.
    fn handle(&self) {
        let file = self.file;
        let may = self.handler.get().filter(|_| file.is_resident.get() && !file.words().is_closed());
        self.handler.set(may.and_then(|accesses| accesses.checked_sub(1)));
        if may != Some(0) {
            return;
        }
        let mut random = self.random.borrow_mut();
        let (at, data) = some_bytes(&mut random);
        let call = if random.one_in(2) || file.now().len() > 400 {
            Call::Write { at, data }
        } else {
            Call::Append { data }
        };
        let behind = call.behind(file.now());
        file.states.borrow_mut().push(behind);
        let resident = ResidentIo::new(file.resident(), file.words());
        call.with_resident(&resident, |data| data).unwrap();
        file.under_way.set(Some((file.last(), file.last())));
        if !random.one_in(3) {
            resident.sync().unwrap();
            file.acknowledge(file.last());
        }
    }

    fn is_begun(&self) -> bool {
        !matches!(self.phase.get(), Phase::Wanted | Phase::Over)
    }

    /// Waits for the demotion, as a call does that finds the size closed.
    fn finish(&self) {
        while self.is_begun() {
            self.step();
        }
    }

    /// Demotes the file again, some accesses later.
    fn begin_again(&self) {
        self.phase.set(Phase::Wanted);
        self.wait.set(self.random.borrow_mut().below(60));
    }

    fn step(&self) {
        let file = self.file;
        let fails = self.random.borrow_mut().one_in(40);
        self.phase.set(match self.phase.get() {
            Phase::Wanted => Phase::Closed { size: file.words().close(), at: 0 },
            Phase::Closed { .. } | Phase::Cut if fails => self.stay(),
            Phase::Closed { size, at } if at < size => {
                let mut piece = vec![0; PIECE_BYTES.min(size - at) as usize];
                file.resident().read(at, &mut piece).unwrap();
                file.lower.write_all_at(&piece, at).unwrap();
                Phase::Closed { size, at: at + piece.len() as u64 }
            }
            Phase::Closed { size, .. } => {
                file.lower.set_size(size).unwrap();
                Phase::Cut
            }
            Phase::Cut => {
                file.lower.sync().unwrap();
                Phase::Synced
            }
            Phase::Synced => self.end(),
            Phase::Over => self.write_below(),
        });
    }

    /// The file below cannot be written: the file stays DAX-resident.
    fn stay(&self) -> Phase {
        self.file.words().reopen();
        Phase::Wanted
    }

    fn end(&self) -> Phase {
        self.file.resident().end().unwrap();
        self.file.is_resident.set(false);
        self.file.check_below();
        self.file.become_what_is_below();
        Phase::Over
    }

    fn write_below(&self) -> Phase {
        let file = self.file;
        let mut random = self.random.borrow_mut();
        if random.one_in(3) {
            file.lower.sync().unwrap();
            file.acknowledge(file.last());
        } else {
            let (at, data) = some_bytes(&mut random);
            file.lower.write_all_at(&data, at).unwrap();
            file.become_what_is_below();
        }
        Phase::Over
    }
}

/// An offset and bytes that identify the write.
fn some_bytes(random: &mut Random) -> (u64, Vec<u8>) {
    let byte = random.next() as u8;
    (random.below(SIZE_MOST - 120), vec![byte | 1; 1 + random.below(120) as usize])
}

/// Device memory as the writer accesses it.
struct Watched<'l, 'f>(&'l Leaver<'f>);

impl Watched<'_, '_> {
    fn around<D>(&self, access: impl FnOnce(&ForgetfulMemory) -> D) -> D {
        self.0.reached();
        let done = access(&self.0.file.memory);
        self.0.reached();
        done
    }
}

impl Memory for Watched<'_, '_> {
    fn len_bytes(&self) -> u64 {
        self.0.file.memory.len_bytes()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        self.around(|memory| memory.read(at, into))
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.around(|memory| memory.write(at, from))
    }

    fn stream(&self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.around(|memory| memory.stream(at, from))
    }

    fn streams(&self) -> bool {
        self.0.file.memory.streams()
    }

    fn drain(&self, point: Point) {
        self.around(|memory| memory.drain(point));
    }

    fn load(&self, at: u64) -> Result<u64, MemoryError> {
        self.around(|memory| memory.load(at))
    }

    fn store(&self, at: u64, value: u64) -> Result<(), MemoryError> {
        self.around(|memory| memory.store(at, value))
    }

    fn exchange(&self, at: u64, from: u64, to: u64) -> Result<bool, MemoryError> {
        self.around(|memory| memory.exchange(at, from, to))
    }

    fn flush(&self, at: u64, len_bytes: u64, point: Point) -> Result<(), MemoryError> {
        self.around(|memory| memory.flush(at, len_bytes, point))
    }

    fn fence(&self, point: Point) {
        self.around(|memory| memory.fence(point));
    }
}

/// One call.
#[derive(Debug, Clone)]
enum Call {
    Write { at: u64, data: Vec<u8> },
    Append { data: Vec<u8> },
    Truncate { size: u64 },
    Sync,
}

impl Call {
    fn some(random: &mut Random, size: u64) -> Self {
        let (at, data) = some_bytes(random);
        match random.below(10) {
            0 => Self::Truncate { size: random.below(size + 50).min(SIZE_MOST) },
            1..=3 => Self::Sync,
            4..=6 if size + 120 < SIZE_MOST => Self::Append { data },
            _ => Self::Write { at, data },
        }
    }

    fn with_resident<'d, M: Memory, S: Source>(
        &'d self,
        resident: &ResidentIo<'_, M>,
        source: impl Fn(&'d [u8]) -> S,
    ) -> Result<(), ResidentError> {
        match self {
            Self::Write { at, data } => resident.write(*at, data.len() as u64, &mut source(data)),
            Self::Append { data } => resident.append(data.len() as u64, &mut source(data)).map(drop),
            Self::Truncate { size } => resident.truncate(*size),
            Self::Sync => resident.sync(),
        }
    }

    /// The file after a call.
    fn behind(&self, mut file: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Write { at, data } => lower::write(&mut file, *at, data),
            Self::Append { data } => file.extend(data),
            Self::Truncate { size } => file.resize(*size as usize, 0),
            Self::Sync => {}
        }
        file
    }
}

/// The writer, which holds the file's lock during each call.
struct Holder<'l, 'f> {
    file: &'f File,
    leaver: &'l Leaver<'f>,
    memory: &'l Watched<'l, 'f>,
    /// Calls repeated because of a demotion.
    again: u64,
}

impl Holder<'_, '_> {
    fn call(&mut self, call: &Call) {
        loop {
            if self.file.words().is_closed() {
                self.leaver.finish();
            }
            if !self.file.is_resident.get() {
                return self.below(call);
            }
            let before = self.file.last();
            let behind = call.behind(self.file.now());
            self.file.states.borrow_mut().push(behind);
            self.file.under_way.set(Some((before, before + 1)));
            match self.with_resident(call) {
                Ok(()) => {
                    if matches!(call, Call::Sync) {
                        // A signal handler's write inside it came later.
                        self.file.acknowledge(before + 1);
                    }
                    return self.file.under_way.set(None);
                }
                Err(ResidentError::Demoting) => self.leaves(before),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn with_resident(&self, call: &Call) -> Result<(), ResidentError> {
        let resident = ResidentFile::new(self.memory, self.file.place.get()).unwrap();
        let resident = ResidentIo::new(resident, self.file.words());
        resident.enter();
        if matches!(call, Call::Sync) {
            self.leaver.handler.set(Some(self.leaver.random.borrow_mut().below(30)));
        }
        let done = call.with_resident(&resident, |data| Bytes(self.leaver, data));
        self.leaver.handler.set(None);
        done
    }

    /// A call that was not done: only bytes that it stored within the file may remain.
    fn leaves(&mut self, before: usize) {
        self.again += 1;
        self.leaver.finish();
        self.file.under_way.set(None);
        if self.file.is_resident.get() {
            let was = self.file.states.borrow()[before].clone();
            self.file.states.borrow_mut().push(was);
        }
    }

    fn below(&self, call: &Call) {
        let lower = &self.file.lower;
        match call {
            Call::Write { at, data } => lower.write_all_at(data, *at).unwrap(),
            Call::Append { data } => lower.write_all_at(data, lower.now().len() as u64).unwrap(),
            Call::Truncate { size } => lower.set_size(*size).unwrap(),
            Call::Sync => {
                let state = self.file.last();
                lower.sync().unwrap();
                self.file.acknowledge(state);
            }
        }
        self.file.become_what_is_below();
    }
}

/// A source of bytes, read piece by piece.
struct Bytes<'b, 'l, 'f>(&'b Leaver<'f>, &'l [u8]);

impl Source for Bytes<'_, '_, '_> {
    fn fill(&mut self, into: &mut [u8]) {
        self.0.reached();
        let (now, then) = self.1.split_at(into.len());
        into.copy_from_slice(now);
        self.1 = then;
    }
}

impl<'f> Leaver<'f> {
    /// A demoter without steps.
    fn idle(file: &'f File, random: Random) -> Self {
        let wait = Cell::new(u64::MAX);
        Self {
            file,
            random: RefCell::new(random),
            phase: Cell::new(Phase::Over),
            wait,
            handler: Cell::new(None),
        }
    }
}

#[test]
fn truncation_below_a_handlers_synced_size_is_durable() {
    for seed in 0..300 {
        let file = File::new(Rc::new(Power::stays()));
        let leaver = Leaver::idle(&file, Random::new(seed));
        let memory = Watched(&leaver);
        let mut holder = Holder { file: &file, leaver: &leaver, memory: &memory, again: 0 };
        file.promote_if_requested();
        let calls = [Call::Append { data: vec![1; 10] }, Call::Sync, Call::Truncate { size: 10 }];
        calls.iter().for_each(|call| holder.call(call));
        ResidentIo::new(file.resident(), file.words()).sync().unwrap();
        assert_eq!(file.resident().kept_size().unwrap(), 10, "seed {seed}");
    }
}

/// Runs a history up to the power loss. Returns whether it came to that, and the calls repeated.
fn run(seed: u64, event: u64) -> Result<(bool, u64), String> {
    let mut random = Random::new(seed);
    let file = File::new(Rc::new(Power::until(event)));
    let leaver = Leaver::idle(&file, Random::new(seed + 1_000_000));
    let memory = Watched(&leaver);
    let mut holder = Holder { file: &file, leaver: &leaver, memory: &memory, again: 0 };
    for _ in 0..40 {
        if !file.is_resident.get() && random.one_in(2) {
            leaver.wait.set(u64::MAX);
            file.promote_if_requested();
            leaver.begin_again();
        }
        let size = file.now().len() as u64;
        holder.call(&Call::some(&mut random, size));
        if file.power.is_off() {
            break;
        }
    }
    file.check(&mut random)?;
    Ok((file.power.is_off(), holder.again))
}

#[test]
fn acknowledged_bytes_survive_power_loss_with_demotions() {
    let mut again = 0;
    let cuts = every_cut(0..400, |seed, event| {
        let (was_cut, again_then) = run(seed, event)?;
        again += if was_cut { 0 } else { again_then };
        Ok(was_cut)
    })
    .unwrap();
    assert!(cuts > 20_000, "{cuts} cuts");
    assert!(again > 100, "{again} calls were made again");
}
