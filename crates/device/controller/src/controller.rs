//! One NVMe controller: registers, queues, and the state between commands. Transport-free and sans-I/O.
//!
//! [`Controller::run`] does what the doorbells ask for, up to a budget, and says when it wants to run next. It owns
//! no thread, clock, socket or randomness, so one seed replays driver, controller, flash and faults exactly.

use byway_dma::BusAddr;
use byway_link::Habits;
use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::base::register::{Cc, Csts};

use crate::admin::AdminState;
use crate::capsule::CapsuleQueues;
use crate::completion::Completions;
use crate::elsewhere::Parked;
use crate::held::Held;
use crate::namespace::Room;
use crate::port::Port;
use crate::put_off::PutOff;
use crate::queue::{CompletionQueue, MAX_IO_QUEUES, SubmissionQueue};
use crate::register::{CmbRegisters, Event, Registers};
use crate::subsystem::Subsystem;
use crate::transfer::payloads::PayloadTable;

/// Largest transfer of one command: 16 MiB (Identify MDTS 12, in units of 4 KiB).
pub const MAX_TRANSFER_BYTES: usize = 16 << 20;

/// A controller's identifier within its subsystem (CNTLID).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControllerId(pub u16);

/// One controller of a subsystem.
#[derive(Debug)]
pub struct Controller {
    pub(crate) id: ControllerId,
    pub(crate) registers: Registers,
    pub(crate) submission: Vec<Option<SubmissionQueue>>,
    pub(crate) completion: Vec<Option<CompletionQueue>>,
    pub(crate) completions: Completions,
    pub(crate) held: Held,
    /// Commands that other engines have.
    pub(crate) elsewhere: Parked,
    pub(crate) put_off: PutOff,
    /// Queue pairs that are checked out.
    pub(crate) away: QueueSet,
    /// Admin commands wait until all of those are back.
    pub(crate) admin_waits: bool,
    /// Queues whose tails have moved since somebody asked.
    pub(crate) rung: QueueSet,
    pub(crate) admin: AdminState,
    pub(crate) payloads: PayloadTable,
    pub(crate) room: Room,
    pub(crate) inline: Vec<u8>,
    pub(crate) habits: Habits,
    pub(crate) ready: ReadySet,
    /// A command waits for room in its completion queue.
    pub(crate) blocked: bool,
    /// Doorbells in the host's memory are looked at without its ringing.
    pub(crate) is_watched: bool,
    /// Completion queues with entries that no interrupt has told of.
    pub(crate) unannounced: QueueSet,
    /// What it has instead of rings in host memory, where its commands come in capsules.
    pub(crate) capsules: Option<Box<CapsuleQueues>>,
    /// Subsystem resets that it went through, or was made after.
    resets_seen: u64,
}

/// A set of queues.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueSet {
    words: [u64; 3],
}

impl QueueSet {
    /// Puts queue `qid` into the set.
    #[inline]
    pub fn insert(&mut self, qid: u16) {
        self.words[usize::from(qid / 64)] |= 1 << (qid % 64);
    }

    /// Takes queue `qid` out of the set.
    #[inline]
    pub fn remove(&mut self, qid: u16) {
        self.words[usize::from(qid / 64)] &= !(1 << (qid % 64));
    }

    /// Whether queue `qid` is in the set.
    #[inline]
    pub fn contains(&self, qid: u16) -> bool {
        self.words[usize::from(qid / 64)] & 1 << (qid % 64) != 0
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words == [0; 3]
    }

    /// Queues in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The lowest queue of the set.
    #[inline]
    pub fn first(&self) -> Option<u16> {
        let word = self.words.iter().position(|word| *word != 0)?;
        Some(word as u16 * 64 + self.words[word].trailing_zeros() as u16)
    }

    /// Takes the lowest queue out of the set.
    #[inline]
    pub fn take_first(&mut self) -> Option<u16> {
        let word = self.words.iter().position(|word| *word != 0)?;
        let bits = self.words[word];
        self.words[word] = bits & (bits - 1);
        Some(word as u16 * 64 + bits.trailing_zeros() as u16)
    }

