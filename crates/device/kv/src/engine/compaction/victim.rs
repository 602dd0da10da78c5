//! Which segment is emptied next.

use crate::engine::KvEngine;
use crate::value_log::segment::Use;

/// Times that a segment is tried before it is left until the engine is opened anew.
const TRIES: u32 = 3;

/// A segment that could not be emptied.
pub(super) struct Left {
    pub(super) segment: u32,
    tries: u32,
    /// It is tried again once a checkpoint has passed this sequence number.
    seq: u64,
}

impl KvEngine {
    /// The segment that is worth most, of those whose records are all on flash and in the index there: what emptying it gives,
    /// weighed against what that costs and how long it has been there (Rosenblum and Ousterhout, 1992). On records that
    /// are overwritten at random it takes segments nearly in their order, and so frees flash blocks that neighbours share.
    /// Where room is short, the emptiest.
    pub(super) fn choose_victim(&mut self) -> Option<u32> {
        self.log.count_walk();
        let segments = self.log.segments();
        // While a flush may reveal emptier ones, it does not pay to move nearly everything.
        let parts = if self.is_little_known() || self.index.is_flushing() { 56 } else { 63 };
        let most_alive = self.log.layout().segment_bytes() as i64 * parts / 64;
        // A victim that gives little costs a large share of few segments, or a put that waits, more than it is good for.
        let wants_emptiest =
            self.log.layout().has_few_segments() || segments.free_count() <= self.log.floor();
        let full = self.log.layout().segment_bytes() as f64;
        let mut best = None;
        for segment in 0..segments.count() as u32 {
            let alive = segments.alive_bytes(segment as usize);
            if alive > most_alive {
                continue;
            }
            let worth = match wants_emptiest {
                true => -alive as f64,
                false => {
                    let alive = alive.max(0) as f64;
                    (segments.age(segment) + 1) as f64 * (full - alive) / (full + alive)
                }
            };
            // Most are worth less than one before: the rest is asked of few.
            if best.is_none_or(|(most, _)| worth > most) && self.may_be_taken(segment) {
                best = Some((worth, segment));
            }
        }
        best.map(|(_, segment)| segment)
    }

    fn may_be_taken(&self, segment: u32) -> bool {
        let used = self.log.segments().use_of(u64::from(segment));
        used.is_some_and(|used| self.may_be_victim(segment, used)) && !self.index.is_leaving(segment)
    }

    pub(super) fn may_be_victim(&self, segment: u32, used: Use) -> bool {
        let Use::Log { stream, ordinal } = used else { return false };
        (ordinal + 1) << self.log.layout().segment_shift <= self.index.behind(stream, &self.log)
            && !self.is_left(segment)
    }

    fn is_left(&self, segment: u32) -> bool {
        let checkpoint = self.index.manifest().seq;
        let left = self.compaction.left.iter().find(|left| left.segment == segment);
        left.is_some_and(|left| left.tries >= TRIES || left.seq > checkpoint)
    }

    /// Leaves a segment for now: another checkpoint may show that nothing in it is alive.
    pub(super) fn leave(&mut self, segment: u32) {
        let seq = self.next_seq.get();
        match self.compaction.left.iter_mut().find(|left| left.segment == segment) {
            Some(left) => (left.tries, left.seq) = (left.tries + 1, seq),
            // The second time nothing is taken from hints.
            None => self.compaction.left.push(Left { segment, tries: 1, seq: 0 }),
        }
    }

    /// Forgets what is known of a segment.
    pub(super) fn forget_left(&mut self, segment: u32) {
        self.compaction.left.retain(|left| left.segment != segment);
    }

    /// Leaves a segment with nothing in it to the next checkpoint.
    pub(super) fn wait_for_checkpoint(&mut self, segment: u32) {
        let checkpoint = self.index.manifest().seq;
        self.compaction.left.retain(|left| left.tries > 0 || left.seq > checkpoint);
        self.compaction.left.push(Left { segment, tries: 0, seq: self.next_seq.last() });
    }

    /// Whether a segment was tried before.
    pub(super) fn is_tried(&self, segment: u32) -> bool {
        self.compaction.left.iter().any(|left| left.segment == segment && left.tries > 0)
    }

    /// Before a put is refused, everything is tried once more: once for each checkpoint.
    pub(super) fn try_left_again(&mut self) -> bool {
        let seq = self.index.manifest().seq;
        if self.compaction.left.is_empty() || self.compaction.tried_again_at == Some(seq) {
            return false;
        }
        self.compaction.tried_again_at = Some(seq);
        for left in self.compaction.left.iter_mut().filter(|left| left.tries > 0) {
            (left.tries, left.seq) = (1, 0);
        }
        true
    }
}
