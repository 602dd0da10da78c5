//! The host's side of queues: commands put into rings, doorbells rung, completions taken by their phase.

use byway_dma::BusAddr;
use byway_queue::DoorbellIndex;
use byway_spec::base::admin::{AdminOpcode, CreateCqCdw11, CreateSqCdw11, QueueCdw10};
use byway_spec::vendor::{
    inline_result_bytes, inline_result_max_bytes, result_buffer_bytes, result_bytes, result_entries,
};
use byway_spec::{Command, Completion, Status};

use super::{MEMORY_AT, TestHost};

/// The host's side of a submission queue.
#[derive(Debug, Clone, Copy)]
pub struct HostSq {
    at: BusAddr,
    entries: u32,
    tail: u32,
    cqid: u16,
}

/// The host's side of a completion queue.
#[derive(Debug, Clone, Copy)]
pub struct HostCq {
    at: BusAddr,
    entries: u32,
    head: u32,
    phase: bool,
}

impl TestHost {
    /// Puts 64 bytes into the next slot of queue `qid`; the device does not know yet.
    pub fn push(&mut self, qid: u16, slot: &[u8; 64]) {
        let sq = *self.submission.get(&qid).unwrap();
        self.write(BusAddr(sq.at.0 + u64::from(sq.tail) * 64), slot);
        self.submission.get_mut(&qid).unwrap().tail = (sq.tail + 1) % sq.entries;
    }

    /// Puts a command into queue `qid` under a fresh identifier; the device does not know yet.
    pub fn submit(&mut self, qid: u16, mut command: Command) -> u16 {
        let cid = self.next_cid;
        self.next_cid = self.next_cid.wrapping_add(1);
        command.cdw0.set_cid(cid);
        self.push(qid, &command.to_bytes());
        cid
    }

    /// Writes the tail doorbell of queue `qid`.
    pub fn ring(&self, qid: u16) {
        self.ring_raw(DoorbellIndex::submission(qid), self.submission[&qid].tail);
    }

    /// Writes any value to any doorbell.
    pub fn ring_raw(&self, index: DoorbellIndex, value: u32) {
        self.doorbells.ring(index, value);
    }

    /// The tail of queue `qid`, as the host has it.
    pub fn tail(&self, qid: u16) -> u32 {
        self.submission[&qid].tail
    }

    /// The head of completion queue `cqid`, as the host has it.
    pub fn head(&self, cqid: u16) -> u32 {
        self.completion[&cqid].head
    }

    /// The next new completion of completion queue `cqid`, without telling the device.
    pub fn peek(&mut self, cqid: u16) -> Option<Completion> {
        let cq = *self.completion.get(&cqid)?;
        let at = cq.at.0 - MEMORY_AT + u64::from(cq.head) * 16;
        let entry = Completion::from_bytes(&self.memory.load_completion(at as usize).unwrap());
        if entry.phase() != cq.phase {
            return None;
        }
        let next = self.completion.get_mut(&cqid).unwrap();
        next.head = (cq.head + 1) % cq.entries;
        next.phase = cq.phase ^ (next.head == 0);
        Some(entry)
    }

    /// Takes a result of `bytes` behind the completion that was taken last, without telling the device.
    pub fn peek_result(&mut self, cqid: u16, bytes: usize) -> Vec<u8> {
        let mut result = Vec::new();
        for _ in 0..result_entries(bytes) {
            let cq = *self.completion.get(&cqid).unwrap();
            let at = cq.at.0 - MEMORY_AT + u64::from(cq.head) * 16;
            let entry = self.memory.load_completion(at as usize).unwrap();
            assert_eq!(Completion::from_bytes(&entry).phase(), cq.phase, "slot {}", cq.head);
            result.extend(result_bytes(&entry).expect("no completion stands there"));
            let next = self.completion.get_mut(&cqid).unwrap();
            next.head = (cq.head + 1) % cq.entries;
            next.phase = cq.phase ^ (next.head == 0);
        }
        assert!(result.drain(bytes..).all(|rest| rest == 0), "zeroes follow a result");
        result
    }

