//! Queue pairs on leave from the controller, each served by the thread that rings it (decision 0009).
//!
//! Lock order: a lane's cell, then the device. Whoever has the device only tries a cell. A queue pair is moved between
//! controller and cell by whoever has both, so each has a doorbell served in one of two places and never in neither:
//! its thread looks into the cell, and finds the lane there or rings the controller.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use byway_controller::{Gathered, Lane};
use byway_dma::DmaView;
use byway_link::Meter;
use byway_queue::DoorbellIndex;

use crate::cell::Guarded;
use crate::device::{Core, Shared, port};

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
    /// Lanes that are away. Changed only by whoever has the device.
    away: AtomicU32,
    last: Last,
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
    lane: Box<Lane>,
    memory: DmaView,
    meter: Meter,
}

impl Lanes {
    /// Cells for queues 0 to `queues` − 1; none for a device whose queues never leave.
    pub fn new(queues: u16) -> Self {
        let cell = |_| LaneCell {
            state: AtomicI32::new(0),
            gathering: AtomicU32::new(0),
            blocked: AtomicBool::new(false),
            lane: Guarded::new(None),
        };
        Self {
            cells: (0..queues).map(cell).collect(),
            away: AtomicU32::new(0),
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
        self.away.load(Relaxed) > 0
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
            let stays = self.serve_lane(cell, away, eager);
            if !stays {
                self.core.run(|core| self.check_in(core, cell, lane, -PENALTY), |core| core.run_now(self));
            }
            true
        };
        // A lane is a part of the device: without it the rest cannot be had either.
        self.core.or_fail(|| cell.lane.run(serve, |_| {})).unwrap_or(false)
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

    /// Serves a lane; says whether it stays away.
    fn serve_lane(&self, cell: &LaneCell, away: &mut Away, eager: Eager) -> bool {
        let Away { lane, memory, meter } = away;
        let mut port = port(memory, meter, self);
        let gathered = loop {
            let gathered = lane.gather(&mut port, &self.doorbells);
            let waits = eager == Eager::IfLast && gathered == Gathered::All && !self.executed_last(lane);
            if waits || lane.gathered() == 0 {
                break gathered;
            }
            let executed = self.core.run(|core| self.execute(core, lane), |core| core.run_now(self));
            if executed.is_none() {
                break gathered;
            }
            lane.complete(&mut port);
            if gathered != Gathered::Full {
                break gathered;
            }
        };
        cell.gathering.store(lane.gathered() as u32, Relaxed);
        cell.blocked.store(lane.is_blocked(), Relaxed);
        gathered != Gathered::NotMine && !lane.is_broken()
    }

    fn executed_last(&self, lane: &Lane) -> bool {
        self.lanes.last.qid.load(Relaxed) == u32::from(lane.qid())
    }

    fn execute(&self, core: &mut Core, lane: &mut Lane) {
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
        let lane = self.core.run(
            |core| {
                let lane = core.controller.check_out(&core.subsystem, qid)?;
                let mut meter = Meter::new(&self.profile);
                meter.set_ledger(core.meter.is_counting());
                self.lanes.away.store(self.lanes.away.load(Relaxed) + 1, Relaxed);
                Some(Box::new(Away { lane, memory: self.space.view(), meter }))
            },
            |core| core.run_now(self),
        );
        let lane = lane.flatten();
        cell.state.store(if lane.is_some() { AWAY } else { -PENALTY }, Relaxed);
        *to = lane;
    }

    /// Puts a lane back, with everything it gathered done, and its queue's doorbells marked for the controller.
    #[cold]
    fn check_in(&self, core: &mut Core, cell: &LaneCell, from: &mut Option<Box<Away>>, meetings: i32) {
        let Some(away) = from.take() else { return };
        let Away { mut lane, memory, mut meter } = *away;
        lane.execute(&mut core.subsystem);
        lane.complete(&mut port(&memory, &mut meter, self));
        core.meter.absorb(&mut meter);
        self.lanes.away.store(self.lanes.away.load(Relaxed) - 1, Relaxed);
        cell.state.store(meetings, Relaxed);
        cell.gathering.store(0, Relaxed);
        cell.blocked.store(false, Relaxed);
        for doorbell in [DoorbellIndex::submission(lane.qid()), DoorbellIndex::completion(lane.qid())] {
            self.doorbells.mark(doorbell);
        }
        core.controller.check_in(lane);
        core.run_now(self);
    }

    /// Takes every lane in, with the device in hand; says whether all of them are. One that is being served is not.
    pub(crate) fn recall(&self, core: &mut Core) -> bool {
        let away = |cell: &&LaneCell| cell.state.load(Relaxed) == AWAY;
        !self.lanes.any_away()
            || self.lanes.cells.iter().filter(away).fold(true, |all, cell| {
                let taken = cell.lane.try_run(|lane| self.check_in(core, cell, lane, 0));
                all && taken.is_some()
            })
    }
}

/// Waits so long, without giving way.
fn spin_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
