//! What is in flight on a queue: operations, and the command identifiers that belong to them.
//!
//! An *operation* is what the program asked for; most take one command, a value in fragments takes several. Plain
//! arrays and free lists: taking and giving back an identifier is a push and a pop.

use byway_core::{Answer, Bounced, Buffer, Error};
use byway_dma::BusAddr;
use byway_spec::Status;
use byway_sys::FreeList;

/// Marks an identifier that no operation has, or an operation without a bounce page.
const NONE: u16 = u16::MAX;

/// Index of an operation in its queue's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpIndex(u16);

impl OpIndex {
    /// The operation at this place of a table.
    pub(crate) fn of(index: usize) -> Self {
        Self(index as u16)
    }

    /// Its place in the table.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The waiter of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// No waiter yet, or no longer: its memory is kept until the device has answered.
    None,
    /// The caller that takes completions from the queue.
    Queue,
    /// A synchronous call.
    Call,
}

/// One operation in flight.
#[derive(Debug)]
pub(crate) struct Op {
    /// The program's tag.
    pub tag: u64,
    /// Its waiter.
    pub waiter: Waiter,
    /// Whether more commands of it are still to be sent.
    pub sending: bool,
    /// Commands sent whose completions are still to come.
    pub left: u32,
    /// What to answer: the last completion's dwords, and what it cost.
    pub answer: Answer,
    /// The first status that was no success, and means more than that the other of two fused commands failed.
    pub failed: Option<Status>,
    /// Whether it has a record in the queue's window of device memory.
    pub in_window: bool,
    /// Whether the value goes to the namespace's log by DMA, so that the completion reports where it was put.
    pub reports_placement: bool,
    /// Whether its time was over before it ended.
    pub is_late: bool,
    /// Whether it holds memory or anything of `rest`, so that ending it takes more than giving its place back.
    pub has_baggage: bool,
    /// Whether `held` is the program's.
    pub give_back: bool,
    bounce: u16,
    /// What its command said of a result behind its completion.
    pub inline_room: InlineRoom,
    /// Memory that the commands name: the program's buffer, or a staging buffer.
    pub held: Option<Buffer>,
    /// What few operations have. The place for it stays, for the next one.
    rest: Option<Box<Rest>>,
}

/// What a command said of a result behind its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InlineRoom {
    /// Bytes that its host takes.
    pub buffer_bytes: u32,
    /// Most bytes that may stand there; 0 if it did not ask.
    pub asked_bytes: u16,
}

impl InlineRoom {
    const NONE: Self = Self { buffer_bytes: 0, asked_bytes: 0 };
}

/// What few operations have.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Why not all of its commands could be sent.
    pub fault: Option<Error>,
    /// The program's memory, where a copy of it is held.
    pub bounced: Option<Box<Bounced>>,
    /// Pages of PRP lists, of two commands at most.
    pub lists: [Option<Buffer>; 2],
    /// Where the held memory was mapped for this operation alone.
    pub mapped: Option<BusAddr>,
}

/// What an operation needs besides its commands, reset for each use.
impl Op {
    fn idle() -> Self {
        Self {
            tag: 0,
            waiter: Waiter::None,
            sending: false,
            left: 0,
            answer: Answer::default(),
            failed: None,
            in_window: false,
            reports_placement: false,
            is_late: false,
            has_baggage: false,
            give_back: false,
            bounce: NONE,
            inline_room: InlineRoom::NONE,
            held: None,
            rest: None,
        }
    }

    /// Holds memory that the commands name until the operation ends.
    #[inline]
    pub(crate) fn hold(&mut self, memory: Option<Buffer>, give_back: bool) {
        self.has_baggage |= memory.is_some();
        self.held = memory;
        self.give_back = give_back;
    }

    /// Keeps the program's memory until the operation ends, since a copy travels for it.
    #[inline]
    pub(crate) fn set_bounced(&mut self, bounced: Option<Box<Bounced>>) {
        if bounced.is_some() {
            self.rest().bounced = bounced;
        }
    }

    /// Holds the memory of PRP lists until the operation ends.
    pub(crate) fn hold_lists(&mut self, lists: Buffer) {
        let [first, second] = &mut self.rest().lists;
        *(if first.is_none() { first } else { second }) = Some(lists);
    }

