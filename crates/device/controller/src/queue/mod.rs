//! The queues of a controller: their rings, which of them have work, and which are delegated to threads.

mod doorbells;
mod fetch;
mod pair;
mod ring;
mod set;

use byway_dma::{BusAddr, DmaFault, HostMemory};
use byway_queue::{BadSize, CompletionPermit, DoorbellIndex, Doorbells, ResultPermit};
use byway_spec::{Completion, Status};

use crate::port::Port;
use crate::ticket::Ticket;
use crate::transfer::assembly::Assembly;

pub(crate) use fetch::{FetchContext, Fetched, Group};
pub(crate) use pair::FusedPair;
pub use ring::{BoundWindow, CompletionQueue, FetchedCommand, SubmissionQueue};
pub(crate) use set::QueueSet;
use set::ReadySet;

/// The queues of a controller.
#[derive(Debug)]
pub(crate) struct Queues {
    submission: Vec<Option<SubmissionQueue>>,
    completion: Vec<Option<CompletionQueue>>,
    /// Submission queues that may have work.
    ready: ReadySet,
    /// The queue whose commands were fetched together and are being served; 0 for none.
    grouped: u16,
    /// Queues whose tails have moved since [`Queues::take_rung`] was last called.
    rung: QueueSet,
    /// Queue pairs that threads serve outside the run lock.
    delegated: QueueSet,
    /// The admin queue waits until every delegated pair is reclaimed.
    admin_waits: bool,
    /// A command waits for room in its completion queue.
    blocked: bool,
    /// How long commands waited for room, in nanoseconds, since [`Queues::take_full_ring_ns`] was last called.
    full_ring_ns: u64,
}

impl Queues {
    /// Room for queues 0 to `count` − 1, none of them created.
    pub fn new(count: usize) -> Self {
        Self {
            submission: (0..count).map(|_| None).collect(),
            completion: (0..count).map(|_| None).collect(),
            ready: ReadySet::default(),
            grouped: 0,
            rung: QueueSet::default(),
            delegated: QueueSet::default(),
            admin_waits: false,
            blocked: false,
            full_ring_ns: 0,
        }
    }

    /// Deletes every queue: controller reset. Delegated pairs stay away.
    pub fn clear(&mut self) {
        self.submission.fill_with(|| None);
        self.completion.fill_with(|| None);
        self.blocked = false;
        self.admin_waits = false;
        self.ready = ReadySet::default();
        self.rung = QueueSet::default();
    }

    /// Queue identifiers that there is room for.
    pub fn count(&self) -> usize {
        self.submission.len()
    }

    /// Submission queue `qid`, if it was created and is not delegated.
    #[inline]
    pub fn submission(&self, qid: u16) -> Option<&SubmissionQueue> {
        self.submission.get(usize::from(qid))?.as_ref()
    }

    /// The same, to change it.
    #[inline]
    pub fn submission_mut(&mut self, qid: u16) -> Option<&mut SubmissionQueue> {
        self.submission.get_mut(usize::from(qid))?.as_mut()
    }

    /// Completion queue `qid`, if it was created and is not delegated.
    #[inline]
    pub fn completion(&self, qid: u16) -> Option<&CompletionQueue> {
        self.completion.get(usize::from(qid))?.as_ref()
    }

    /// The same, to change it.
    #[inline]
    pub fn completion_mut(&mut self, qid: u16) -> Option<&mut CompletionQueue> {
        self.completion.get_mut(usize::from(qid))?.as_mut()
    }

    /// Whether a submission queue `qid` can be created.
    pub fn has_free_submission(&self, qid: u16) -> bool {
        matches!(self.submission.get(usize::from(qid)), Some(None))
    }

    /// Whether a completion queue `qid` can be created.
    pub fn has_free_completion(&self, qid: u16) -> bool {
        matches!(self.completion.get(usize::from(qid)), Some(None))
    }

    /// Whether I/O queue `qid` exists, delegated or not.
    pub fn has_queue(&self, qid: u16) -> bool {
        self.delegated.contains(qid) || self.submission(qid).is_some()
    }

    /// I/O queues that exist, delegated or not.
    pub fn io_queues(&self) -> usize {
        self.submission.iter().skip(1).flatten().count() + self.delegated.len()
    }