    /// Writes the head doorbell of completion queue `cqid`.
    pub fn ring_head(&self, cqid: u16) {
        self.ring_raw(DoorbellIndex::completion(cqid), self.completion[&cqid].head);
    }

    /// Takes the next new completion of completion queue `cqid` and writes its head doorbell.
    pub fn reap(&mut self, cqid: u16) -> Option<Completion> {
        let entry = self.peek(cqid)?;
        self.ring_raw(DoorbellIndex::completion(cqid), self.completion[&cqid].head);
        Some(entry)
    }

    /// Submits, rings, runs, and takes the command's completion, with a result behind it. Completions of other commands are an error.
    pub fn execute(&mut self, qid: u16, command: Command) -> Completion {
        let cid = self.submit(qid, command);
        self.ring(qid);
        self.run();
        let cqid = self.submission[&qid].cqid;
        let entry = self.reap(cqid).expect("no completion");
        assert_eq!((entry.sqid, entry.cid), (qid, cid));
        if inline_result_max_bytes(&command) > 0
            && let Some(bytes) = inline_result_bytes(&entry, result_buffer_bytes(&command))
        {
            self.peek_result(cqid, bytes);
            self.ring_head(cqid);
        }
        entry
    }

    /// Creates completion and submission queue `qid`, both of `entries`, with interrupt vector `qid`.
    pub fn create_pair(&mut self, qid: u16, entries: u32) {
        let cq = self.alloc(entries as usize * 16);
        assert!(self.create_cq(qid, cq, entries, Some(qid)).is_success());
        let sq = self.alloc(entries as usize * 64);
        assert!(self.create_sq(qid, sq, entries, qid).is_success());
    }

    /// Create I/O Completion Queue.
    pub fn create_cq(&mut self, qid: u16, at: BusAddr, entries: u32, vector: Option<u16>) -> Status {
        let mut command = Command::new(AdminOpcode::CREATE_CQ.0, 0, 0);
        command.cdw10 = QueueCdw10::new().with_qid(qid).with_qsize_z((entries - 1) as u16).into_bits();
        let cdw11 = CreateCqCdw11::new().with_pc(true).with_ien(vector.is_some());
        command.cdw11 = cdw11.with_iv(vector.unwrap_or(0)).into_bits();
        command.set_prps(at.0, 0);
        let status = self.admin(command).status();
        if status.is_success() {
            self.adopt_cq(qid, at, entries);
        }
        status
    }

    /// Create I/O Submission Queue.
    pub fn create_sq(&mut self, qid: u16, at: BusAddr, entries: u32, cqid: u16) -> Status {
        let mut command = Command::new(AdminOpcode::CREATE_SQ.0, 0, 0);
        command.cdw10 = QueueCdw10::new().with_qid(qid).with_qsize_z((entries - 1) as u16).into_bits();
        command.cdw11 = CreateSqCdw11::new().with_pc(true).with_cqid(cqid).into_bits();
        command.set_prps(at.0, 0);
        let status = self.admin(command).status();
        if status.is_success() {
            self.adopt_sq(qid, at, entries, cqid);
        }
        status
    }

    /// Delete I/O Submission Queue.
    pub fn delete_sq(&mut self, qid: u16) -> Status {
        let mut command = Command::new(AdminOpcode::DELETE_SQ.0, 0, 0);
        command.cdw10 = u32::from(qid);
        self.admin(command).status()
    }

    /// Delete I/O Completion Queue.
    pub fn delete_cq(&mut self, qid: u16) -> Status {
        let mut command = Command::new(AdminOpcode::DELETE_CQ.0, 0, 0);
        command.cdw10 = u32::from(qid);
        self.admin(command).status()
    }

    pub(super) fn adopt_sq(&mut self, qid: u16, at: BusAddr, entries: u32, cqid: u16) {
        self.submission.insert(qid, HostSq { at, entries, tail: 0, cqid });
    }

    pub(super) fn adopt_cq(&mut self, qid: u16, at: BusAddr, entries: u32) {
        self.completion.insert(qid, HostCq { at, entries, head: 0, phase: true });
    }
}
