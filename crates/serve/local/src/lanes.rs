//! Queue pairs on leave from the controller, each served by the thread that rings it (decision 0009).
//!
//! Lock order: a lane's cell, then the device. Whoever has the device only tries a cell, and leaves a mark where it is busy:
//! who serves there hands the lane in before it goes. A queue pair is moved between
//! controller and cell by whoever has both, so each has a doorbell served in one of two places and never in neither:
//! its thread looks into the cell, and finds the lane there or rings the controller.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use byway_controller::{Carried, DelegatedQueue, Gathered, MAX_IO_QUEUES};
use byway_dma::DmaView;
use byway_link::Meter;
use byway_queue::DoorbellIndex;

use crate::cell::Guarded;
use crate::core::{Core, port};
use crate::shared::Shared;
use crate::snapshot::ABSORB_NS;

/// A queue leaves once its thread has found the device running so often.
const MEETINGS: i32 = 16;

/// How often more it must, once it had to come back for a command that no lane carries.
const PENALTY: i32 = 240;

/// The queue is on leave.
const AWAY: i32 = i32::MAX;

/// No queue executed last.
const NOBODY: u32 = u32::MAX;

/// Every queue's cell.
#[derive(Debug)]
pub(crate) struct Lanes {
    cells: Box<[LaneCell]>,
    /// Which are away. Changed only by whoever has the device.
    away: QueueBits,
    /// Somebody needs all of them and could not get one: none leaves until they are in. Changed as `away` is.
    wanted: AtomicBool,
    /// What those carry that leave.
    carried: Carried,
    last: Last,
}

/// A bit for each queue, on a cache line that changes seldom.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct QueueBits([AtomicU64; MAX_IO_QUEUES as usize / 64 + 1]);

impl QueueBits {
    /// Whether the bit of queue `qid` is set.
    #[inline]
    pub fn contains(&self, qid: u16) -> bool {
        self.0.get(usize::from(qid / 64)).is_some_and(|word| word.load(Relaxed) & 1 << (qid % 64) != 0)
    }

    /// Whether no bit is set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// Sets the bit of queue `qid`.
    pub fn insert(&self, qid: u16) {
        self.0.get(usize::from(qid / 64)).map(|word| word.fetch_or(1 << (qid % 64), Relaxed));
    }

    fn remove(&self, qid: u16) {
        self.0.get(usize::from(qid / 64)).map(|word| word.fetch_and(!(1 << (qid % 64)), Relaxed));
    }

    /// Clears every bit, and calls back for each that was set.
    pub fn take(&self, mut each: impl FnMut(u16)) {
        for (at, word) in (0..).zip(&self.0) {
            let mut bits = word.swap(0, Relaxed);
            while bits != 0 {
                each(at * 64 + bits.trailing_zeros() as u16);
                bits &= bits - 1;
            }
        }
    }
}

/// Fewer gathered commands than this do not pay for bringing over what the engine writes.
const FEW: u32 = 4;

/// How long a thread with few commands looks whether another is executing one after the other, and how long it then
/// leaves the engine to it.
const LOOK: Duration = Duration::from_nanos(500);
const TURN: Duration = Duration::from_micros(10);

/// The queue that executed last: what the engine writes is near its thread. Written by whoever has the device.
#[derive(Debug)]
#[repr(align(128))]
struct Last {
    qid: AtomicU32,
    executions: AtomicU32,
}

/// Where a queue's lane stands when it is away, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct LaneCell {
    /// Meetings so far, or [`AWAY`]. A hint: what is in the cell counts.
    state: AtomicI32,
    /// Commands that were gathered and wait for more.
    gathering: AtomicU32,
    /// A command waits for room in the completion queue.
    blocked: AtomicBool,
    lane: Guarded<Option<Box<Away>>>,
}

/// A lane, and what its thread needs to serve it.
#[derive(Debug)]
struct Away {
    lane: Box<DelegatedQueue>,
    memory: DmaView,
    meter: Meter,
    /// When what it counted was handed in, where somebody wants to know.
    absorbed_ns: u64,
}

impl Lanes {
    /// Cells for queues 0 to `queues` − 1, whose lanes carry so much; none for a device whose queues never leave.
    pub fn new(queues: u16, carried: Carried) -> Self {
        let cell = |_| LaneCell {
            state: AtomicI32::new(0),
            gathering: AtomicU32::new(0),
            blocked: AtomicBool::new(false),
            lane: Guarded::new(None),
        };
        Self {
            cells: (0..queues).map(cell).collect(),
            away: QueueBits::default(),
            wanted: AtomicBool::new(false),
            carried,
            last: Last { qid: AtomicU32::new(NOBODY), executions: AtomicU32::new(0) },
        }
    }

    /// The cell of queue `qid`, if its lane may leave.
    #[inline]
    pub fn cell(&self, qid: u16) -> Option<&LaneCell> {
        self.cells.get(usize::from(qid))
    }

    /// Whether any lane is away.
    #[inline]
    pub fn any_away(&self) -> bool {
        !self.away.is_empty()
    }