    /// Whether any I/O queue exists that is not delegated.
    pub fn has_io_queues(&self) -> bool {
        // A submission queue is never without its completion queue.
        self.completion.iter().skip(1).any(Option::is_some)
    }

    /// Creates the admin queue pair in host memory.
    pub fn create_admin(&mut self, bases: (u64, u64), entries: (u32, u32)) -> Result<(), BadSize> {
        let sq = SubmissionQueue::new(BusAddr(bases.0), entries.0, 0)?;
        let mut cq = CompletionQueue::new(BusAddr(bases.1), entries.1, Some(0))?;
        cq.submission_queues = 1;
        (self.submission[0], self.completion[0]) = (Some(sq), Some(cq));
        Ok(())
    }

    /// Creates queue pair `qid` for commands that come in capsules. It has no memory.
    pub fn create_for_capsules(&mut self, qid: u16, entries: u32) -> Result<(), BadSize> {
        let sq = SubmissionQueue::new(BusAddr(0), entries, qid)?;
        // A ring holds one entry less than it has. A queue outside memory has no such gap, and Linux fills it.
        let mut cq = CompletionQueue::new(BusAddr(0), entries + 1, None)?;
        cq.submission_queues = 1;
        let at = usize::from(qid);
        // Grown on demand: of thousands of controllers, most have a few queues.
        let queues = self.submission.len().max(at + 1);
        self.submission.resize_with(queues, || None);
        self.completion.resize_with(queues, || None);
        (self.submission[at], self.completion[at]) = (Some(sq), Some(cq));
        Ok(())
    }

    /// Creates a completion queue, if [`has_free_completion`](Self::has_free_completion) is true.
    pub fn create_completion(&mut self, qid: u16, cq: CompletionQueue) {
        self.completion[usize::from(qid)] = Some(cq);
    }

    /// Creates a submission queue; none if its completion queue does not exist.
    pub fn create_submission(&mut self, qid: u16, sq: SubmissionQueue) -> Option<()> {
        self.completion_mut(sq.cqid)?.submission_queues += 1;
        self.submission[usize::from(qid)] = Some(sq);
        Some(())
    }

    /// Deletes submission queue `qid` with what was not fetched from it.
    pub fn delete_submission(&mut self, qid: u16) {
        let Some(sq) = self.submission.get_mut(usize::from(qid)).and_then(Option::take) else { return };
        self.ready.remove(qid);
        if let Some(cq) = self.completion_mut(sq.cqid) {
            cq.submission_queues -= 1;
        }
    }

    /// Deletes completion queue `qid`.
    pub fn delete_completion(&mut self, qid: u16) {
        self.completion.get_mut(usize::from(qid)).into_iter().for_each(|cq| *cq = None);
    }

    /// Deletes queue pair `qid` of a connection.
    pub fn disconnect(&mut self, qid: u16) {
        (self.submission[usize::from(qid)], self.completion[usize::from(qid)]) = (None, None);
    }

    /// Takes pair `qid` out for a thread, if its completion queue has no other submission queue.
    pub fn delegate(&mut self, qid: u16) -> Option<(SubmissionQueue, CompletionQueue)> {
        if !self.is_pair(qid) {
            return None;
        }
        let pair = (self.submission[usize::from(qid)].take()?, self.completion[usize::from(qid)].take()?);
        self.ready.remove(qid);
        self.delegated.insert(qid);
        Some(pair)
    }

    fn is_pair(&self, qid: u16) -> bool {
        self.submission(qid).is_some_and(|sq| sq.cqid == qid)
            && self.completion(qid).is_some_and(|cq| cq.submission_queues == 1)
    }

    /// Puts a delegated pair back. With the last of them the admin queue is served again.
    pub fn reclaim(&mut self, qid: u16, sq: SubmissionQueue, cq: CompletionQueue) {
        self.blocked |= cq.blocked.is_set();
        (self.submission[usize::from(qid)], self.completion[usize::from(qid)]) = (Some(sq), Some(cq));
        self.ready.insert(qid);
        self.delegated.remove(qid);
        if self.delegated.is_empty() && std::mem::take(&mut self.admin_waits) {
            self.ready.insert(0);
        }
    }

