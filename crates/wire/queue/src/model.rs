//! What the model checker proves of rings, doorbells and the turn.
//!
//! Contents are relaxed atomics, so only the orderings of the code under test can make them visible: where one is too
//! weak, some execution reads a stale value and fails.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::Release};
use loom::thread;

use crate::{
    CompletionConsumer, CompletionProducer, DoorbellIndex, Doorbells, ENTRY_BYTES, EntryMemory, EntryPlace,
    SLOT_BYTES, SlotMemory, SubmissionConsumer, SubmissionProducer, Turn,
};

/// All interleavings with at most so many switches that no thread asked for.
fn bounded(switches: usize) -> Builder {
    let mut model = Builder::new();
    model.preemption_bound = Some(switches);
    model
}

/// The memory of one queue pair. One word stands for the content of a slot or an entry.
struct Rings {
    slots: Vec<AtomicU32>,
    entries: Vec<Entry>,
}

struct Entry {
    content: AtomicU32,
    phase_word: AtomicU32,
}

impl Rings {
    fn new(size: u32) -> Self {
        let entry = |_| Entry { content: AtomicU32::new(0), phase_word: AtomicU32::new(0) };
        Self {
            slots: (0..size).map(|_| AtomicU32::new(0)).collect(),
            entries: (0..size).map(entry).collect(),
        }
    }

    fn read_slot(&self, index: u16) -> u32 {
        self.slots[usize::from(index)].load(Relaxed)
    }

    fn store_entry(&self, place: EntryPlace, content: u32) {
        let entry = &self.entries[usize::from(place.index)];
        entry.content.store(content, Relaxed);
        entry.phase_word.store(u32::from(place.phase) << 16, Release);
    }
}

impl SlotMemory for Arc<Rings> {
    fn write_slot(&self, index: u16, bytes: &[u8; SLOT_BYTES]) {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        self.slots[usize::from(index)].store(word, Relaxed);
    }
}

impl EntryMemory for Arc<Rings> {
    fn load_phase_word(&self, index: u16) -> u32 {
        self.entries[usize::from(index)].phase_word.load(std::sync::atomic::Ordering::Acquire)
    }

    fn read_entry(&self, index: u16) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..4].copy_from_slice(&self.entries[usize::from(index)].content.load(Relaxed).to_le_bytes());
        bytes
    }
}

/// A device that answers each command with its content.
struct Device {
    rings: Arc<Rings>,
    doorbells: Arc<Doorbells>,
    submissions: SubmissionConsumer,
    completions: CompletionProducer,
}

const TAIL: DoorbellIndex = DoorbellIndex::submission(0);
const HEAD: DoorbellIndex = DoorbellIndex::completion(0);

impl Device {
    /// Answers what it can; returns how many commands it answered.
    fn run(&mut self) -> u32 {
        self.submissions.set_tail(self.doorbells.load(TAIL)).expect("a host that follows the rules");
        self.completions.set_head(self.doorbells.load(HEAD)).expect("a host that follows the rules");
        let mut answered = 0;
        while let Some(slot) = self.submissions.front() {
            let Some(permit) = self.completions.permit() else { break };
            let content = self.rings.read_slot(slot);
            self.submissions.skip(1);
            let place = self.completions.post(permit);
            self.rings.store_entry(place, content);
            answered += 1;
        }
        answered
    }
}

fn slot(word: u32) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    bytes[..4].copy_from_slice(&word.to_le_bytes());
    bytes
}

fn submit(host: &mut SubmissionProducer<Arc<Rings>>, doorbells: &Doorbells, word: u32) {
    let mut permit = host.reserve(1).expect("a free slot");
    assert!(permit.write(&slot(word)));
    let tail = permit.commit();
    doorbells.store(TAIL, tail.into());
}

fn wait(host: &mut CompletionConsumer<Arc<Rings>>) -> u32 {
    loop {
        if let Some(entry) = host.take() {
            return u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        }
        thread::yield_now();
    }
}

