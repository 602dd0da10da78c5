//! Commands and completions between a host and a device.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use loom::thread;

use super::bounded;
use crate::{
    CompletionConsumer, CompletionProducer, CompletionSlot, DoorbellIndex, Doorbells, ENTRY_BYTES,
    EntryMemory, SLOT_BYTES, SlotMemory, SubmissionConsumer, SubmissionProducer,
};

/// The memory of one queue pair. One word models the content of a slot or an entry.
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

    fn store_entry(&self, slot: CompletionSlot, content: u32) {
        let entry = &self.entries[usize::from(slot.index)];
        entry.content.store(content, Relaxed);
        entry.phase_word.store(u32::from(slot.phase) << 16, Release);
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
        self.entries[usize::from(index)].phase_word.load(Acquire)
    }

    fn read_entry(&self, index: u16) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..4].copy_from_slice(&self.entries[usize::from(index)].content.load(Relaxed).to_le_bytes());
        bytes
    }
}

/// A device that completes each command with the command's content.
struct Device {
    rings: Arc<Rings>,
    doorbells: Arc<Doorbells>,
    submissions: SubmissionConsumer,
    completions: CompletionProducer,
}

const TAIL: DoorbellIndex = DoorbellIndex::submission(0);
const HEAD: DoorbellIndex = DoorbellIndex::completion(0);

impl Device {
    /// Completes what it can; returns how many commands it completed.
    fn run(&mut self) -> u32 {
        self.submissions.set_tail(self.doorbells.load(TAIL)).expect("a host that follows the rules");
        self.completions.set_head(self.doorbells.load(HEAD)).expect("a host that follows the rules");
        let mut answered = 0;
        while let Some(slot) = self.submissions.front() {
            let Some(permit) = self.completions.permit() else { break };
            let content = self.rings.read_slot(slot);
            self.submissions.skip(1);
            let posted = self.completions.post(permit);
            self.rings.store_entry(posted, content);
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

/// Sends commands through rings of `size` slots, up to `depth` in flight; each completion has its command's content.
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
fn commands_and_completions_pass_intact_around_the_smallest_ring() {
    bounded(5).check(|| round_trips(2, 1, 3));
}

#[test]
fn commands_and_completions_pass_intact_with_two_in_flight() {
    bounded(3).check(|| round_trips(3, 2, 4));
}

/// A device that completes each command with the command's content, and behind it a result of `behind` entries that hold it too.
fn complete_with_result(device: &mut Device, behind: u32, size: u32) -> u32 {
    device.submissions.set_tail(device.doorbells.load(TAIL)).expect("a host that follows the rules");
    device.completions.set_head(device.doorbells.load(HEAD)).expect("a host that follows the rules");
    let Some(slot) = device.submissions.front() else { return 0 };
    let Some(permit) = device.completions.permit() else { return 0 };
    let content = device.rings.read_slot(slot);
    device.submissions.skip(1);
    let waiting = device.submissions.available();
    match device.completions.permit_result(behind, waiting) {
        Some(result) => {
            let first = device.completions.post_with_result(permit, result);
            (1..=behind).for_each(|distance| device.rings.store_entry(first.behind(distance, size), content));
            device.rings.store_entry(first, content | WITH_RESULT);
        }
        None => {
            let posted = device.completions.post(permit);
            device.rings.store_entry(posted, content);
        }
    }
    1
}

/// Marks a completion with a result behind it.
const WITH_RESULT: u32 = 1 << 31;

fn content(entry: [u8; ENTRY_BYTES]) -> u32 {
    u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]])
}

/// Sends one command after the other; a completion that the host sees has all of its result behind it, around the end of the ring too.
fn results_behind_completions(size: u32, behind: u32, commands: u32) {
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
            let answered = complete_with_result(&mut device, behind, size);
            left -= answered;
            if answered == 0 {
                thread::yield_now();
            }
        }
    });
    let mut submissions = SubmissionProducer::new(size, rings.clone()).expect("a size");
    let mut completions = CompletionConsumer::new(size, rings).expect("a size");
    for command in 1..=commands {
        submit(&mut submissions, &doorbells, command);
        let done = loop {
            match completions.peek() {
                Some(entry) => break content(entry),
                None => thread::yield_now(),
            }
        };
        assert_eq!(done, command | WITH_RESULT, "there is room for each result");
        for distance in 1..=behind {
            let entry = completions.peek_behind(distance).expect("a result is there before its completion");
            assert_eq!(content(entry), command);
        }
        completions.advance(1 + behind);
        submissions.freed_to((command % size) as u16).expect("a head that was reached");
        doorbells.store(HEAD, completions.head().into());
    }
    running.join().expect("a device that ends");
}

#[test]
fn results_are_there_when_their_completions_are_seen() {
    bounded(3).check(|| results_behind_completions(4, 2, 3));
}
