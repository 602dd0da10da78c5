//! Power loss at every event in random histories: recovery must give what syncs acknowledged, and nothing that was never written.

#![allow(clippy::unwrap_used)]

mod lower;

use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use byway_forgetful::{ForgetfulMemory, LeftOut, Power, Random, every_cut};
use byway_tdm_engine::log::{
    Absorber, Begun, CURSOR_WORDS, Cursor, LowerFile, POINTS, Position, ReplayEnd, Ring, RingError,
    RingPlace, STREAMED_POINTS, SyncStep, recover,
};
use byway_tdm_region::{Memory, Point};
use lower::{Lower, check};

const PLACE: RingPlace = RingPlace { at: 128, len_bytes: 1024, identity: 0x1122_3344 };
const MEMORY_WORDS: usize = 256;

/// One thing that a program or the daemon does.
#[derive(Debug, Clone)]
enum Op {
    Write {
        at: u64,
        data: Vec<u8>,
    },
    /// By a way that no log sees.
    Unseen {
        at: u64,
        data: Vec<u8>,
    },
    Truncate {
        size: u64,
    },
    Sync,
    /// A real sync begins, others go on, and it ends some operations later.
    BeginBelow,
    EndBelow,
}

fn some_op(random: &mut Random, size: u64) -> Op {
    let byte = random.next() as u8;
    let len = match random.below(8) {
        0 => 900,
        1 => 200,
        _ => 1 + random.below(60),
    };
    let data = vec![byte | 1; len as usize];
    let at = if random.one_in(3) { random.below(size + 1) } else { size };
    match random.below(16) {
        0 => Op::Truncate { size: random.below(size + 100) },
        1 => Op::Unseen { at, data },
        2..=4 => Op::Sync,
        5 => Op::BeginBelow,
        6 | 7 => Op::EndBelow,
        _ => Op::Write { at, data },
    }
}

/// A file under absorption, and what it has been.
struct Run<'a> {
    absorber: Absorber<'a, ForgetfulMemory>,
    lower: &'a Lower,
    /// The content after every operation, the first being the empty file.
    states: Vec<Vec<u8>>,
    /// The state that the last sync acknowledged.
    acknowledged: usize,
    begun: Option<Begun>,
}

impl Run<'_> {
    fn step(&mut self, op: &Op) {
        let mut next = self.states[self.states.len() - 1].clone();
        match op {
            Op::Write { at, data } => {
                lower::write(&mut next, *at, data);
                self.states.push(next);
                self.lower.write_all_at(data, *at).unwrap();
                self.absorber.wrote(*at, data.len() as u64, &mut &data[..]);
            }
            Op::Unseen { at, data } => {
                lower::write(&mut next, *at, data);
                self.states.push(next);
                self.lower.write_all_at(data, *at).unwrap();
                self.absorber.cursor().suspend();
            }
            Op::Truncate { size } => self.truncate(*size, next),
            Op::Sync => self.sync(),
            Op::BeginBelow => self.begun = self.begun.or(Some(self.absorber.begin_below())),
            Op::EndBelow => self.end_below(),
        }
    }

    fn truncate(&mut self, size: u64, mut next: Vec<u8>) {
        if self.absorber.truncating(size).is_err() {
            self.below();
            // With the log empty it is cut by the file system's own rules, which are those of a file that is not absorbed.
            if self.absorber.truncating(size).is_err() {
                self.absorber.cursor().suspend();
            }
        }
        next.resize(size as usize, 0);
        self.states.push(next);
        self.lower.set_size(size).unwrap();
    }

    fn sync(&mut self) {
        match self.absorber.sync() {
            SyncStep::Done => {}
            SyncStep::Below(begun) => {
                self.lower.sync().unwrap();
                self.absorber.synced_below(begun, Ok(())).unwrap();
            }
            SyncStep::Failed(error) => panic!("{error}"),
        }
        if !self.lower.power.is_off() {
            self.acknowledged = self.states.len() - 1;
        }
    }

    fn below(&self) {
        let begun = self.absorber.begin_below();
        self.lower.sync().unwrap();
        self.absorber.synced_below(begun, Ok(())).unwrap();
    }

    /// The sync that was begun before other operations: it covers what was there when it began, so it is taken for one that
    /// ran right then, and is only reported now.
    fn end_below(&mut self) {
        let Some(begun) = self.begun.take() else { return };
        self.lower.sync_as_begun();
        self.absorber.synced_below(begun, Ok(())).unwrap();
    }
}