    /// The lowest queue of the set from `start` on, or the lowest of all.
    #[inline]
    pub fn first_from(&self, start: u16) -> Option<u16> {
        let word = usize::from(start / 64);
        let behind = self.words[word] & !0 << (start % 64);
        if behind != 0 {
            return Some(word as u16 * 64 + behind.trailing_zeros() as u16);
        }
        let later = self.words.iter().enumerate().skip(word + 1).find(|(_, bits)| **bits != 0);
        later.map(|(word, bits)| word as u16 * 64 + bits.trailing_zeros() as u16).or_else(|| self.first())
    }
}

/// Which submission queues may have work, and whose turn is next.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ReadySet {
    queues: QueueSet,
    next: u16,
}

impl ReadySet {
    /// Marks queue `qid` as having work.
    #[inline]
    pub fn insert(&mut self, qid: u16) {
        self.queues.insert(qid);
    }

    /// Queue `qid` has no work left.
    #[inline]
    pub fn remove(&mut self, qid: u16) {
        self.queues.remove(qid);
    }

    /// Whether no queue has work.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// The next queue with work, round robin from the last one served, so that none starves.
    #[inline]
    pub fn next(&mut self) -> Option<u16> {
        if self.queues.is_empty() {
            return None;
        }
        let qid = self.queues.first_from(self.next)?;
        self.next = if qid == MAX_IO_QUEUES { 0 } else { qid + 1 };
        Some(qid)
    }
}

/// When a controller wants to run next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When a doorbell or a register is written.
    Idle,
    /// As soon as possible: the budget ran out.
    Now,
    /// At this modelled time, in picoseconds, or when a doorbell is written.
    At(u64),
}

impl Controller {
    /// A controller as after power-on.
    pub fn new(id: ControllerId, subsystem: &mut Subsystem, cmb: CmbRegisters) -> Self {
        let inline = vec![0; subsystem.profile.limits.inline_max_bytes as usize];
        Self { inline, ..Self::with_queues(id, subsystem, cmb, usize::from(MAX_IO_QUEUES) + 1) }
    }

    /// One with room for so many queues.
    pub(crate) fn with_queues(
        id: ControllerId,
        subsystem: &mut Subsystem,
        cmb: CmbRegisters,
        queues: usize,
    ) -> Self {
        subsystem.add_controller(id);
        Self {
            id,
            registers: Registers::new(cmb),
            submission: (0..queues).map(|_| None).collect(),
            completion: (0..queues).map(|_| None).collect(),
            completions: Completions::default(),
            held: Held::default(),
            elsewhere: Parked::default(),
            put_off: PutOff::default(),
            away: QueueSet::default(),
            admin_waits: false,
            rung: QueueSet::default(),
            admin: AdminState::new(),
            payloads: PayloadTable::default(),
            room: Room::default(),
            inline: Vec::new(),
            habits: subsystem.profile.habits,
            ready: ReadySet::default(),
            blocked: false,
            is_watched: false,
            unannounced: QueueSet::default(),
            capsules: None,
            resets_seen: subsystem.resets,
        }
    }

    /// This controller's identifier.
    pub fn id(&self) -> ControllerId {
        self.id
    }

    /// Whether the host enabled the controller and it serves commands.
    pub fn is_ready(&self) -> bool {
        self.registers.csts().rdy() && !self.registers.csts().cfs()
    }

    /// Reads 4 bytes of the register space.
    pub fn read_register(&self, offset: u32) -> u32 {
        self.registers.read32(offset)
    }

    /// Writes 4 bytes of the register space and does what the write asks for.
    pub fn write_register(
        &mut self,
        subsystem: &mut Subsystem,
        doorbells: &Doorbells,
        offset: u32,
        value: u32,
    ) {
        self.follow_subsystem_reset(subsystem, doorbells);
        match self.registers.write32(offset, value) {
            Event::None => {}
            Event::Enable => self.enable(),
            Event::Reset => self.reset(subsystem, doorbells),
            Event::Shutdown => self.begin_shutdown(subsystem),
            Event::SubsystemReset => {
                subsystem.resets += 1;
                self.follow_subsystem_reset(subsystem, doorbells);
            }
        }
    }

