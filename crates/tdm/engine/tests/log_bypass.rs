//! Bypasses a log's lock at each access of its holder, with power loss at every event, in random histories.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "another test has its syncs end later than they begin")]
mod lower;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use byway_forgetful::{ForgetfulMemory, Power, Random, every_cut};
use byway_tdm_engine::log::{
    Absorber, Begun, Bypass, CURSOR_WORDS, Cursor, LowerFile, Position, Ring, RingError, RingPlace, SyncStep,
    recover,
};
use byway_tdm_region::{Memory, MemoryError, Point};
use lower::Lower;

const PLACE: RingPlace = RingPlace { at: 128, len_bytes: 1024, identity: 0x1122_3344 };
const MEMORY_WORDS: usize = 256;

/// Small, so that what is written is mostly written over.
const FILE_BYTES: u64 = 300;

/// A file, and all that was ever in it.
struct File {
    memory: ForgetfulMemory,
    lower: Lower,
    words: [AtomicU64; CURSOR_WORDS],
    states: RefCell<Vec<Vec<u8>>>,
    /// The state that the last sync acknowledged.
    acknowledged: Cell<usize>,
    power: Rc<Power>,
}

impl File {
    fn new(power: Rc<Power>) -> Self {
        Self {
            memory: ForgetfulMemory::new(vec![0xdead_beef; MEMORY_WORDS], Rc::clone(&power), None)
                .streaming(),
            lower: Lower::new(Rc::clone(&power)),
            words: Default::default(),
            states: RefCell::new(vec![Vec::new()]),
            acknowledged: Cell::new(0),
            power,
        }
    }

    fn last(&self) -> usize {
        self.states.borrow().len() - 1
    }

    /// The system's own write, or its own cut where nothing is written.
    fn change(&self, at: u64, data: &[u8]) {
        let mut next = self.states.borrow()[self.last()].clone();
        if data.is_empty() {
            next.resize(at as usize, 0);
        } else {
            lower::write(&mut next, at, data);
        }
        self.states.borrow_mut().push(next);
        match data.is_empty() {
            true => self.lower.set_size(at).unwrap(),
            false => self.lower.write_all_at(data, at).unwrap(),
        }
    }

    fn acknowledge(&self, state: usize) {
        if !self.power.is_off() {
            self.acknowledged.set(self.acknowledged.get().max(state));
        }
    }

    /// The file after a loss of power and a recovery, if it is what it may be.
    fn check(&self, random: &mut Random) -> Result<(), String> {
        let power = Rc::new(Power::stays());
        let memory = ForgetfulMemory::new(self.memory.after_a_cut(random), Rc::clone(&power), None);
        let below = Lower::with(self.lower.after_a_cut(random), power);
        recover(Ring::new(&memory, PLACE).unwrap(), &below).map_err(|error| error.to_string())?;
        let (file, states) = (below.now(), self.states.borrow());
        let states = &states[self.acknowledged.get()..];
        lower::check(&file, states, states)
    }
}

/// One step of the bypassing thread.
#[derive(Debug, Clone, Copy)]
enum Step {
    BeginChange,
    Change,
    EndChange,
    BeginSync,
    SyncBelow,
    EndSync,
}

const STEPS: [Step; 6] =
    [Step::BeginChange, Step::Change, Step::EndChange, Step::BeginSync, Step::SyncBelow, Step::EndSync];

/// The bypassing thread.
struct Passer<'f> {
    file: &'f File,
    random: RefCell<Random>,
    /// Steps, each with the holder's access at which it is made.
    steps: RefCell<VecDeque<(u64, Step)>>,
    accesses: Cell<u64>,
    change: RefCell<Option<Bypass<'f>>>,
    sync: Cell<Option<(Begun, usize)>>,
}

