//! Doorbells: new tails of submission queues and new heads of completion queues.

use byway_queue::{DoorbellIndex, Doorbells};

use super::Queues;
use crate::limits::MAX_IO_QUEUES;

impl Queues {
    /// Whether the queue of a doorbell exists and is not delegated.
    pub fn has_doorbell(&self, index: DoorbellIndex) -> bool {
        match index.is_completion() {
            true => self.completion(index.queue()).is_some(),
            false => self.submission(index.queue()).is_some(),
        }
    }

    /// Takes what the register of doorbell `index` holds; the value if it is invalid. Doorbells of a delegated queue are
    /// read by the thread that serves it, and again once the queue is reclaimed.
    #[inline]
    pub fn take_doorbell(&mut self, doorbells: &Doorbells, index: DoorbellIndex) -> Option<u32> {
        if self.delegated.contains(index.queue()) {
            return None;
        }
        let value = doorbells.load(index);
        let accepted = match index.is_completion() {
            false => self.take_tail(index.queue(), value),
            true => self.take_head(index.queue(), value),
        };
        (!accepted).then_some(value)
    }

    /// Takes a new tail of submission queue `qid`; whether it is valid.
    #[inline]
    pub fn take_tail(&mut self, qid: u16, tail: u32) -> bool {
        let Some(Some(sq)) = self.submission.get_mut(usize::from(qid)) else { return false };
        self.ready.insert(qid);
        self.rung.insert(qid);
        sq.ring.set_tail(tail).is_ok()
    }

    /// Takes a new head of completion queue `qid`, and marks the submission queues that waited for room there; whether
    /// the head is valid.
    pub fn take_head(&mut self, qid: u16, head: u32) -> bool {
        let Some(Some(cq)) = self.completion.get_mut(usize::from(qid)) else { return false };
        let accepted = cq.ring.set_head(head).is_ok();
        if let Some(waited_ns) = cq.blocked.take() {
            self.full_ring_ns += waited_ns;
            for (sqid, sq) in self.submission.iter().enumerate() {
                if sq.as_ref().is_some_and(|sq| sq.cqid == qid) {
                    self.ready.insert(sqid as u16);
                }
            }
        }
        accepted
    }

    /// Reads the heads of the completion queues that commands wait for. `shadowed`: doorbells of I/O queues are in host
    /// memory, and read there.
    #[cold]
    pub fn wake_blocked(&mut self, doorbells: &Doorbells, shadowed: bool) {
        // Admin commands may be about delegated queues: the admin queue waits until all of them are reclaimed.
        let first = u16::from(!self.delegated.is_empty());
        self.blocked |= first > 0 && matches!(&self.completion[0], Some(cq) if cq.blocked.is_set());
        for cqid in first..=MAX_IO_QUEUES {
            let is_shadowed = shadowed && cqid != 0;
            if !is_shadowed && matches!(&self.completion[usize::from(cqid)], Some(cq) if cq.blocked.is_set())
            {
                let head = doorbells.load(DoorbellIndex::completion(cqid));
                // Its submission queues are ready again. One that finds no room sets the mark again.
                self.take_head(cqid, head);
            }
        }
    }
}