/// Commands go round rings of `size` slots, with up to `depth` in flight, and each is answered with its content.
fn round_trips(size: u32, depth: u32, commands: u32) {
    let rings = Arc::new(Rings::new(size));
    let doorbells = Arc::new(Doorbells::new(1));
    let mut device = Device {
        rings: rings.clone(),
        doorbells: doorbells.clone(),
        submissions: SubmissionConsumer::new(size).expect("a size"),
        completions: CompletionProducer::new(size).expect("a size"),
    };
    let running = thread::spawn(move || {
        let mut left = commands;
        while left > 0 {
            let answered = device.run();
            left -= answered;
            if answered == 0 {
                thread::yield_now();
            }
        }
    });
    let mut submissions = SubmissionProducer::new(size, rings.clone()).expect("a size");
    let mut completions = CompletionConsumer::new(size, rings).expect("a size");
    let mut submitted = 0;
    for answer in 1..=commands {
        while submitted < commands && submitted < answer - 1 + depth {
            submitted += 1;
            submit(&mut submissions, &doorbells, submitted);
        }
        assert_eq!(wait(&mut completions), answer);
        submissions.freed_to((answer % size) as u16).expect("a head that was reached");
        doorbells.store(HEAD, completions.head().into());
    }
    running.join().expect("a device that ends");
}

#[test]
fn commands_and_answers_pass_whole_around_the_smallest_ring() {
    bounded(5).check(|| round_trips(2, 1, 3));
}

#[test]
fn commands_and_answers_pass_whole_with_two_in_flight() {
    bounded(3).check(|| round_trips(3, 2, 4));
}

/// Some callers ring a doorbell each and run the device by turns.
struct Shared {
    turn: Turn,
    doorbells: Doorbells,
    /// The value of each doorbell that a run has seen. Written in turns only, without any ordering of its own.
    seen: [AtomicU32; 3],
    /// Runs so far. Read and then written, so that two runners at a time would lose one.
    runs: AtomicU32,
    /// Runs as their runners count them.
    entered: AtomicU32,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            turn: Turn::new(),
            doorbells: Doorbells::new(3),
            seen: std::array::from_fn(|_| AtomicU32::new(0)),
            runs: AtomicU32::new(0),
            entered: AtomicU32::new(0),
        })
    }

    fn look(&self, index: DoorbellIndex) {
        self.seen[usize::from(index.queue())].store(self.doorbells.load(index), Relaxed);
    }

    fn run(&self, own: Option<DoorbellIndex>) {
        self.entered.fetch_add(1, Relaxed);
        self.runs.store(self.runs.load(Relaxed) + 1, Relaxed);
        own.into_iter().for_each(|index| self.look(index));
        self.doorbells.take_dirty(|index| self.look(index));
    }

    /// A caller that marks its doorbell and then asks for the turn.
    fn ring(&self, queue: u16) {
        self.doorbells.ring(DoorbellIndex::submission(queue), 7);
        if self.turn.enter() {
            self.run_until_left(None);
        }
    }

    /// A caller that runs its own queue if it gets the turn, and marks its doorbell only if not.
    fn ring_fast(&self, queue: u16) {
        let index = DoorbellIndex::submission(queue);
        self.doorbells.store(index, 7);
        if self.turn.try_enter() {
            return self.run_until_left(Some(index));
        }
        self.doorbells.mark(index);
        if self.turn.enter() {
            self.run_until_left(None);
        }
    }

    fn run_until_left(&self, own: Option<DoorbellIndex>) {
        self.run(own);
        while !self.turn.leave() {
            self.run(None);
        }
    }

    /// What must hold once all callers are done.
    fn check(&self, callers: usize) {
        assert!(!self.turn.is_running());
        for seen in &self.seen[..callers] {
            assert_eq!(seen.load(Relaxed), 7, "a doorbell is lost");
        }
        assert_eq!(self.runs.load(Relaxed), self.entered.load(Relaxed), "two ran at a time");
    }
}