    /// Whether queue `qid` is in the controller.
    #[inline]
    pub fn is_in(&self, qid: u16) -> bool {
        !self.away.contains(qid)
    }
}

impl LaneCell {
    /// Whether the queue is on leave, or should be.
    #[inline]
    pub fn leaves(&self) -> bool {
        self.state.load(Relaxed) >= MEETINGS
    }

    /// Notes that the queue's thread found the device running.
    pub fn meet(&self) {
        self.state.store(self.state.load(Relaxed).saturating_add(1), Relaxed);
    }

    /// Whether commands were gathered and wait for more.
    #[inline]
    pub fn is_gathering(&self) -> bool {
        self.gathering.load(Relaxed) > 0
    }

    /// Whether a command waits for room in the completion queue.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Relaxed)
    }
}

/// What becomes of commands that were gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eager {
    /// They are executed now.
    Always,
    /// They are executed now if the queue executed last, or so many have come that waiting for more gains nothing.
    IfLast,
}

impl Shared {
    /// Serves queue `qid` in its lane, which leaves the controller for that if it can; whether it did.
    #[inline(never)]
    pub(crate) fn serve_away(&self, qid: u16, eager: Eager) -> bool {
        let Some(cell) = self.lanes.cell(qid) else { return false };
        let serve = |lane: &mut Option<Box<Away>>| {
            if lane.is_none() {
                self.check_out(cell, lane, qid);
            }
            let Some(away) = lane else { return false };
            if !self.serve_lane(cell, away, eager).stays {
                self.hand_in(cell, lane, -PENALTY);
            }
            true
        };
        self.with_lane(cell, serve).unwrap_or(false)
    }

    /// Does `work` with a cell in hand, and hands its lane in where somebody wants it meanwhile.
    fn with_lane<R>(&self, cell: &LaneCell, work: impl FnOnce(&mut Option<Box<Away>>) -> R) -> Option<R> {
        let marked = |lane: &mut Option<Box<Away>>| {
            if self.lanes.wanted.load(Relaxed) {
                self.hand_in(cell, lane, 0);
            }
        };
        // A lane is a part of the device: without it the rest cannot be had either.
        self.core.or_fail(|| cell.lane.run(work, marked))
    }

    /// Puts a lane back, and has the controller serve what is left. Waits for who has the device.
    #[cold]
    fn hand_in(&self, cell: &LaneCell, lane: &mut Option<Box<Away>>, meetings: i32) {
        if lane.is_none() {
            return;
        }
        let put_back = |core: &mut Core| {
            self.check_in(core, cell, lane, meetings);
            core.run_now(self);
        };
        self.core.run(put_back, |core| core.run_now(self));
    }

    /// Has queue `qid` leave the controller, for a thread that will [tend](Self::tend) it; whether it did.
    pub(crate) fn take_away(&self, qid: u16) -> bool {
        let Some(cell) = self.lanes.cell(qid) else { return false };
        let take = |lane: &mut Option<Box<Away>>| {
            if lane.is_none() {
                self.check_out(cell, lane, qid);
            }
            lane.is_some()
        };
        self.with_lane(cell, take).unwrap_or(false)
    }

    /// Looks at the doorbells of queue `qid`, and serves what was rung.
    pub(crate) fn tend(&self, qid: u16) -> Tended {
        let Some(cell) = self.lanes.cell(qid) else { return Tended::Gone };
        let look = |lane: &mut Option<Box<Away>>| {
            let Some(away) = lane else { return Tended::Gone };
            self.doorbells.take_shared_of(qid, |index| self.host_meter.doorbell(index.place()));
            let Service { executed, stays } = self.serve_lane(cell, away, Eager::Always);
            if !stays {
                self.hand_in(cell, lane, -PENALTY);
                return Tended::Gone;
            }
            if executed { Tended::Busy } else { Tended::Idle }
        };
        self.with_lane(cell, look).unwrap_or(Tended::Gone)
    }

    /// Puts queue `qid` back, as the thread that tends it goes to rest.
    pub(crate) fn put_back(&self, qid: u16) {
        if let Some(cell) = self.lanes.cell(qid) {
            self.with_lane(cell, |lane| self.hand_in(cell, lane, 0));
        }
    }

    /// Executes what queue `qid` has gathered, as nothing more will come.
    #[cold]
    pub(crate) fn execute_gathered(&self, qid: u16) {
        let Some(cell) = self.lanes.cell(qid) else { return };
        if cell.gathering.load(Relaxed) < FEW {
            self.give_way();
        }
        self.serve_away(qid, Eager::Always);
    }

    /// Threads that each wait for one command at a time gain nothing by taking the engine from each other for each: it
    /// takes longer to come over than to do its work. One that is at it is left at it for a while.
    fn give_way(&self) {
        let executions = || self.lanes.last.executions.load(Relaxed);
        let before = executions();
        spin_for(LOOK);
        if executions() != before {
            spin_for(TURN);
        }
    }

