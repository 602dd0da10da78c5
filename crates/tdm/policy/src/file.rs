//! State of one file: its level, a move in progress, orders, and what was measured.

use crate::backoff::Backoff;
use crate::config::Config;
use crate::estimate::CostEstimate;
use crate::history::{History, Stay};
use crate::hysteresis::Hysteresis;
use crate::level::Level;
use crate::order::Order;
use crate::reason::Reason;
use crate::room::Room;
use crate::sample::Sample;
use crate::scales::{Scaled, Scales};
use crate::stats::FileStats;

/// Least stay after a move.
const STAY_NS: u64 = 2_000_000_000;

/// Least time out after an eviction by hand.
const EVICTED_NS: u64 = 15_000_000_000;

/// A file at its level.
#[derive(Debug, Clone, Copy)]
struct Placement {
    level: Level,
    room_bytes: u64,
    since_ns: u64,
    /// Until then it moves by order only.
    settled_ns: u64,
    why: Reason,
    /// Bytes that it asked for without getting them.
    refused_bytes: Option<u64>,
}

/// A move that was decided and has not ended.
#[derive(Debug, Clone, Copy)]
struct Move {
    to: Level,
    room_bytes: u64,
    why: Reason,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Resting(Placement),
    /// Served at its old level until the move ends.
    Moving(Placement, Move),
}

/// A file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    state: State,
    /// Reason why it does not move.
    held: Option<Reason>,
    history: History,
    /// Order by hand.
    order: Option<Order>,
    /// Order of its path.
    rule: Option<Order>,
    stats: FileStats,
    hysteresis: Hysteresis,
    bars: [Backoff; 3],
}

impl File {
    /// A file that was just opened, with counters at zero.
    pub(crate) fn opened(now_ns: u64, rule: Option<Order>) -> Self {
        Self::new(now_ns, FileStats::opened(now_ns), rule)
    }

    /// A file that an earlier daemon moved to that level.
    pub(crate) fn adopted(now_ns: u64, level: Level, room_bytes: u64, rule: Option<Order>) -> Self {
        let mut file = Self::new(now_ns, FileStats::default(), rule);
        if level > Level::Pass {
            let settled_ns = now_ns.saturating_add(STAY_NS);
            let at = Placement { level, room_bytes, settled_ns, why: Reason::Adopted, ..*file.placement() };
            file.state = State::Resting(at);
        }
        file
    }

    fn new(now_ns: u64, stats: FileStats, rule: Option<Order>) -> Self {
        let at = Placement {
            level: Level::Pass,
            room_bytes: 0,
            since_ns: now_ns,
            settled_ns: 0,
            why: Reason::New,
            refused_bytes: None,
        };
        Self {
            state: State::Resting(at),
            held: None,
            history: History::default(),
            order: None,
            rule,
            stats,
            hysteresis: Hysteresis::begin(now_ns),
            bars: Default::default(),
        }
    }

    const fn placement(&self) -> &Placement {
        let (State::Resting(at) | State::Moving(at, _)) = &self.state;
        at
    }

    const fn placement_mut(&mut self) -> &mut Placement {
        let (State::Resting(at) | State::Moving(at, _)) = &mut self.state;
        at
    }

    /// Its level; the old one during a move.
    pub(crate) const fn level(&self) -> Level {
        self.placement().level
    }

    /// Reason of its level.
    pub(crate) const fn why(&self) -> Reason {
        self.placement().why
    }

    /// Bytes of device memory at its level.
    pub(crate) const fn room_bytes(&self) -> u64 {
        self.placement().room_bytes
    }