impl<'f> Passer<'f> {
    fn some(file: &'f File, mut random: Random) -> Self {
        // Behind the accesses that format the ring.
        let mut at = 4;
        let mut steps = VecDeque::new();
        for _ in 0..4 {
            at += random.below(40);
            let is_at_once = random.one_in(2);
            for step in STEPS {
                at += if is_at_once { 0 } else { random.below(3) * random.below(8) };
                steps.push_back((at, step));
            }
        }
        Self::new(file, random, steps)
    }

    fn new(file: &'f File, random: Random, steps: VecDeque<(u64, Step)>) -> Self {
        Self {
            file,
            random: RefCell::new(random),
            steps: RefCell::new(steps),
            accesses: Cell::new(0),
            change: RefCell::new(None),
            sync: Cell::new(None),
        }
    }

    /// The holder reaches its next access.
    fn reached(&self) {
        let now = self.accesses.get();
        self.accesses.set(now + 1);
        loop {
            let due = self.steps.borrow().front().filter(|(at, _)| *at <= now).map(|(_, step)| *step);
            let Some(step) = due else { return };
            self.steps.borrow_mut().pop_front();
            self.does(step);
        }
    }

    fn does(&self, step: Step) {
        let file = self.file;
        let absorber = Absorber::new(Ring::new(&file.memory, PLACE).unwrap(), Cursor::new(&file.words));
        match step {
            Step::BeginChange => *self.change.borrow_mut() = Some(absorber.cursor().bypass()),
            Step::Change => {
                let (at, data) = some_bytes(&mut self.random.borrow_mut());
                file.change(at, &data);
            }
            Step::EndChange => drop(self.change.take()),
            Step::BeginSync => self.sync.set(Some((absorber.begin_bypass(), file.last()))),
            Step::SyncBelow => file.lower.sync().unwrap(),
            Step::EndSync => {
                let Some((begun, state)) = self.sync.take() else { return };
                absorber.synced_in_bypass(begun, Ok(()), || true).unwrap();
                file.acknowledge(state);
            }
        }
    }
}

/// An offset and bytes that identify the write.
fn some_bytes(random: &mut Random) -> (u64, Vec<u8>) {
    let byte = random.next() as u8;
    (random.below(FILE_BYTES), vec![byte | 1; 1 + random.below(120) as usize])
}

/// Device memory as the holder accesses it.
struct Watched<'p, 'f>(&'p Passer<'f>);

impl Watched<'_, '_> {
    fn memory(&self) -> &ForgetfulMemory {
        self.0.reached();
        &self.0.file.memory
    }
}

impl Memory for Watched<'_, '_> {
    fn len_bytes(&self) -> u64 {
        self.0.file.memory.len_bytes()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        self.memory().read(at, into)
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.memory().write(at, from)
    }

    fn stream(&self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.memory().stream(at, from)
    }

    fn streams(&self) -> bool {
        self.0.file.memory.streams()
    }

    fn drain(&self, point: Point) {
        self.memory().drain(point);
    }

    fn load(&self, at: u64) -> Result<u64, MemoryError> {
        self.memory().load(at)
    }

    fn store(&self, at: u64, value: u64) -> Result<(), MemoryError> {
        self.memory().store(at, value)
    }

    fn exchange(&self, at: u64, from: u64, to: u64) -> Result<bool, MemoryError> {
        self.memory().exchange(at, from, to)
    }

    fn flush(&self, at: u64, len_bytes: u64, point: Point) -> Result<(), MemoryError> {
        self.memory().flush(at, len_bytes, point)
    }

    fn fence(&self, point: Point) {
        self.memory().fence(point);
    }
}

/// The holder of the lock.
struct Holder<'p, 'f> {
    file: &'f File,
    passer: &'p Passer<'f>,
    absorber: Absorber<'p, Watched<'p, 'f>>,
    spared: u64,
}

impl Holder<'_, '_> {
    fn does_something(&mut self, random: &mut Random) {
        match random.below(12) {
            0 => self.truncate(random.below(self.size() + 1)),
            1 => self.below(),
            2..=5 => self.sync(),
            _ => {
                let (at, data) = some_bytes(random);
                self.change(at, &data);
                self.absorber.wrote(at, data.len() as u64, &mut &data[..]);
            }
        }
    }