    /// Goes through a reset of the whole subsystem, if there was one since. The controller that NSSR was written to does
    /// so at once, any other before it does anything else: when it runs, or a register of it is written. Whoever owns
    /// several runs each of them after a register write.
    #[inline]
    pub fn follow_subsystem_reset(&mut self, subsystem: &mut Subsystem, doorbells: &Doorbells) {
        if self.resets_seen != subsystem.resets {
            self.resets_seen = subsystem.resets;
            self.reset(subsystem, doorbells);
            self.registers.subsystem_reset();
        }
    }

    /// Whether a command waits for room in its completion queue. A host that leaves room without marking its
    /// doorbell must run the controller then.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether I/O queue `qid` is there, in the controller or on leave.
    #[must_use]
    pub fn has_queue(&self, qid: u16) -> bool {
        self.away.contains(qid) || matches!(self.submission.get(usize::from(qid)), Some(Some(_)))
    }

    /// I/O queues that are there, in the controller or on leave.
    #[must_use]
    pub fn io_queues(&self) -> usize {
        self.submission.iter().skip(1).flatten().count() + self.away.len()
    }

    /// Whether admin commands wait for queue pairs that are checked out: they may be about any of them.
    #[inline]
    pub fn waits_for_lanes(&self) -> bool {
        self.admin_waits
    }

    /// Takes the lowest of the queues whose tails have moved since the last call.
    #[inline]
    pub fn take_rung(&mut self) -> Option<u16> {
        self.rung.take_first()
    }

    /// Where the host placed the controller memory buffer on the bus, if it enabled it.
    pub fn cmb_base(&self) -> Option<u64> {
        self.registers.cmb_base()
    }

    /// Stops for good until a reset: a broken queue boundary or an unusable configuration (CSTS.CFS).
    pub(crate) fn fail(&mut self) {
        self.registers.set_fatal();
        self.ready = ReadySet::default();
    }

    fn enable(&mut self) {
        if !self.configuration_is_valid() {
            return self.fail();
        }
        if self.capsules.is_some() {
            return self.registers.set_ready(true);
        }
        let (sq_entries, cq_entries) = self.registers.admin_entries();
        let (sq_base, cq_base) = self.registers.admin_bases();
        let sq = SubmissionQueue::new(BusAddr(sq_base), sq_entries, 0);
        let cq = CompletionQueue::new(BusAddr(cq_base), cq_entries, Some(0));
        let (Ok(sq), Ok(mut cq)) = (sq, cq) else { return self.fail() };
        cq.submission_queues = 1;
        (self.submission[0], self.completion[0]) = (Some(sq), Some(cq));
        self.registers.set_ready(true);
    }

    fn configuration_is_valid(&self) -> bool {
        let cc = self.registers.cc();
        let css = matches!(cc.css(), Cc::CSS_NVM | Cc::CSS_IO_SETS | Cc::CSS_ADMIN_ONLY);
        css && cc.mps() == 0 && cc.ams() == 0
    }

    /// Controller reset: queues and everything in flight are gone; namespaces and their data stay.
    fn reset(&mut self, subsystem: &mut Subsystem, doorbells: &Doorbells) {
        for qid in 0..self.submission.len() {
            self.release_window(subsystem, qid as u16);
        }
        subsystem.forget_host(self.id);
        self.elsewhere.clear();
        self.submission.fill_with(|| None);
        self.completion.fill_with(|| None);
        self.completions.clear();
        self.held.clear();
        self.put_off.clear();
        self.admin.reset();
        self.payloads.clear();
        self.blocked = false;
        self.admin_waits = false;
        self.ready = ReadySet::default();
        self.unannounced = QueueSet::default();
        self.rung = QueueSet::default();
        for place in 0..2 * u32::from(MAX_IO_QUEUES + 1) {
            DoorbellIndex::at(place).into_iter().for_each(|index| doorbells.reset(index));
        }
        self.registers.reset();
        self.keep_admin_queue(subsystem);
    }