/// How a memory is stored to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stores {
    /// Through the processor's caches.
    Cached,
    /// Past them, where they are asked to.
    Streamed,
}

impl Stores {
    const ALL: [Self; 2] = [Self::Cached, Self::Streamed];

    /// Where flushes, or what stands for them, are missed.
    const fn flushes(self) -> &'static [Point] {
        match self {
            Self::Cached => &POINTS,
            Self::Streamed => &STREAMED_POINTS,
        }
    }

    fn memory(self, power: &Rc<Power>, left_out: Option<LeftOut>) -> ForgetfulMemory {
        let memory = ForgetfulMemory::new(vec![0xdead_beef; MEMORY_WORDS], Rc::clone(power), left_out);
        match self {
            Self::Cached => memory,
            Self::Streamed => memory.streaming(),
        }
    }
}

/// Runs a history up to the loss of power; says what came of it, or how it broke the contract.
fn run(seed: u64, event: u64, stores: Stores, left_out: Option<LeftOut>) -> Result<bool, String> {
    let mut random = Random::new(seed);
    let power = Rc::new(Power::until(event));
    let memory = stores.memory(&power, left_out);
    let lower = Lower::new(Rc::clone(&power));
    let words: [AtomicU64; CURSOR_WORDS] = Default::default();
    let cursor = Cursor::new(&words);
    let ring = Ring::new(&memory, PLACE).unwrap();
    ring.format(Position(0)).unwrap();
    if power.is_off() {
        // Nothing was acknowledged: the file is not absorbed yet.
        return Ok(true);
    }
    cursor.begin(Position(0));
    let absorber = Absorber::new(ring, cursor);
    let mut run = Run { absorber, lower: &lower, states: vec![Vec::new()], acknowledged: 0, begun: None };
    for _ in 0..60 {
        let size = run.states[run.states.len() - 1].len() as u64;
        let op = some_op(&mut random, size.min(2000));
        if matches!(op, Op::BeginBelow) && run.begun.is_none() {
            lower.begin();
        }
        run.step(&op);
        if power.is_off() {
            break;
        }
    }
    let was_cut = power.is_off();
    let file = recovered(&memory, &lower, &mut random)?;
    let states = &run.states[run.acknowledged..];
    check(&file, states, states)?;
    Ok(was_cut)
}

/// The file after a loss of power and a recovery that loses power itself, again and again.
fn recovered(memory: &ForgetfulMemory, lower: &Lower, random: &mut Random) -> Result<Vec<u8>, String> {
    let mut words = memory.after_a_cut(random);
    let mut content = lower.after_a_cut(random);
    for event in [random.below(4), random.below(8), u64::MAX] {
        let power = Rc::new(Power::until(event));
        let memory = ForgetfulMemory::new(words, Rc::clone(&power), None);
        let below = Lower::with(content, Rc::clone(&power));
        let ring = Ring::new(&memory, PLACE).unwrap();
        recover(ring, &below).map_err(|error| format!("recovery: {error}"))?;
        words = memory.after_a_cut(random);
        content = if power.is_off() { below.after_a_cut(random) } else { below.now() };
    }
    Ok(content)
}

#[test]
fn acknowledged_bytes_survive_power_loss_at_any_event() {
    for stores in Stores::ALL {
        let cuts = every_cut(0..1000, |seed, event| run(seed, event, stores, None)).unwrap();
        assert!(cuts > 50_000, "{cuts} cuts, {stores:?}");
    }
}

#[test]
fn each_omitted_flush_or_fence_loses_bytes() {
    for stores in Stores::ALL {
        let flushes = stores.flushes().iter().map(|point| LeftOut::Flush(*point));
        for left_out in flushes.chain(POINTS.map(LeftOut::Fence)) {
            let missed = every_cut(0..400, |seed, event| run(seed, event, stores, Some(left_out)));
            assert!(missed.is_err(), "nothing was lost without {left_out:?}, {stores:?}");
        }
    }
}