    /// Notes where the held memory was mapped for this operation alone.
    pub(crate) fn mapped_at(&mut self, at: BusAddr) {
        self.rest().mapped = Some(at);
    }

    /// Notes why not all of its commands could be sent.
    pub(crate) fn fail(&mut self, fault: Option<Error>) {
        if fault.is_some() {
            self.rest().fault = fault;
        }
    }

    #[cold]
    fn rest(&mut self) -> &mut Rest {
        self.has_baggage = true;
        self.rest.get_or_insert_default()
    }

    /// Takes out what few operations have.
    #[inline]
    pub(crate) fn take_rest(&mut self) -> Option<Rest> {
        self.rest.as_deref_mut().map(std::mem::take)
    }

    /// Whether every completion has come.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && !self.sending
    }

    /// Sets the bounce page that goes back with the operation.
    #[inline]
    pub(crate) fn set_bounce(&mut self, page: u16) {
        self.bounce = page;
    }

    /// The bounce page, if the operation has one.
    #[inline]
    pub(crate) fn bounce(&self) -> Option<u16> {
        (self.bounce != NONE).then_some(self.bounce)
    }

    /// Takes the bounce page out.
    #[inline]
    pub(crate) fn take_bounce(&mut self) -> Option<u16> {
        let page = std::mem::replace(&mut self.bounce, NONE);
        (page != NONE).then_some(page)
    }
}

/// Whether a status says of one of two fused commands that the other failed.
fn is_of_other(status: Status) -> bool {
    status.is(Status::ABORTED_FAILED_FUSED)
}

/// The operations and command identifiers of one queue.
#[derive(Debug)]
pub(crate) struct Table {
    /// As many as the queue is deep, and those that [`Table::grow`] added.
    ops: Vec<Op>,
    depth: u16,
    free_ops: FreeList<u16>,
    /// The operation of each identifier.
    owners: Vec<u16>,
    free_cids: FreeList<u16>,
    /// Identifiers that are not free when their commands complete.
    kept: Vec<Kept>,
}

/// An identifier that is kept, with the operation that it has.
#[derive(Debug)]
struct Kept {
    cid: u16,
    op: OpIndex,
    is_complete: bool,
}

impl Table {
    /// A table for at most `depth` operations and `cids` commands in flight. Each is at most 65535.
    pub(crate) fn new(depth: u16, cids: u16) -> Self {
        Self {
            ops: (0..depth).map(|_| Op::idle()).collect(),
            depth,
            free_ops: FreeList::new(0..depth),
            owners: vec![NONE; usize::from(cids)],
            free_cids: FreeList::new(0..cids),
            kept: Vec::new(),
        }
    }

    /// Operations of the queue's user that there can be at once.
    pub(crate) fn depth(&self) -> u32 {
        u32::from(self.depth)
    }

    /// Makes room for one more operation, beyond the depth; says whether that was possible.
    #[cold]
    pub(crate) fn grow(&mut self) -> bool {
        let index = self.ops.len();
        if index >= usize::from(NONE) {
            return false;
        }
        self.ops.push(Op::idle());
        self.free_ops.free(index as u16);
        true
    }

    /// Operations that were started and not ended.
    #[inline]
    pub(crate) fn started(&self) -> u32 {
        (self.ops.len() - self.free_ops.len()) as u32
    }

    /// Starts an operation, unless there is no room.
    #[inline]
    pub(crate) fn start(&mut self, tag: u64, waiter: Waiter) -> Option<OpIndex> {
        let index = self.free_ops.take()?;
        let op = self.ops.get_mut(usize::from(index))?;
        op.tag = tag;
        op.waiter = waiter;
        op.left = 0;
        op.sending = false;
        op.answer = Answer::default();
        op.failed = None;
        op.is_late = false;
        op.inline_room = InlineRoom::NONE;
        Some(OpIndex(index))
    }

    /// Ends an operation. What it held must have been taken out.
    #[inline]
    pub(crate) fn end(&mut self, index: OpIndex) {
        self.free_ops.free(index.0);
    }

    /// Ends an operation that succeeded and holds nothing, as most do; returns its answer.
    #[inline]
    pub(crate) fn take_plain(&mut self, index: OpIndex) -> Option<Answer> {
        let op = self.op(index);
        if op.has_baggage || op.failed.is_some() || op.bounce != NONE {
            return None;
        }
        let answer = op.answer;
        self.end(index);
        Some(answer)
    }