    /// Nanoseconds at its level.
    pub(crate) const fn for_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.placement().since_ns)
    }

    /// Nanoseconds left of the least stay.
    pub(crate) const fn stay_left_ns(&self, now_ns: u64) -> u64 {
        self.placement().settled_ns.saturating_sub(now_ns)
    }

    /// Bytes that it asked for without getting them.
    pub(crate) const fn refused_bytes(&self) -> Option<u64> {
        self.placement().refused_bytes
    }

    /// Level to which it is being moved.
    pub(crate) const fn moving_to(&self) -> Option<Level> {
        match self.state {
            State::Resting(_) => None,
            State::Moving(_, to) => Some(to.to),
        }
    }

    /// Reason why it does not move.
    pub(crate) const fn held(&self) -> Option<Reason> {
        self.held
    }

    /// Sets the reason why it does not move.
    pub(crate) const fn hold(&mut self, why: Reason) {
        self.held = Some(why);
    }

    /// Earlier levels.
    pub(crate) const fn history(&self) -> &History {
        &self.history
    }

    /// Its statistics.
    pub(crate) const fn stats(&self) -> &FileStats {
        &self.stats
    }

    /// Consecutive windows in which levels paid or lost.
    pub(crate) const fn hysteresis(&self) -> &Hysteresis {
        &self.hysteresis
    }

    /// Backoff of a level.
    pub(crate) const fn bar(&self, level: Level) -> &Backoff {
        &self.bars[level.index()]
    }

    /// Bytes that it takes of a capacity, also while moving.
    pub(crate) fn uses_bytes(&self, room: Room) -> u64 {
        let of = |level, bytes| if Room::of(level) == Some(room) { bytes } else { 0 };
        let here = of(self.level(), self.room_bytes());
        match self.state {
            State::Resting(_) => here,
            State::Moving(_, to) => here.saturating_add(of(to.to, to.room_bytes)),
        }
    }

    /// Capacity and bytes that it frees when it leaves its level.
    pub(crate) fn frees(&self) -> Option<(Room, u64)> {
        Some((Room::of(self.level())?, self.room_bytes()))
    }

    /// Capacity and bytes that a move in progress frees.
    pub(crate) fn freed_by_move(&self) -> Option<(Room, u64)> {
        self.moving_to().and_then(|_| self.frees())
    }

    /// Bytes moved when it leaves its level.
    pub(crate) fn drained_bytes(&self) -> u64 {
        if self.level() == Level::Dax { self.room_bytes() } else { 0 }
    }

    /// Whether it may be displaced from a capacity.
    pub(crate) fn may_be_displaced(&self, now_ns: u64, room: Room) -> bool {
        Room::of(self.level()) == Some(room)
            && self.moving_to().is_none()
            && !self.is_pinned()
            && self.stay_left_ns(now_ns) == 0
            && !self.stats.is_being_written()
    }

    /// The order in force, and its reason: one by hand precedes a rule.
    pub(crate) fn ordered(&self) -> Option<(Order, Reason)> {
        let by_hand = self.order.map(|order| (order, Reason::Ordered(order)));
        by_hand.or_else(|| self.rule.map(|order| (order, Reason::Ruled(order))))
    }

    fn is_pinned(&self) -> bool {
        matches!(self.ordered(), Some((Order::Pin(_), _)))
    }

    /// Changes the order of its path.
    pub(crate) const fn set_rule(&mut self, rule: Option<Order>) {
        self.rule = rule;
    }

    /// Gives or ends an order by hand. An eviction from PASS has nothing to do.
    pub(crate) fn set_order(&mut self, order: Option<Order>) {
        let is_at_pass = self.level() == Level::Pass && self.moving_to().is_none();
        self.order = order.filter(|order| *order != Order::Evict || !is_at_pass);
    }

    /// Adds a sample, of which all files' `scales` learn as well.
    pub(crate) fn observe(&mut self, now_ns: u64, sample: &Sample, config: &Config, scales: &mut Scales) {
        let level = self.moving_to().is_none().then_some(self.level());
        self.stats.observe(now_ns, sample, level, (&config.costs, scales));
        let estimate = self.estimate(config, scales);
        self.hysteresis.evaluate(now_ns, self.level(), &estimate);
    }

    /// Costs of its calls, measured where they were.
    pub(crate) const fn costs<'a>(&'a self, config: &'a Config, all: &'a Scales) -> Scaled<'a> {
        Scaled { costs: &config.costs, own: self.stats.scales(), all }
    }

    /// Savings of each level.
    pub(crate) fn estimate(&self, config: &Config, all: &Scales) -> CostEstimate {
        let costs = self.costs(config, all);
        CostEstimate::new(config, &costs, self.stats.averages(), self.stats.sample())
    }

    /// Changes its bytes at its level, if `free_bytes` suffice.
    pub(crate) const fn resize(&mut self, room_bytes: u64, free_bytes: u64) -> bool {
        let at = self.placement_mut();
        if room_bytes.saturating_sub(at.room_bytes) > free_bytes {
            at.refused_bytes = Some(room_bytes);
            return false;
        }
        at.room_bytes = room_bytes;
        at.refused_bytes = None;
        true
    }

    /// A move begins.
    pub(crate) fn begin(&mut self, now_ns: u64, to: Level, room_bytes: u64, why: Reason) {
        if matches!(why, Reason::CostsMore { .. } | Reason::SlowTail { .. }) {
            self.bar_level(now_ns);
        }
        self.state = State::Moving(*self.placement(), Move { to, room_bytes, why });
        self.held = None;
    }

    /// The move has ended.
    pub(crate) fn arrive(&mut self, now_ns: u64) {
        let State::Moving(_, to) = self.state else { return };
        let evicted = self.order == Some(Order::Evict) && to.to == Level::Pass;
        if evicted {
            self.order = None;
        }
        self.settle(now_ns, to, if evicted { EVICTED_NS } else { STAY_NS });
    }

    /// The move failed: it stays.
    pub(crate) fn fail(&mut self, now_ns: u64) {
        let State::Moving(_, to) = self.state else { return };
        self.withdraw();
        self.bars[to.to.index()].strike(now_ns, 0);
        self.held = Some(Reason::MoveFailed { to: to.to });
    }

    /// The move was not begun: it stays.
    pub(crate) const fn withdraw(&mut self) {
        self.state = State::Resting(*self.placement());
    }

    /// It was demoted to PASS, by a move or something else.
    pub(crate) fn fall(&mut self, now_ns: u64, why: Reason) {
        let below = Move { to: Level::Pass, room_bytes: 0, why };
        match self.state {
            State::Moving(_, to) if to.to == Level::Pass => self.arrive(now_ns),
            // A demotion reaches PASS first.
            State::Moving(at, to) if to.to < at.level => {
                self.settle(now_ns, Move { why: to.why, ..below }, 0)
            }
            _ => {
                if self.level() == Level::Dax {
                    self.bar_level(now_ns);
                }
                self.settle(now_ns, below, 0);
            }
        }
    }

    /// Its level failed or lost.
    fn bar_level(&mut self, now_ns: u64) {
        self.bars[self.level().index()].strike(now_ns, self.for_ns(now_ns));
    }

    fn settle(&mut self, now_ns: u64, Move { to: level, room_bytes, why }: Move, stay_ns: u64) {
        if level != self.level() {
            self.history.add(Stay { level: self.level(), for_ns: self.for_ns(now_ns), why: self.why() });
        }
        let settled_ns = now_ns.saturating_add(stay_ns);
        let at = Placement { level, room_bytes, since_ns: now_ns, settled_ns, why, refused_bytes: None };
        self.state = State::Resting(at);
        self.stats.moved();
        self.hysteresis = Hysteresis::begin(now_ns);
    }
}