fn callers(call: [fn(&Shared, u16); 3], count: usize) {
    // Two callers are tried in every interleaving.
    let model = if count > 2 { bounded(4) } else { Builder::new() };
    model.check(move || {
        let shared = Shared::new();
        let others: Vec<_> = (1..count)
            .map(|queue| {
                let shared = shared.clone();
                thread::spawn(move || call[queue](&shared, queue as u16))
            })
            .collect();
        call[0](&shared, 0);
        others.into_iter().for_each(|other| other.join().expect("a caller that ends"));
        shared.check(count);
    });
}

#[test]
fn no_doorbell_is_lost_between_two_callers() {
    callers([Shared::ring; 3], 2);
}

#[test]
fn no_doorbell_is_lost_between_two_callers_that_mark_late() {
    callers([Shared::ring_fast; 3], 2);
}

#[test]
fn no_doorbell_is_lost_between_callers_of_both_kinds() {
    callers([Shared::ring, Shared::ring_fast, Shared::ring], 2);
    callers([Shared::ring, Shared::ring_fast, Shared::ring_fast], 3);
}

/// A queue on leave from its controller: its thread serves it in its cell, taking the device's turn to execute, while
/// another thread takes it back in (decision 0009). Lock order: the cell, then the device; who has the device only tries
/// the cell.
struct Leave {
    shared: Arc<Shared>,
    cell: Turn,
    /// Whether the queue is away. Written by whoever has both turns, read by whoever has one, and as a hint.
    away: AtomicU32,
    /// Times the queue was served, wherever: read and then written.
    served: AtomicU32,
    /// The same, as its servers count them.
    servings: AtomicU32,
}

impl Leave {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            shared: Shared::new(),
            cell: Turn::new(),
            away: AtomicU32::new(1),
            served: AtomicU32::new(0),
            servings: AtomicU32::new(0),
        })
    }

    fn note_serving(&self) {
        self.servings.fetch_add(1, Relaxed);
        self.served.store(self.served.load(Relaxed) + 1, Relaxed);
    }

    /// The queue's thread rings.
    fn ring(&self) {
        self.shared.doorbells.store(TAIL, 7);
        if self.away.load(Relaxed) == 1 && self.serve_away() {
            return;
        }
        self.shared.ring_fast(0);
    }

    fn serve_away(&self) -> bool {
        assert!(self.cell.wait());
        let is_away = self.away.load(Relaxed) == 1;
        if is_away {
            self.note_serving();
            assert!(self.shared.turn.wait());
            self.shared.run(Some(TAIL));
            self.leave_device();
        }
        while !self.cell.leave() {}
        is_away
    }

    /// Somebody needs the whole controller.
    fn recall(&self) {
        loop {
            assert!(self.shared.turn.wait());
            if self.away.load(Relaxed) == 1 && self.cell.try_enter() {
                self.note_serving();
                self.away.store(0, Relaxed);
                self.shared.doorbells.mark(TAIL);
                while !self.cell.leave() {}
            }
            let all_in = self.away.load(Relaxed) == 0;
            self.shared.run(None);
            self.leave_device();
            if all_in {
                return;
            }
            thread::yield_now();
        }
    }

    fn leave_device(&self) {
        while !self.shared.turn.leave() {
            self.shared.run(None);
        }
    }
}

#[test]
fn a_queue_that_is_recalled_while_it_is_rung_is_served_in_one_place_or_the_other() {
    bounded(3).check(|| {
        let leave = Leave::new();
        let recaller = leave.clone();
        let recalling = thread::spawn(move || recaller.recall());
        leave.ring();
        recalling.join().expect("a recall that ends");
        leave.shared.check(1);
        assert_eq!(leave.served.load(Relaxed), leave.servings.load(Relaxed), "two served at a time");
        assert_eq!(leave.away.load(Relaxed), 0);
    });
}