    /// The operation.
    #[inline]
    pub(crate) fn op(&mut self, index: OpIndex) -> &mut Op {
        // An `OpIndex` is only made by `start`, of this table.
        #[expect(clippy::indexing_slicing, reason = "the index is this table's own, no peer said it")]
        &mut self.ops[usize::from(index.0)]
    }

    /// Whether an identifier is free for one more command.
    #[inline]
    pub(crate) fn has_cid(&self) -> bool {
        !self.free_cids.is_empty()
    }

    /// Whether two are.
    pub(crate) fn has_two_cids(&self) -> bool {
        self.free_cids.len() > 1
    }

    /// Takes an identifier for one more command of an operation, one that takes `slots` ring slots.
    #[inline]
    pub(crate) fn take_cid(&mut self, index: OpIndex, slots: u32) -> Option<u16> {
        let cid = self.free_cids.take()?;
        *self.owners.get_mut(usize::from(cid))? = index.0;
        let op = self.op(index);
        op.left += 1;
        op.answer.commands += 1;
        op.answer.slots += slots;
        Some(cid)
    }

    /// The operation of command `cid`, if that is in flight.
    pub(crate) fn op_of(&self, cid: u16) -> Option<OpIndex> {
        match *self.owners.get(usize::from(cid))? {
            NONE => self.kept.iter().find(|kept| kept.cid == cid && !kept.is_complete).map(|kept| kept.op),
            owner => Some(OpIndex(owner)),
        }
    }

    /// Notes the completion of command `cid`; `None` if no such command is in flight.
    #[inline]
    pub(crate) fn complete(&mut self, cid: u16, status: Status, dw0: u32, dw1: u32) -> Option<OpIndex> {
        let owner = self.owners.get_mut(usize::from(cid))?;
        if *owner == NONE {
            return self.complete_kept(cid, status, dw0, dw1);
        }
        let index = OpIndex(std::mem::replace(owner, NONE));
        self.free_cids.free(cid);
        self.note(index, status, dw0, dw1);
        Some(index)
    }

    /// The same for an identifier that is kept: it has no owner, so that others pay nothing for this.
    #[cold]
    fn complete_kept(&mut self, cid: u16, status: Status, dw0: u32, dw1: u32) -> Option<OpIndex> {
        let kept = self.kept.iter_mut().find(|kept| kept.cid == cid && !kept.is_complete)?;
        kept.is_complete = true;
        let index = kept.op;
        self.note(index, status, dw0, dw1);
        Some(index)
    }

    /// Notes a completion of an operation.
    #[inline(always)]
    fn note(&mut self, index: OpIndex, status: Status, dw0: u32, dw1: u32) {
        let op = self.op(index);
        op.left -= 1;
        (op.answer.dw0, op.answer.dw1) = (dw0, dw1);
        if !status.is_success() && op.failed.is_none_or(is_of_other) {
            op.failed = Some(status);
        }
    }

    /// Keeps the identifier of a command in flight from being used again when it completes.
    pub(crate) fn keep_cid(&mut self, cid: u16) {
        if let Some(owner) = self.owners.get_mut(usize::from(cid)).filter(|owner| **owner != NONE) {
            let op = OpIndex(std::mem::replace(owner, NONE));
            self.kept.push(Kept { cid, op, is_complete: false });
        }
    }

    /// Releases an identifier that was kept.
    pub(crate) fn free_kept_cid(&mut self, cid: u16) {
        let Some(index) = self.kept.iter().position(|kept| kept.cid == cid) else { return };
        let kept = self.kept.swap_remove(index);
        if kept.is_complete {
            self.free_cids.free(cid);
        } else if let Some(owner) = self.owners.get_mut(usize::from(cid)) {
            *owner = kept.op.0;
        }
    }

    /// Whether the command of an identifier that is kept has completed.
    pub(crate) fn has_completed(&self, cid: u16) -> bool {
        self.kept.iter().any(|kept| kept.cid == cid && kept.is_complete)
    }

    /// An identifier of an operation's commands in flight, unless all of them are kept.
    pub(crate) fn cid_of(&self, op: OpIndex) -> Option<u16> {
        self.owners.iter().position(|owner| *owner == op.0).map(|cid| cid as u16)
    }

