//! A queue pair in the hands of one thread at a time: its life in the device, and the commands under way.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use byway_kit::Random;
use byway_queue::DoorbellIndex;
use byway_spec::Completion;

use crate::cells::Cells;
use crate::commands::{BLOCKS, KEYS, Pending};
use crate::host::Host;
use crate::memory::{GUARD, PAGE, Region};
use crate::ring::{Completions, Submission};
use crate::stage::{Stage, Watchdog};

/// Commands of a pair that may be under way.
pub const SLOTS: usize = 32;

/// Entries of the largest ring: one page holds any.
pub const ENTRIES_MAX: u32 = 64;

/// Pages of the rings, each between two guard pages.
const SUBMISSION_PAGES: [usize; 2] = [1, 3];
const COMPLETION_PAGE: usize = 5;
const FIRST_SLOT_PAGE: usize = 7;

/// Pages of a slot's buffer; a page for its PRP list follows.
pub const BUFFER_PAGES: usize = 4;

/// The life of a queue pair in the device, from its creation to its deletion or a reset.
#[derive(Debug)]
pub struct Life {
    /// Upper half of its commands' identifiers: differs from that of the last 255 lives.
    pub number: u8,
    pub cqid: u16,
    pub completion_entries: u32,
    /// One or two submission queues: identifier and entries.
    pub submissions: Vec<(u16, u32)>,
    pub region: Region,
    /// Its deletion was asked for.
    pub is_deleting: AtomicBool,
    /// The device has deleted its submission queues, or was reset: nothing is answered any more.
    pub is_dead: AtomicBool,
    /// The completion queue as it was at the end of a reset.
    pub last_completions: Mutex<Option<Vec<u8>>>,
}

impl Life {
    /// Memory for rings of random sizes. The host has created nothing yet.
    pub fn new(host: &Host, owner: u16, number: u8, owners: u16, random: &mut Random) -> Self {
        let mut entries = || 2 + random.below(u64::from(ENTRIES_MAX) - 1) as u32;
        let (completion_entries, first, second) = (entries(), entries(), entries());
        let qid = owner + 1;
        let mut submissions = vec![(qid, first)];
        // Two queues that share a completion queue are served under the run lock.
        if random.one_in(4) {
            submissions.push((qid + owners, second));
        }
        Self::with(host, number, (qid, completion_entries), submissions)
    }

    /// Memory for rings of these sizes: identifiers and entries.
    pub fn with(
        host: &Host,
        number: u8,
        (cqid, completion_entries): (u16, u32),
        submissions: Vec<(u16, u32)>,
    ) -> Self {
        let region = Region::map(host, FIRST_SLOT_PAGE + SLOTS * (BUFFER_PAGES + 1));
        region.memory.fill(COMPLETION_PAGE * PAGE, completion_entries as usize * 16, 0);
        Self {
            number,
            cqid,
            completion_entries,
            submissions,
            region,
            is_deleting: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            last_completions: Mutex::new(None),
        }
    }

    /// Bus address of the completion queue.
    pub fn completion_at(&self) -> u64 {
        self.region.memory.bus(COMPLETION_PAGE * PAGE)
    }

    /// Bus address of submission queue `at`, 0 or 1.
    pub fn submission_at(&self, at: usize) -> u64 {
        self.region.memory.bus(SUBMISSION_PAGES[at] * PAGE)
    }

    /// The host's side of its rings, which are empty.
    pub fn rings(&self) -> (Vec<Submission>, Completions) {
        let place = |(page, (qid, entries)): (usize, (u16, u32))| Submission::new(qid, page * PAGE, entries);
        let submissions = SUBMISSION_PAGES.into_iter().zip(self.submissions.iter().copied()).map(place);
        let completions = Completions::new(self.cqid, COMPLETION_PAGE * PAGE, self.completion_entries);
        (submissions.collect(), completions)
    }

    /// The completion queue's page.
    pub fn completions(&self) -> Vec<u8> {
        self.region.memory.read(COMPLETION_PAGE * PAGE, PAGE)
    }

    /// Checks what surrounds the rings.
    fn check_guards(&self) {
        let check = |from: usize, to: usize| {
            self.region.memory.check_filled(from, to - from, GUARD, "a guard of the rings");
        };
        check(0, PAGE);
        for page in SUBMISSION_PAGES {
            check((page + 1) * PAGE, (page + 2) * PAGE);
        }
        check(COMPLETION_PAGE * PAGE + self.completion_entries as usize * 16, FIRST_SLOT_PAGE * PAGE);
    }
}

/// What outlives a queue pair: who stores by it, and what was stored.
#[derive(Debug)]
pub struct Owner {
    pub number: u16,
    pub keys: Cells,
    pub blocks: Cells,
    pub random: Random,
}

impl Owner {
    /// An owner that has stored nothing.
    pub fn new(number: u16, seed: u64) -> Self {
        let random = Random::new(seed ^ u64::from(number) << 32);
        Self { number, keys: Cells::new(KEYS), blocks: Cells::new(BLOCKS), random }
    }
}