    /// Whether the admin queue waits for delegated pairs: its commands may be about any of them.
    #[inline]
    pub fn admin_waits(&self) -> bool {
        self.admin_waits
    }

    /// Notes whether the admin queue has to wait for delegated pairs; whether it has.
    #[inline]
    pub fn note_admin_waits(&mut self) -> bool {
        self.admin_waits = !self.delegated.is_empty();
        self.admin_waits
    }

    /// The next submission queue with work: one whose commands were fetched together until all of them are served, then
    /// round robin.
    #[inline]
    pub fn next_ready(&mut self) -> Option<u16> {
        if self.grouped != 0 && self.goes_on_with_group() {
            return Some(self.grouped);
        }
        self.ready.next()
    }

    fn goes_on_with_group(&mut self) -> bool {
        let has_more = self.submission(self.grouped).is_some_and(|sq| !sq.ahead.is_empty());
        if !(has_more && self.ready.contains(self.grouped)) {
            self.grouped = 0;
        }
        self.grouped != 0
    }

    /// Whether any submission queue has work.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Marks queue `qid` as having work.
    #[inline]
    pub fn set_ready(&mut self, qid: u16) {
        self.ready.insert(qid);
    }

    /// Queue `qid` has no work that can be done now.
    #[inline]
    pub fn set_idle(&mut self, qid: u16) {
        self.ready.remove(qid);
    }

    /// No queue is served any more: the controller failed.
    pub fn stop(&mut self) {
        self.ready = ReadySet::default();
    }

    /// Takes the lowest of the queues whose tails have moved since the last call.
    #[inline]
    pub fn take_rung(&mut self) -> Option<u16> {
        self.rung.take_first()
    }

    /// Whether a command waits for room in its completion queue.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// How long commands waited for room in completion queues, in nanoseconds, since the last call.
    #[inline]
    pub fn take_full_ring_ns(&mut self) -> u64 {
        std::mem::take(&mut self.full_ring_ns)
    }

    /// Takes the mark that a command waits for room in its completion queue.
    #[inline]
    pub fn take_blocked(&mut self) -> bool {
        std::mem::take(&mut self.blocked)
    }

    /// The window of device memory that `qid` has in namespace `nsid`.
    #[inline]
    pub fn window_of(&self, qid: u16, nsid: u32) -> Option<BoundWindow> {
        let window = self.submission(qid)?.window?;
        (window.nsid == nsid).then_some(window)
    }

    /// The piggybacked value on its way into queue `qid`.
    #[inline]
    pub fn assembly(&mut self, qid: u16) -> Option<&mut Assembly> {
        self.submission_mut(qid).map(|sq| &mut sq.assembly)
    }

    /// The completion of a command that ends now.
    #[inline]
    pub fn entry(&self, ticket: &Ticket, status: Status, dw0: u32, dw1: u32) -> Completion {
        let sq_head = self.submission[usize::from(ticket.sqid)].as_ref().map_or(0, |sq| sq.ring.head());
        let result = u64::from(dw0) | u64::from(dw1) << 32;
        Completion::new(ticket.sqid, sq_head, ticket.cid, status).with_result(result)
    }

    /// The newer of `head` and the head that the last completion of the command's queue reported. A completion that was
    /// delayed must not report an older head than one before it.
    pub fn newest_head(&self, ticket: &Ticket, head: u16) -> u16 {
        self.submission(ticket.sqid).map_or(head, |sq| sq.newer(head, sq.reported_head))
    }

    /// A completion reports `head` of submission queue `qid`.
    #[inline(always)]
    pub fn note_reported_head(&mut self, qid: u16, head: u16) {
        if let Some(sq) = self.submission[usize::from(qid)].as_mut() {
            sq.reported_head = head;
        }
    }

    /// Writes a completion to its ring. `false` if the completion queue is gone.
    ///
    /// # Errors
    /// The host has unmapped the queue.
    // Always: an entry that stays in registers is stored at once, where one in memory waits for the stores of its
    // fields.
    #[inline(always)]
    pub fn post(&mut self, port: &mut Port<'_>, ticket: Ticket, entry: Completion) -> Result<bool, DmaFault> {
        let Some(cq) = self.completion[usize::from(ticket.cqid)].as_mut() else { return Ok(false) };
        let place = cq.ring.post(ticket.permit);
        let entry = entry.with_phase(place.phase);
        port.memory.store_completion(cq.slot(place.index), &entry.to_bytes())?;
        Ok(true)
    }