/// Does something with an empty log whose power stays.
fn logging<R>(
    act: impl FnOnce(&ForgetfulMemory, Ring<'_, ForgetfulMemory>, &Absorber<'_, ForgetfulMemory>) -> R,
) -> R {
    let memory = ForgetfulMemory::new(vec![0; MEMORY_WORDS], Rc::new(Power::stays()), None);
    let words: [AtomicU64; CURSOR_WORDS] = Default::default();
    let ring = Ring::new(&memory, PLACE).unwrap();
    ring.format(Position(0)).unwrap();
    act(&memory, ring, &Absorber::new(ring, Cursor::new(&words)))
}

#[test]
fn broken_acknowledged_record_is_reported() {
    logging(|memory, ring, absorber| {
        for at in 0..3 {
            absorber.wrote(at * 40, 40, &mut &[7; 40][..]);
            assert_eq!(absorber.sync(), SyncStep::Done);
        }
        let replay = || ring.replay::<RingError>(|_| Ok(())).unwrap();
        assert_eq!(replay().records, 3);
        // One bit of the first record's data.
        memory.store(PLACE.at + 64 + 32, 0x0707_0707_0707_0706).unwrap();
        let found = replay();
        assert_eq!((found.records, found.why), (0, ReplayEnd::Damaged { proof: Position(96) }));
    });
}

#[test]
fn failed_real_sync_fails_all_later_syncs() {
    logging(|_, _, absorber| {
        absorber.cursor().begin(Position(0));
        let SyncStep::Below(begun) = absorber.sync() else { panic!("the first sync is a real one") };
        assert_eq!(absorber.synced_below(begun, Err(28)), Err(28));
        absorber.wrote(0, 3, &mut &b"abc"[..]);
        assert_eq!(absorber.sync(), SyncStep::Failed(28));
    });
}

#[test]
fn callers_own_sync_error_fails_no_other_sync_and_covers_nothing() {
    for error in [1, 4, 9, 13, 22, 38] {
        logging(|_, ring, absorber| {
            absorber.wrote(0, 3, &mut &b"abc"[..]);
            absorber.cursor().suspend();
            let SyncStep::Below(begun) = absorber.sync() else { panic!("a suspended log is synced below") };
            assert_eq!(absorber.synced_below(begun, Err(error)), Err(error));
            assert_eq!(ring.replay::<RingError>(|_| Ok(())).unwrap().records, 1);
            let SyncStep::Below(begun) = absorber.sync() else { panic!("error {error} covers it, or stays") };
            assert_eq!(absorber.synced_below(begun, Ok(())), Ok(()));
            assert_eq!(absorber.sync(), SyncStep::Done);
        });
    }
}

#[test]
fn real_sync_after_a_failed_one_retires_nothing() {
    logging(|_, ring, absorber| {
        absorber.wrote(0, 3, &mut &b"abc"[..]);
        assert_eq!(absorber.sync(), SyncStep::Done);
        assert_eq!(absorber.synced_below(absorber.begin_below(), Err(5)), Err(5));
        assert_eq!(absorber.synced_below(absorber.begin_below(), Ok(())), Err(5));
        assert_eq!(ring.replay::<RingError>(|_| Ok(())).unwrap().records, 1);
    });
}

#[test]
fn announcements_are_made_ahead_and_seldom() {
    logging(|_, ring, absorber| {
        let said = |now_ms| {
            absorber.announce(now_ms);
            ring.written_until_ms().unwrap().unwrap()
        };
        let first = said(1_000_000);
        assert!(first > 1_000_000);
        assert_eq!(said(1_000_100), first);
        assert!(said(first) > first);
    });
}

/// A change while a real sync runs that began before it, and the sync after that.
fn sync_after(change: impl Fn(&Absorber<'_, ForgetfulMemory>)) -> SyncStep {
    logging(|_, _, absorber| {
        absorber.cursor().begin(Position(0));
        let begun = absorber.begin_below();
        change(absorber);
        absorber.synced_below(begun, Ok(())).unwrap();
        absorber.sync()
    })
}

#[test]
fn real_sync_does_not_cover_a_write_during_it() {
    let step = sync_after(|absorber| absorber.wrote(0, 3, &mut &b"abc"[..]));
    assert!(matches!(step, SyncStep::Below(_)), "{step:?}");
}

#[test]
fn real_sync_does_not_cover_a_truncation_during_it() {
    let step = sync_after(|absorber| absorber.truncating(0).unwrap());
    assert!(matches!(step, SyncStep::Below(_)), "{step:?}");
}