/// A queue pair.
#[derive(Debug)]
pub struct Pair {
    pub owner: Owner,
    pub life: Arc<Life>,
    pub submissions: Vec<Submission>,
    completions: Completions,
    pub pending: Vec<Option<Pending>>,
}

impl Pair {
    /// A pair that was just created.
    pub fn new(owner: Owner, life: Arc<Life>) -> Self {
        let (submissions, completions) = life.rings();
        Self { owner, submissions, completions, pending: (0..SLOTS).map(|_| None).collect(), life }
    }

    /// Offset of a slot's buffer; its PRP list is [`BUFFER_PAGES`] behind.
    pub fn buffer(slot: usize) -> usize {
        (FIRST_SLOT_PAGE + slot * (BUFFER_PAGES + 1)) * PAGE
    }

    /// Whether nothing is answered any more.
    pub fn is_dead(&self) -> bool {
        self.life.is_dead.load(SeqCst)
    }

    /// Whether commands are under way.
    pub fn is_busy(&self) -> bool {
        self.pending.iter().any(Option::is_some)
    }

    /// A random step of the pair's thread.
    pub fn step(&mut self, stage: &Stage) {
        match self.owner.random.below(10) {
            0..=4 => {
                let most = self.owner.random.below(SLOTS as u64);
                (0..=most).for_each(|_| self.issue());
                self.ring_tails(&stage.host);
                let entries = self.life.completion_entries as usize;
                if self.pending.iter().flatten().count() >= entries {
                    stage.seen.full_rings.note(1);
                }
            }
            5..=7 => {
                let most = self.owner.random.below(SLOTS as u64) as usize;
                self.reap(stage, most);
                if !self.owner.random.one_in(4) {
                    self.completions.ring(&stage.host);
                }
            }
            8 => self.wait_for_one(stage),
            _ => stage.host.poll(),
        }
    }

    fn ring_tails(&mut self, host: &Host) {
        self.submissions.iter_mut().for_each(|submission| submission.ring(host));
    }

    /// Takes at most `most` completions; how many there were.
    fn reap(&mut self, stage: &Stage, most: usize) -> usize {
        let taken = (0..most).map_while(|_| {
            self.completions.take(&self.life.region.memory).map(|entry| self.answered(&entry))
        });
        let taken = taken.count();
        stage.seen.answers.note(taken as u64);
        taken
    }

    fn answered(&mut self, entry: &Completion) {
        let life = &self.life;
        let asked = self.pending.get_mut(usize::from(entry.cid) % SLOTS).and_then(Option::take);
        let asked = asked.unwrap_or_else(|| panic!("{entry:?} answers no command of {life:?}"));
        assert_eq!((entry.cid, entry.sqid), (asked.cid, self.submissions[asked.submission].qid), "{life:?}");
        self.submissions[asked.submission].take_head(entry.sqhd);
        if let Some(bytes) = asked.result_bytes(entry) {
            // Where a buffer holds what it would otherwise: what follows looks there.
            let result = self.completions.take_result(&self.life.region.memory, bytes);
            self.life.region.memory.write(asked.buffer_at(), &result);
        }
        self.check(&asked, entry);
    }

    /// Rings every doorbell, and waits until a command is answered, if one is under way and the queue lives.
    pub fn wait_for_one(&mut self, stage: &Stage) {
        let mut watchdog = Watchdog::new(stage);
        self.ring_tails(&stage.host);
        self.completions.ring(&stage.host);
        while self.is_busy() && !self.is_dead() && self.reap(stage, SLOTS) == 0 {
            stage.host.poll();
            // A host that waits syncs the image for its commands.
            self.submissions.iter().for_each(|submission| stage.host.idle(submission.qid));
            watchdog.wait(|| format!("{self:?}"));
        }
        self.completions.ring(&stage.host);
    }

    /// Waits for every command, and reads all that is stored.
    #[must_use]
    pub fn settle(mut self, stage: &Stage) -> Self {
        while self.is_busy() {
            self.wait_for_one(stage);
        }
        for what in Self::all_reads() {
            while !self.issue_read(&what) {
                self.wait_for_one(stage);
            }
        }
        while self.is_busy() {
            self.wait_for_one(stage);
        }
        self
    }

    /// Ends the life of a pair that is dead: takes what was answered, and gives up the rest.
    pub fn end(mut self, stage: &Stage) -> (Owner, Arc<Life>) {
        self.ring_when_dead(&stage.host);
        while self.reap(stage, SLOTS) > 0 {}
        for asked in std::mem::take(&mut self.pending).into_iter().flatten() {
            stage.seen.unanswered.note(1);
            self.give_up(&asked);
        }
        assert!(self.owner.keys.is_at_rest() && self.owner.blocks.is_at_rest());
        self.life.check_guards();
        (self.owner, self.life)
    }

    /// Doorbells of a queue that is no more: the device ignores them.
    fn ring_when_dead(&mut self, host: &Host) {
        for _ in 0..self.owner.random.below(8) {
            let value = self.owner.random.below(u64::from(ENTRIES_MAX) + 2) as u32;
            let qid = self.submissions[0].qid;
            host.ring(DoorbellIndex::submission(qid), value);
        }
        self.ring_tails(host);
        self.completions.ring(host);
    }
}
