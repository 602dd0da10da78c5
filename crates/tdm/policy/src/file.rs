//! State of one file.

use crate::backoff::Backoff;
use crate::history::{History, Stay};
use crate::hysteresis::Hysteresis;
use crate::level::Level;
use crate::order::Order;
use crate::reason::Reason;
use crate::room::Room;
use crate::stats::FileStats;

/// Least stay after a move.
pub(crate) const STAY_NS: u64 = 2_000_000_000;

/// Least time out after an eviction by hand.
const EVICTED_NS: u64 = 15_000_000_000;

/// A move that was decided and has not ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    pub(crate) to: Level,
    pub(crate) room_bytes: u64,
    pub(crate) why: Reason,
}

/// A file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) level: Level,
    pub(crate) room_bytes: u64,
    /// Since when it is at its level.
    pub(crate) since_ns: u64,
    /// Until then it moves by order only.
    settled_ns: u64,
    /// Reason of its level.
    pub(crate) why: Reason,
    /// Reason why it does not move.
    pub(crate) held: Option<Reason>,
    pub(crate) history: History,
    pub(crate) moving: Option<Move>,
    pub(crate) order: Option<Order>,
    pub(crate) rule: Option<Order>,
    /// Bytes that it asked for without getting them.
    pub(crate) refused_bytes: Option<u64>,
    pub(crate) stats: FileStats,
    pub(crate) hysteresis: Hysteresis,
    bars: [Backoff; 3],
}

impl File {
    pub(crate) fn new(now_ns: u64, stats: FileStats, rule: Option<Order>) -> Self {
        Self {
            level: Level::Pass,
            room_bytes: 0,
            since_ns: now_ns,
            settled_ns: 0,
            why: Reason::New,
            held: None,
            history: History::default(),
            moving: None,
            order: None,
            rule,
            refused_bytes: None,
            stats,
            hysteresis: Hysteresis::begin(now_ns),
            bars: Default::default(),
        }
    }

    /// A file that an earlier daemon moved to that level.
    pub(crate) fn adopted(now_ns: u64, level: Level, room_bytes: u64, rule: Option<Order>) -> Self {
        let there = Self::new(now_ns, FileStats::default(), rule);
        if level == Level::Pass {
            return there;
        }
        Self { level, room_bytes, why: Reason::Adopted, settled_ns: now_ns.saturating_add(STAY_NS), ..there }
    }

    /// Bytes that it takes of a capacity, also while moving.
    pub(crate) fn uses_bytes(&self, room: Room) -> u64 {
        let here = if Room::of(self.level) == Some(room) { self.room_bytes } else { 0 };
        let there = self.moving.filter(|to| Room::of(to.to) == Some(room)).map_or(0, |to| to.room_bytes);
        here.saturating_add(there)
    }

    /// The order in force, and its reason: one by hand precedes a rule.
    pub(crate) fn ordered(&self) -> Option<(Order, Reason)> {
        let by_hand = self.order.map(|order| (order, Reason::Ordered(order)));
        by_hand.or_else(|| self.rule.map(|order| (order, Reason::Ruled(order))))
    }

    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self.ordered(), Some((Order::Pin(_), _)))
    }

    /// Nanoseconds left of the least stay.
    pub(crate) const fn stay_left_ns(&self, now_ns: u64) -> u64 {
        self.settled_ns.saturating_sub(now_ns)
    }

    /// Backoff of a level.
    pub(crate) const fn bar(&self, level: Level) -> &Backoff {
        &self.bars[level.index()]
    }

    pub(crate) fn begin(&mut self, now_ns: u64, to: Move) {
        if matches!(to.why, Reason::CostsMore { .. } | Reason::SlowTail { .. }) {
            self.bars[self.level.index()].strike(now_ns, now_ns.saturating_sub(self.since_ns));
        }
        self.moving = Some(to);
        self.held = None;
    }

    /// The move has ended.
    pub(crate) fn arrive(&mut self, now_ns: u64) {
        let Some(to) = self.moving.take() else { return };
        let evicted = self.order == Some(Order::Evict) && to.to == Level::Pass;
        if evicted {
            self.order = None;
        }
        self.settle(now_ns, to);
        self.settled_ns = now_ns.saturating_add(if evicted { EVICTED_NS } else { STAY_NS });
    }

    /// A demotion has reached PASS first.
    pub(crate) fn stop_over(&mut self, now_ns: u64, to: Move) {
        self.moving = None;
        self.settle(now_ns, Move { to: Level::Pass, room_bytes: 0, why: to.why });
        self.settled_ns = now_ns;
    }

    /// It was demoted by something else than a decision.
    pub(crate) fn fall(&mut self, now_ns: u64, why: Reason) {
        self.moving = None;
        if self.level == Level::Dax {
            self.bars[Level::Dax.index()].strike(now_ns, now_ns.saturating_sub(self.since_ns));
        }
        self.settle(now_ns, Move { to: Level::Pass, room_bytes: 0, why });
        self.settled_ns = now_ns;
    }

    fn settle(&mut self, now_ns: u64, at: Move) {
        if at.to != self.level {
            let for_ns = now_ns.saturating_sub(self.since_ns);
            self.history.add(Stay { level: self.level, for_ns, why: self.why });
        }
        (self.level, self.room_bytes, self.why) = (at.to, at.room_bytes, at.why);
        self.since_ns = now_ns;
        self.refused_bytes = None;
        self.stats.moved();
        self.hysteresis = Hysteresis::begin(now_ns);
    }

    /// The move failed: it stays.
    pub(crate) fn fail(&mut self, now_ns: u64) {
        let Some(to) = self.moving.take() else { return };
        self.bars[to.to.index()].strike(now_ns, 0);
        self.held = Some(Reason::MoveFailed { to: to.to });
    }
}