#[test]
fn a_queue_that_another_meets_at_the_device_waits_for_it() {
    bounded(3).check(|| {
        let leave = Leave::new();
        let other = leave.clone();
        let ringing = thread::spawn(move || other.shared.ring_fast(1));
        leave.ring();
        ringing.join().expect("a caller that ends");
        leave.shared.check(2);
    });
}

/// Queues that threads of a served device have on leave, while somebody posts a register write or wants the whole controller.
/// Who has the device leaves a mark at each cell that is busy, and does not wait: who serves there hands its queue in,
/// and the write is made by whoever brings the last one.
struct Threads {
    device: Turn,
    doorbells: Doorbells,
    lanes: Vec<OnLeave>,
    /// Somebody could not get them all. Written with the device in hand, and before each mark.
    wanted: AtomicU32,
    posted: AtomicU32,
    /// Register writes that were made.
    made: AtomicU32,
}

struct OnLeave {
    cell: Turn,
    away: AtomicU32,
    /// Its thread is at the host's memory.
    touches: AtomicU32,
    /// The tail that was served, here or in the controller: with the device in hand.
    seen: AtomicU32,
}

impl Threads {
    fn new(lanes: usize) -> Arc<Self> {
        let lane = |_| OnLeave {
            cell: Turn::new(),
            away: AtomicU32::new(1),
            touches: AtomicU32::new(0),
            seen: AtomicU32::new(0),
        };
        Arc::new(Self {
            device: Turn::new(),
            doorbells: Doorbells::new(2),
            lanes: (0..lanes).map(lane).collect(),
            wanted: AtomicU32::new(0),
            posted: AtomicU32::new(0),
            made: AtomicU32::new(0),
        })
    }

    fn with_device(&self, work: impl FnOnce()) {
        assert!(self.device.wait());
        work();
        while !self.device.leave() {
            self.run();
        }
    }

    /// A thread looks at its queue once.
    fn tend(&self, queue: usize) {
        let lane = &self.lanes[queue];
        assert!(lane.cell.wait());
        if lane.away.load(Relaxed) == 1 {
            lane.touches.store(1, Relaxed);
            let tail = self.doorbells.load(DoorbellIndex::submission(queue as u16));
            assert_eq!(self.made.load(Relaxed), 0, "the queue is served after the reset");
            lane.touches.store(0, Relaxed);
            self.with_device(|| lane.seen.store(tail, Relaxed));
        }
        self.leave_cell(queue);
    }

    fn leave_cell(&self, queue: usize) {
        while !self.lanes[queue].cell.leave() {
            if self.wanted.load(Relaxed) == 1 {
                self.hand_in(queue);
            }
        }
    }

    /// With the cell in hand.
    fn hand_in(&self, queue: usize) {
        self.with_device(|| {
            self.check_in(queue);
            self.run();
        });
    }

    /// The thread goes to sleep.
    fn rest(&self, queue: usize) {
        assert!(self.lanes[queue].cell.wait());
        self.hand_in(queue);
        self.leave_cell(queue);
    }

    /// With cell and device in hand.
    fn check_in(&self, queue: usize) {
        if self.lanes[queue].away.load(Relaxed) == 1 {
            self.lanes[queue].away.store(0, Relaxed);
            self.doorbells.mark(DoorbellIndex::submission(queue as u16));
        }
    }

    /// With the device in hand: whether every queue is in.
    fn recall(&self) -> bool {
        for (queue, lane) in self.lanes.iter().enumerate() {
            if lane.away.load(Relaxed) == 1 {
                self.wanted.store(1, Relaxed);
                if lane.cell.try_enter() || lane.cell.enter() {
                    self.check_in(queue);
                    while !lane.cell.leave() {}
                }
            }
        }
        let all = self.lanes.iter().all(|lane| lane.away.load(Relaxed) == 0);
        if all {
            self.wanted.store(0, Relaxed);
        }
        all
    }