    fn change(&self, at: u64, data: &[u8]) {
        self.passer.reached();
        self.file.change(at, data);
        self.passer.reached();
    }

    /// Extending shows zeroes where a lost, unsynced write of another thread lay.
    fn size(&self) -> u64 {
        self.file.states.borrow()[self.file.last()].len() as u64
    }

    fn truncate(&self, size: u64) {
        if self.absorber.truncating(size).is_err() {
            self.below();
            self.absorber.cursor().suspend();
        }
        self.change(size, &[]);
    }

    fn sync(&mut self) {
        let state = self.file.last();
        match self.absorber.sync() {
            SyncStep::Done => self.spared += 1,
            SyncStep::Below(begun) => self.synced_below(begun),
            SyncStep::Failed(error) => panic!("{error}"),
        }
        self.file.acknowledge(state);
    }

    fn below(&self) {
        self.synced_below(self.absorber.begin_below());
    }

    fn synced_below(&self, begun: Begun) {
        self.passer.reached();
        self.file.lower.sync().unwrap();
        self.passer.reached();
        self.absorber.synced_below(begun, Ok(())).unwrap();
    }
}

/// Runs a history up to the power loss. Returns whether it came to that, and the syncs saved after the last bypass.
fn run(seed: u64, event: u64) -> Result<(bool, u64), String> {
    let mut random = Random::new(seed);
    let file = File::new(Rc::new(Power::until(event)));
    let passer = Passer::some(&file, Random::new(seed + 1_000_000));
    let memory = Watched(&passer);
    let ring = Ring::new(&memory, PLACE).unwrap();
    ring.format(Position(0)).unwrap();
    if file.power.is_off() {
        // The file is not absorbed yet.
        return Ok((true, 0));
    }
    let cursor = Cursor::new(&file.words);
    cursor.begin(Position(0));
    let mut holder =
        Holder { file: &file, passer: &passer, absorber: Absorber::new(ring, cursor), spared: 0 };
    let mut spared = 0;
    for _ in 0..60 {
        let before = holder.spared;
        holder.does_something(&mut random);
        spared += (holder.spared - before) * u64::from(passer.steps.borrow().is_empty());
        if file.power.is_off() {
            break;
        }
    }
    file.check(&mut random)?;
    Ok((file.power.is_off(), spared))
}

#[test]
fn record_in_progress_is_void_after_a_bypassing_sync() {
    for at in 0..3 {
        let file = File::new(Rc::new(Power::stays()));
        let passer = Passer::new(&file, Random::new(1), STEPS.map(|step| (at, step)).into());
        let memory = Watched(&passer);
        Ring::new(&file.memory, PLACE).unwrap().format(Position(0)).unwrap();
        let ring = Ring::new(&memory, PLACE).unwrap();
        let absorber = Absorber::new(ring, Cursor::new(&file.words));
        file.change(0, &[7; 100]);
        absorber.wrote(0, 100, &mut &[7; 100][..]);
        passer.reached();
        assert!(passer.steps.borrow().is_empty(), "access {at}");
        let ring = Ring::new(&file.memory, PLACE).unwrap();
        assert_eq!(ring.replay::<RingError>(|_| Ok(())).unwrap().records, 0, "access {at}");
    }
}

#[test]
fn acknowledged_bytes_survive_power_loss_with_bypasses() {
    let mut spared = 0;
    let cuts = every_cut(0..300, |seed, event| {
        let (was_cut, spared_then) = run(seed, event)?;
        spared += if was_cut { 0 } else { spared_then };
        Ok(was_cut)
    })
    .unwrap();
    assert!(cuts > 30_000, "{cuts} cuts");
    assert!(spared > 300, "{spared} syncs were spared behind all that");
}
