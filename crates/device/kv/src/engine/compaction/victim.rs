//! Which segment is emptied next.

use std::collections::BTreeMap;

use crate::engine::KvEngine;
use crate::value_log::segment::Use;

/// Segments of a stream that are emptied one after another.
const GROUP_SEGMENTS: u64 = 16;
/// Parts of a segment, and how many of them may be alive in a victim.
const PARTS: i64 = 64;
const MOST_PARTS: i64 = 63;
const LEARNING_PARTS: i64 = 56;
/// The same ahead of puts, which may overwrite or delete more of it before they need room.
const AHEAD_PARTS: i64 = 48;

/// Times that a segment is tried before it is left until the engine is opened anew.
const TRIES: u32 = 3;

/// A segment that could not be emptied.
pub(super) struct Left {
    pub(super) segment: u32,
    tries: u32,
    /// It is tried again once a checkpoint has passed this sequence number.
    seq: u64,
}

/// Neighbours of a stream, chosen together: those whose records are all on flash and in the index there. Their pages lie in the same
/// flash blocks, which hold nothing once all of them are emptied: then garbage collection has nothing to move. Where a segment has few records,
/// chance alone makes one of the neighbours much emptier than the rest, so one by one they would be chosen here and there.
#[derive(Default)]
struct Group {
    /// Ordinals and segments.
    segments: Vec<(u64, u32)>,
    alive: i64,
    age: u64,
}

impl Group {
    fn add(&mut self, ordinal: u64, segment: u32, alive: i64, age: u64) {
        self.segments.push((ordinal, segment));
        self.alive += alive;
        self.age = self.age.max(age);
    }

    fn count(&self) -> i64 {
        self.segments.len() as i64
    }

    /// What emptying it gives, weighed against what that costs and how long it has been there (Rosenblum and Ousterhout, 1992).
    /// On records that are overwritten at random it takes groups nearly in their order.
    fn worth(&self, full: i64) -> f64 {
        let (all, alive) = ((full * self.count()) as f64, self.alive as f64);
        (self.age + 1) as f64 * (all - alive) / (all + alive)
    }

    fn into_segments(mut self) -> Vec<u32> {
        self.segments.sort_unstable_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        self.segments.into_iter().map(|(_, segment)| segment).collect()
    }
}

impl KvEngine {
    /// The segment to empty next. The next of the [group](Group) at hand; where room is short, the emptiest of all.
    pub(super) fn choose_victim(&mut self) -> Option<u32> {
        // A victim that gives little costs a large share of few segments, or a put that waits, more than it is good for.
        let wants_emptiest =
            self.log.layout().has_few_segments() || self.log.segments().free_count() <= self.log.floor();
        if wants_emptiest {
            return self.emptiest();
        }
        self.next_of_group().or_else(|| {
            self.compaction.group = self.best_group();
            self.next_of_group()
        })
    }

    /// Bytes alive in a victim at most, for each segment of those chosen together.
    fn most_alive_bytes(&self) -> i64 {
        // While a flush may reveal emptier ones, it does not pay to move nearly everything.
        let may_learn = self.is_little_known() || self.index.is_flushing();
        let parts = match self.compaction.is_ahead {
            true => AHEAD_PARTS,
            false if may_learn => LEARNING_PARTS,
            false => MOST_PARTS,
        };
        self.log.layout().segment_bytes() as i64 * parts / PARTS
    }

    fn emptiest(&mut self) -> Option<u32> {
        self.log.count_walk();
        let (segments, most_alive) = (self.log.segments(), self.most_alive_bytes());
        let mut best = None;
        for segment in 0..segments.count() as u32 {
            let alive = segments.alive_bytes(segment as usize);
            // Most are not below the best so far: the rest is asked of few.
            if alive <= most_alive
                && best.is_none_or(|(least, _)| alive < least)
                && self.may_be_taken(segment)
            {
                best = Some((alive, segment));
            }
        }
        best.map(|(_, segment)| segment)
    }

    fn next_of_group(&mut self) -> Option<u32> {
        while let Some(segment) = self.compaction.group.pop() {
            let alive = self.log.segments().alive_bytes(segment as usize);
            let is_worth_it = alive <= self.log.layout().segment_bytes() as i64 * MOST_PARTS / PARTS;
            if is_worth_it && self.may_be_taken(segment) {
                return Some(segment);
            }
        }
        None
    }

    /// The segments of the group that is worth most, the last of its stream first. None where too much of each is alive.
    fn best_group(&mut self) -> Vec<u32> {
        self.log.count_walk();
        let (segments, full) = (self.log.segments(), self.log.layout().segment_bytes() as i64);
        let mut groups: BTreeMap<(u8, u64), Group> = BTreeMap::new();
        for segment in 0..segments.count() as u32 {
            let Some(Use::Log { stream, ordinal }) = segments.use_of(u64::from(segment)) else { continue };
            if self.may_be_taken(segment) {
                let alive = segments.alive_bytes(segment as usize).clamp(0, full);
                groups.entry((stream, ordinal / GROUP_SEGMENTS)).or_default().add(
                    ordinal,
                    segment,
                    alive,
                    segments.age(segment),
                );
            }
        }
        let most_alive = self.most_alive_bytes();
        let worth_it = groups.into_values().filter(|group| group.alive <= most_alive * group.count());
        let best = worth_it.max_by(|one, other| one.worth(full).total_cmp(&other.worth(full)));
        best.map(Group::into_segments).unwrap_or_default()
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