    /// With the device in hand: what the controller does.
    fn run(&self) {
        if self.posted.load(std::sync::atomic::Ordering::Acquire) == 1 && self.recall() {
            self.posted.store(0, Relaxed);
            assert!(self.lanes.iter().all(|lane| lane.touches.load(Relaxed) == 0));
            self.made.store(self.made.load(Relaxed) + 1, Relaxed);
        }
        self.doorbells.take_dirty(|index| {
            let lane = &self.lanes[usize::from(index.queue())];
            if lane.away.load(Relaxed) == 0 {
                lane.seen.store(self.doorbells.load(index), Relaxed);
            }
        });
    }

    /// Runs the device, or leaves word.
    fn enter(&self) {
        if self.device.try_enter() || self.device.enter() {
            self.run();
            while !self.device.leave() {
                self.run();
            }
        }
    }

    /// Who answers messages posts a register write.
    fn post(&self) {
        self.posted.store(1, Release);
        self.enter();
    }

    /// The same takes a doorbell.
    fn ring(&self, queue: u16) {
        self.doorbells.ring(DoorbellIndex::submission(queue), 7);
        self.enter();
    }

    /// Somebody waits for the whole controller.
    fn have_whole(&self) {
        loop {
            let mut done = false;
            self.with_device(|| done = self.recall());
            if done {
                return;
            }
            thread::yield_now();
        }
    }

    fn check_made(&self) {
        assert!(!self.device.is_running() && self.lanes.iter().all(|lane| !lane.cell.is_running()));
        assert_eq!((self.posted.load(Relaxed), self.made.load(Relaxed)), (0, 1), "made once");
        assert!(self.lanes.iter().all(|lane| lane.away.load(Relaxed) == 0));
    }
}

/// Runs `one` beside `others`.
fn beside(threads: &Arc<Threads>, one: impl FnOnce(&Threads), others: Vec<fn(&Threads)>) {
    let started: Vec<_> = others
        .into_iter()
        .map(|other| {
            let threads = threads.clone();
            thread::spawn(move || other(&threads))
        })
        .collect();
    one(threads);
    started.into_iter().for_each(|other| other.join().expect("a thread that ends"));
}

#[test]
fn a_register_write_that_is_posted_while_a_queue_is_served_is_made_once_and_when_it_is_in() {
    bounded(3).check(|| {
        let threads = Threads::new(1);
        let twice: fn(&Threads) = |threads| {
            threads.tend(0);
            threads.tend(0);
        };
        beside(&threads, Threads::post, vec![twice]);
        threads.check_made();
    });
}

// Two that wait for a turn at once would be tried without end, so one thread has both queues here.
#[test]
fn a_posted_register_write_is_made_by_whoever_brings_the_last_queue() {
    bounded(3).check(|| {
        let threads = Threads::new(2);
        let both: fn(&Threads) = |threads| {
            threads.tend(0);
            threads.tend(1);
        };
        beside(&threads, Threads::post, vec![both]);
        threads.check_made();
    });
}

#[test]
fn who_waits_for_the_whole_controller_gets_it_beside_a_thread_that_serves_and_posts() {
    bounded(3).check(|| {
        let threads = Threads::new(1);
        let posts: fn(&Threads) = |threads| {
            threads.tend(0);
            threads.post();
        };
        beside(&threads, Threads::have_whole, vec![posts]);
        threads.check_made();
        assert_eq!(threads.wanted.load(Relaxed), 0);
    });
}

#[test]
fn a_doorbell_that_comes_while_its_queue_is_handed_in_is_served_in_one_place_or_the_other() {
    bounded(3).check(|| {
        let threads = Threads::new(1);
        let tends: fn(&Threads) = |threads| {
            threads.tend(0);
            threads.rest(0);
        };
        beside(&threads, |threads| threads.ring(0), vec![tends]);
        assert_eq!(threads.lanes[0].seen.load(Relaxed), 7, "the doorbell is lost");
    });
}
