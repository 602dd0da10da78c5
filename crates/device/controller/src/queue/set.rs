//! Sets of queues by their identifiers, and the round robin among those that have work.

use crate::limits::MAX_IO_QUEUES;

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

/// Submission queues that may have work, and the next one to serve.
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

    /// Whether queue `qid` may have work.
    #[inline]
    pub fn contains(&self, qid: u16) -> bool {
        self.queues.contains(qid)
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