    /// Whether an operation in flight with this tag has an identifier that is kept.
    pub(crate) fn is_kept(&self, tag: u64) -> bool {
        self.kept.iter().any(|kept| {
            let op = self.ops.get(kept.op.index());
            !kept.is_complete && op.is_some_and(|op| op.tag == tag && op.waiter == Waiter::Queue)
        })
    }

    /// Keeps the memory of all that is in flight for ever: a device that does not answer may still write it.
    pub(crate) fn leak(&mut self) {
        for op in self.ops.iter_mut().filter(|op| op.left > 0) {
            std::mem::forget((op.held.take(), op.take_rest()));
        }
    }

    /// The operation in flight that the queue's user gave `tag`, with one of its command identifiers.
    pub(crate) fn find(&self, tag: u64) -> Option<u16> {
        let is_it = |owner: &u16| {
            let op = self.ops.get(usize::from(*owner));
            op.is_some_and(|op| op.tag == tag && op.waiter == Waiter::Queue && !op.is_done())
        };
        self.owners.iter().position(is_it).map(|cid| cid as u16)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_operation_is_done_when_its_last_command_is() {
        let mut table = Table::new(2, 8);
        let op = table.start(7, Waiter::Queue).unwrap();
        let cids = [1, 1, 3].map(|slots| table.take_cid(op, slots).unwrap());
        for cid in cids {
            assert!(!table.op(op).is_done());
            assert_eq!(table.complete(cid, Status::SUCCESS, u32::from(cid), 0), Some(op));
        }
        assert!(table.op(op).is_done());
        assert_eq!(table.op(op).answer, Answer { dw0: u32::from(cids[2]), dw1: 0, commands: 3, slots: 5 });
    }

    #[test]
    fn the_first_failure_of_an_operation_is_the_one_that_is_reported() {
        let mut table = Table::new(1, 4);
        let op = table.start(0, Waiter::Call).unwrap();
        let cids = [1, 1, 1].map(|slots| table.take_cid(op, slots).unwrap());
        for (cid, status) in
            cids.into_iter().zip([Status::SUCCESS, Status::CAPACITY_EXCEEDED, Status::INVALID_FIELD])
        {
            table.complete(cid, status, 0, 0);
        }
        assert_eq!(table.op(op).failed, Some(Status::CAPACITY_EXCEEDED));
    }

    #[test]
    fn fused_pair_reports_the_status_other_than_aborted() {
        for statuses in [
            [Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED],
            [Status::ABORTED_FAILED_FUSED, Status::COMPARE_FAILURE.with_dnr()],
        ] {
            let mut table = Table::new(1, 2);
            let op = table.start(0, Waiter::Call).unwrap();
            let cids = [1, 1].map(|slots| table.take_cid(op, slots).unwrap());
            for (cid, status) in cids.into_iter().zip(statuses) {
                table.complete(cid, status, 0, 0).unwrap();
            }
            assert!(table.op(op).failed.unwrap().is(Status::COMPARE_FAILURE));
        }
    }

    #[test]
    fn an_identifier_that_is_not_in_flight_completes_nothing() {
        let mut table = Table::new(1, 4);
        assert_eq!(table.complete(2, Status::SUCCESS, 0, 0), None);
        assert_eq!(table.complete(9999, Status::SUCCESS, 0, 0), None);
        let op = table.start(0, Waiter::Queue).unwrap();
        let cid = table.take_cid(op, 1).unwrap();
        table.complete(cid, Status::SUCCESS, 0, 0).unwrap();
        assert_eq!(table.complete(cid, Status::SUCCESS, 0, 0), None);
    }

    #[test]
    fn operations_and_identifiers_run_out_and_come_back() {
        let mut table = Table::new(1, 2);
        let op = table.start(1, Waiter::Queue).unwrap();
        assert!(table.start(2, Waiter::Queue).is_none());
        let cid = table.take_cid(op, 1).unwrap();
        table.take_cid(op, 1).unwrap();
        assert!(table.take_cid(op, 1).is_none());
        assert_eq!(table.find(1), Some(0));
        table.complete(cid, Status::SUCCESS, 0, 0);
        assert!(table.has_cid());
        table.end(op);
        assert_eq!(table.started(), 0);
        assert!(table.start(2, Waiter::Queue).is_some());
    }
}
