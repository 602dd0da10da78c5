//! The host's side of a submission queue and of a completion queue: slots, phases and doorbells.

use byway_queue::DoorbellIndex;
use byway_spec::vendor::{result_bytes, result_entries};
use byway_spec::{Command, Completion};

use crate::host::Host;
use crate::memory::HostMemory;

/// The host's side of a submission queue.
#[derive(Debug)]
pub struct Submission {
    pub qid: u16,
    /// Offset of its ring in the host's memory.
    at: usize,
    entries: u32,
    tail: u32,
    /// The newest head that a completion reported.
    head: u32,
    rung: u32,
}

impl Submission {
    /// An empty queue.
    pub fn new(qid: u16, at: usize, entries: u32) -> Self {
        Self { qid, at, entries, tail: 0, head: 0, rung: 0 }
    }

    /// Whether a command fits.
    pub fn has_room(&self) -> bool {
        (self.tail + 1) % self.entries != self.head
    }

    /// Writes a command; the device does not know of it yet.
    pub fn push(&mut self, memory: &HostMemory, command: &Command) {
        assert!(self.has_room());
        memory.write(self.at + self.tail as usize * 64, &command.to_bytes());
        self.tail = (self.tail + 1) % self.entries;
    }

    /// Takes the head that a completion reports.
    pub fn take_head(&mut self, sqhd: u16) {
        let (head, queued) = (u32::from(sqhd), |head| (self.rung + self.entries - head) % self.entries);
        assert!(head < self.entries && queued(head) <= queued(self.head), "queue {}: head {head}", self.qid);
        self.head = head;
    }

    /// Writes the tail doorbell if there are commands behind it.
    pub fn ring(&mut self, host: &Host) {
        if self.rung != self.tail {
            self.rung = self.tail;
            host.ring(DoorbellIndex::submission(self.qid), self.tail);
        }
    }
}

/// The host's side of a completion queue.
#[derive(Debug)]
pub struct Completions {
    pub qid: u16,
    at: usize,
    entries: u32,
    head: u32,
    phase: bool,
    rung: u32,
}

impl Completions {
    /// An empty queue, whose ring the host has zeroed.
    pub fn new(qid: u16, at: usize, entries: u32) -> Self {
        Self { qid, at, entries, head: 0, phase: true, rung: 0 }
    }

    /// The next new entry. The device learns by [`Self::ring`] that its slot is free.
    pub fn take(&mut self, memory: &HostMemory) -> Option<Completion> {
        let entry = Completion::from_bytes(&memory.completion(self.at + self.head as usize * 16));
        if entry.phase() != self.phase {
            return None;
        }
        self.head = (self.head + 1) % self.entries;
        self.phase ^= self.head == 0;
        Some(entry)
    }

    /// Takes a result of `bytes` behind the completion that was taken last: all of it is there.
    pub fn take_result(&mut self, memory: &HostMemory, bytes: usize) -> Vec<u8> {
        let mut result = Vec::new();
        for _ in 0..result_entries(bytes) {
            let entry = self.take(memory).expect("a result is there before its completion");
            result.extend(result_bytes(&entry.to_bytes()).expect("no completion stands in a result"));
        }
        result.truncate(bytes);
        result
    }

    /// Writes the head doorbell if entries were taken.
    pub fn ring(&mut self, host: &Host) {
        if self.rung != self.head {
            self.rung = self.head;
            host.ring(DoorbellIndex::completion(self.qid), self.head);
        }
    }
}