    /// Puts the controller back to what it was after power-on, as a function level reset does, and for the next host when
    /// one has gone: queues, registers and everything in flight are gone; namespaces and their data stay.
    pub fn reset_function(&mut self, subsystem: &mut Subsystem, doorbells: &Doorbells) {
        self.resets_seen = subsystem.resets;
        self.reset(subsystem, doorbells);
        self.registers.power_on();
    }

    /// Gives back the window of device memory that queue `qid` had bound.
    pub(crate) fn release_window(&mut self, subsystem: &mut Subsystem, qid: u16) {
        let queue = self.submission.get_mut(usize::from(qid)).and_then(Option::as_mut);
        if let Some(window) = queue.and_then(|queue| queue.window.take()) {
            subsystem.unbind_window(window);
        }
    }

    pub(crate) fn shut_down(&mut self, subsystem: &mut Subsystem) {
        let synced = subsystem.shut_down();
        // The shutdown is over either way; one that could not make everything durable says so.
        if synced.is_err() {
            self.registers.set_fatal();
        }
        self.registers.set_shutdown_status(Csts::SHST_COMPLETE);
    }

    /// Serves the doorbells rung since the last run, at modelled time `now_ps`, for at most `budget` commands.
    /// `rung` is a doorbell that the caller wrote without marking it, as it runs the device itself.
    #[inline]
    pub fn run(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        rung: Option<DoorbellIndex>,
        now_ps: u64,
        budget: u32,
    ) -> Next {
        self.follow_subsystem_reset(subsystem, doorbells);
        if !self.is_ready() {
            doorbells.take_dirty(|_| {});
            return if self.sanitizes_on(subsystem) { Next::At(now_ps) } else { Next::Idle };
        }
        self.admin.tick(now_ps);
        self.take_doorbells(port, doorbells, rung);
        self.post_due(port, now_ps);
        if std::mem::take(&mut self.blocked) {
            self.wake_blocked(doorbells);
        }
        let mut left = budget;
        while left > 0 && !subsystem.is_full() {
            let Some(qid) = self.ready.next() else { break };
            left -= 1;
            self.serve(subsystem, port, doorbells, qid, now_ps);
        }
        self.finish_run(subsystem, port, doorbells, now_ps)
    }

    #[inline]
    fn finish_run(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) -> Next {
        self.report_events(subsystem, port, doorbells, now_ps);
        self.arm_shadow_doorbells(port);
        self.post_due(port, now_ps);
        self.announce(port, now_ps);
        if !self.ready.is_empty() && !subsystem.is_full() {
            return Next::Now;
        }
        if self.sanitizes_on(subsystem) {
            return Next::At(now_ps);
        }
        match (self.completions.next_due_ps(), self.admin.deadline_ps()) {
            (None, None) => Next::Idle,
            (Some(due_ps), None) | (None, Some(due_ps)) => Next::At(due_ps),
            (Some(one), Some(other)) => Next::At(one.min(other)),
        }
    }
}

impl Controller {
    /// Goes on with a sanitize operation, whether or not a host has the controller enabled; whether there is more of it. A
    /// slice that fails is tried again; the operation goes on for as long as it takes.
    #[inline]
    fn sanitizes_on(&self, subsystem: &mut Subsystem) -> bool {
        subsystem.is_sanitizing() && !self.put_off.is_on && !matches!(subsystem.sanitize_slice(), Ok(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_queues_take_turns() {
        let mut ready = ReadySet::default();
        for qid in [0, 5, 64, 128] {
            ready.insert(qid);
        }
        let turns: Vec<_> = (0..8).map(|_| ready.next()).collect();
        assert_eq!(turns, [0, 5, 64, 128, 0, 5, 64, 128].map(Some));
        ready.remove(64);
        assert_eq!((ready.next(), ready.next(), ready.next()), (Some(0), Some(5), Some(128)));
    }
}