    /// Serves a lane.
    fn serve_lane(&self, cell: &LaneCell, away: &mut Away, eager: Eager) -> Service {
        let Away { lane, memory, meter, absorbed_ns } = away;
        let mut port = port(memory, meter, self);
        let mut executed = false;
        let gathered = loop {
            let gathered = lane.gather(&mut port, &self.doorbells);
            let waits = eager == Eager::IfLast && gathered == Gathered::All && !self.executed_last(lane);
            if waits || lane.gathered() == 0 {
                break gathered;
            }
            let since_ns = self.counting_since_ns();
            let execute = |core: &mut Core| {
                core.counting(self, since_ns, |core| self.execute(core, lane));
                if self.is_counting && since_ns.saturating_sub(*absorbed_ns) > ABSORB_NS {
                    *absorbed_ns = since_ns;
                    core.meter.absorb(port.meter);
                }
            };
            if self.core.run(execute, |core| core.run_now(self)).is_none() {
                break gathered;
            }
            executed = true;
            lane.complete(&mut port);
            // A host can have more there for as long as it likes.
            if gathered != Gathered::Full || self.lanes.wanted.load(Relaxed) {
                break gathered;
            }
        };
        cell.gathering.store(lane.gathered() as u32, Relaxed);
        cell.blocked.store(lane.is_blocked(), Relaxed);
        Service { executed, stays: gathered != Gathered::NotMine && !lane.is_broken() }
    }

    fn executed_last(&self, lane: &DelegatedQueue) -> bool {
        self.lanes.last.qid.load(Relaxed) == u32::from(lane.qid())
    }

    fn execute(&self, core: &mut Core, lane: &mut DelegatedQueue) {
        let last = &self.lanes.last;
        if !self.executed_last(lane) {
            last.qid.store(u32::from(lane.qid()), Relaxed);
            lane.take_over(&core.subsystem);
        }
        last.executions.store(last.executions.load(Relaxed).wrapping_add(1), Relaxed);
        lane.execute(&mut core.subsystem);
    }

    #[cold]
    fn check_out(&self, cell: &LaneCell, to: &mut Option<Box<Away>>, qid: u16) {
        let take = |core: &mut Core| {
            if self.lanes.wanted.load(Relaxed) {
                cell.state.store(0, Relaxed);
                return None;
            }
            let lane = core.controller.delegate(&core.subsystem, qid, self.lanes.carried);
            // One that was deleted meanwhile is no word on the next of its number.
            let stays = if core.controller.has_queue(qid) { -PENALTY } else { 0 };
            cell.state.store(if lane.is_some() { AWAY } else { stays }, Relaxed);
            let lane = lane?;
            let mut meter = Meter::new(&self.profile);
            meter.set_ledger(core.meter.is_counting());
            self.lanes.away.insert(qid);
            Some(Box::new(Away { lane, memory: self.space.view(), meter, absorbed_ns: 0 }))
        };
        *to = self.core.run(take, |core| core.run_now(self)).flatten();
    }

    /// Puts a lane back, with everything it gathered done, and its queue's doorbells marked for the controller, which is to
    /// be run then.
    #[cold]
    fn check_in(&self, core: &mut Core, cell: &LaneCell, from: &mut Option<Box<Away>>, meetings: i32) {
        let Some(away) = from.take() else { return };
        let Away { mut lane, memory, mut meter, .. } = *away;
        core.counting(self, self.counting_since_ns(), |core| lane.execute(&mut core.subsystem));
        lane.complete(&mut port(&memory, &mut meter, self));
        core.meter.absorb(&mut meter);
        self.lanes.away.remove(lane.qid());
        cell.state.store(meetings, Relaxed);
        cell.gathering.store(0, Relaxed);
        cell.blocked.store(false, Relaxed);
        for doorbell in [DoorbellIndex::submission(lane.qid()), DoorbellIndex::completion(lane.qid())] {
            self.doorbells.mark_dirty(doorbell);
        }
        core.controller.reclaim(lane);
    }

    /// Takes every lane in, with the device in hand; says whether all of them are. One that is being served is not: it is
    /// handed in by who serves it, who then runs the controller.
    pub(crate) fn recall(&self, core: &mut Core) -> bool {
        if !self.lanes.any_away() && !self.lanes.wanted.load(Relaxed) {
            return true;
        }
        // Before the marks: who finds one finds this.
        self.lanes.wanted.store(true, Relaxed);
        let is_away = |cell: &&LaneCell| cell.state.load(Relaxed) == AWAY;
        for cell in self.lanes.cells.iter().filter(is_away) {
            cell.lane.run_or_leave_word(|| {}, |lane, _| self.check_in(core, cell, lane, 0));
        }
        let any = self.lanes.any_away();
        self.lanes.wanted.store(any, Relaxed);
        !any
    }
}

/// What came of serving a lane.
struct Service {
    /// Anything was done.
    executed: bool,
    /// It stays away.
    stays: bool,
}

/// What came of a look at a queue on leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tended {
    /// It is in the controller.
    Gone,
    /// Nothing was rung.
    Idle,
    /// Commands were done.
    Busy,
}

/// Waits so long, without giving way.
fn spin_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