    /// Entries that the result of a command may take behind its completion, at most `wanted`. `head` reads the head of its queue.
    pub fn room_for_result(
        &mut self,
        ticket: &Ticket,
        wanted: u32,
        head: impl FnOnce() -> Option<u32>,
    ) -> u32 {
        let waiting = self.announced_to(ticket);
        self.completion_mut(ticket.cqid).map_or(0, |cq| cq.room_for_result(wanted, waiting, head))
    }

    /// Slots that were announced and not fetched of the submission queues that complete where a command does: as many commands at most.
    fn announced_to(&self, ticket: &Ticket) -> u32 {
        let is_alone = self.completion(ticket.cqid).is_some_and(|cq| cq.submission_queues == 1);
        if is_alone {
            return self.submission(ticket.sqid).map_or(0, |sq| sq.ring.available());
        }
        let its = self.submission.iter().flatten().filter(|sq| sq.cqid == ticket.cqid);
        its.map(|sq| sq.ring.available()).sum()
    }

    /// Reserves the entries of a result behind the completion of a command, for which there is room.
    pub fn permit_result(&mut self, ticket: &Ticket, entries: u32) -> Option<ResultPermit> {
        self.completion_mut(ticket.cqid)?.ring.permit_result(entries, 0)
    }

    /// Writes a completion with the result behind it. `false` if the completion queue is gone.
    ///
    /// # Errors
    /// The host has unmapped the queue.
    pub fn post_with_result(
        &mut self,
        port: &Port<'_>,
        ticket: Ticket,
        entry: Completion,
        (permit, bytes): (ResultPermit, &[u8]),
    ) -> Result<bool, DmaFault> {
        let Some(cq) = self.completion_mut(ticket.cqid) else { return Ok(false) };
        cq.post_with_result(port, (ticket.permit, permit), entry, bytes).map(|()| true)
    }

    /// Takes the slot of a completion that the connection's owner takes: it is free again at once.
    #[inline]
    pub fn post_to_owner(&mut self, ticket: Ticket) {
        if let Some(cq) = self.completion_mut(ticket.cqid) {
            let place = cq.ring.post(ticket.permit);
            // The head is always valid: it is one behind the slot that was just posted.
            let _ = cq.ring.set_head((u32::from(place.index) + 1) % cq.ring.size());
        }
    }

    /// Takes a slot of both rings for a command that came in a capsule; none if the queue is full.
    pub fn take_ticket(&mut self, qid: u16, cid: u16) -> Option<Ticket> {
        let sq = self.submission.get_mut(usize::from(qid))?.as_mut()?;
        let permit = self.completion.get_mut(usize::from(qid))?.as_mut()?.permit(|| None)?;
        let behind = (u32::from(sq.ring.head()) + 1) % sq.ring.size();
        let fits = sq.ring.set_tail(behind).is_ok() && sq.ring.skip(1);
        debug_assert!(fits, "a queue whose commands are taken as they come is empty");
        Some(Ticket { sqid: qid, cid, cqid: qid, permit })
    }

    /// Gives back the completion slot of a command that waits for an event, which may take forever.
    pub fn give_back(&mut self, cqid: u16, permit: CompletionPermit) {
        if let Some(cq) = self.completion_mut(cqid) {
            cq.ring.give_back(permit);
        }
    }

    /// A ticket for admin command `cid`, which gave its completion slot back, if there is a slot now. `doorbells` are
    /// those of a controller with rings.
    pub fn resume(&mut self, doorbells: Option<&Doorbells>, cid: u16) -> Option<Ticket> {
        let cq = self.completion[0].as_mut()?;
        let head = || doorbells.map(|doorbells| doorbells.load(DoorbellIndex::completion(0)));
        let Some(permit) = cq.permit(head) else {
            cq.blocked.set();
            self.blocked = true;
            return None;
        };
        Some(Ticket { sqid: 0, cid, cqid: 0, permit })
    }
}
