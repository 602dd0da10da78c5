//! Creating and deleting I/O queues (Base 2.1, sections 5.2.1 to 5.2.4).

use byway_dma::BusAddr;
use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::base::admin::{CreateCqCdw11, CreateSqCdw11, QueueCdw10};
use byway_spec::base::register::Cc;
use byway_spec::{Command, Status};

use crate::controller::Controller;
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::payload::PAGE_BYTES;
use crate::port::Port;
use crate::queue::{CompletionQueue, MAX_IO_QUEUES, SubmissionQueue};
use crate::register::MAX_QUEUE_ENTRIES;
use crate::subsystem::Subsystem;

/// Interrupt vectors a completion queue may name: one each, and the admin queue's.
pub(super) const INTERRUPT_VECTORS: u16 = MAX_IO_QUEUES + 1;

/// Fewest entries of a queue: one is always empty.
const MIN_QUEUE_ENTRIES: u32 = 2;

/// What both kinds of queue are created with.
struct NewQueue {
    qid: u16,
    entries: u32,
    base: BusAddr,
}

impl Controller {
    pub(super) fn create_completion_queue(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let cdw11 = CreateCqCdw11::from_bits(command.cdw11);
        let entry_size_is_set = self.registers.cc().iocqes() == Cc::IOCQES_16;
        let taken = |qid: u16| self.completion.get(usize::from(qid)).is_none_or(Option::is_some);
        let new = new_queue(command, cdw11.pc(), entry_size_is_set, taken)?;
        if cdw11.iv() >= INTERRUPT_VECTORS {
            return Err(
                CommandError::new(Status::INVALID_INTERRUPT_VECTOR, "no such interrupt vector").at_byte(46)
            );
        }
        let vector = cdw11.ien().then_some(cdw11.iv());
        let cq = CompletionQueue::new(new.base, new.entries, vector).map_err(|_| BAD_SIZE)?;
        self.completion[usize::from(new.qid)] = Some(cq);
        self.start_doorbell(port, doorbells, DoorbellIndex::completion(new.qid));
        Ok(Outcome::OK)
    }

    pub(super) fn create_submission_queue(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let cdw11 = CreateSqCdw11::from_bits(command.cdw11);
        let entry_size_is_set = self.registers.cc().iosqes() == Cc::IOSQES_64;
        let taken = |qid: u16| self.submission.get(usize::from(qid)).is_none_or(Option::is_some);
        let new = new_queue(command, cdw11.pc(), entry_size_is_set, taken)?;
        if cdw11.cqid() == 0 || cdw11.cqid() > MAX_IO_QUEUES {
            return Err(CommandError::new(Status::INVALID_QUEUE_ID, "no such completion queue").at_byte(46));
        }
        let Some(Some(cq)) = self.completion.get_mut(usize::from(cdw11.cqid())) else {
            return Err(
                CommandError::new(Status::CQ_INVALID, "the completion queue was not created").at_byte(46)
            );
        };
        let sq = SubmissionQueue::new(new.base, new.entries, cdw11.cqid()).map_err(|_| BAD_SIZE)?;
        cq.submission_queues += 1;
        self.submission[usize::from(new.qid)] = Some(sq);
        self.start_doorbell(port, doorbells, DoorbellIndex::submission(new.qid));
        Ok(Outcome::OK)
    }

    /// Starts a new queue's doorbell from zero, whatever a queue of the same identifier left there.
    fn start_doorbell(&mut self, port: &mut Port<'_>, doorbells: &Doorbells, index: DoorbellIndex) {
        doorbells.reset(index);
        self.start_shadow(port, index);
    }

    /// Whether any I/O queue exists.
    pub(super) fn has_io_queues(&self) -> bool {
        // A submission queue is never without its completion queue.
        self.completion.iter().skip(1).any(Option::is_some)
    }

    /// What the queue has executed is completed first; what it has not fetched is gone with it.
    pub(super) fn delete_submission_queue(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let qid = deleted_queue(command)?;
        let Some(cqid) = self.submission.get(usize::from(qid)).and_then(Option::as_ref).map(|sq| sq.cqid)
        else {
            return Err(NO_SUCH_QUEUE);
        };
        self.post_all_of(port, qid);
        self.abort_held_of(port, qid);
        self.abort_elsewhere_of(port, qid);
        self.release_window(subsystem, qid);
        self.submission[usize::from(qid)] = None;
        self.ready.remove(qid);
        if let Some(Some(cq)) = self.completion.get_mut(usize::from(cqid)) {
            cq.submission_queues -= 1;
        }
        Ok(Outcome::OK)
    }

    pub(super) fn delete_completion_queue(&mut self, command: &Command) -> Result<Outcome, CommandError> {
        let qid = deleted_queue(command)?;
        let Some(slot @ Some(_)) = self.completion.get_mut(usize::from(qid)) else {
            return Err(NO_SUCH_QUEUE);
        };
        if slot.as_ref().is_some_and(|cq| cq.submission_queues > 0) {
            let cause = "a submission queue still completes to this queue";
            return Err(CommandError::new(Status::INVALID_QUEUE_DELETION, cause).at_byte(40));
        }
        *slot = None;
        Ok(Outcome::OK)
    }
}

fn new_queue(
    command: &Command,
    contiguous: bool,
    entry_size_is_set: bool,
    taken: impl FnOnce(u16) -> bool,
) -> Result<NewQueue, CommandError> {
    let cdw10 = QueueCdw10::from_bits(command.cdw10);
    let entries = u32::from(cdw10.qsize_z()) + 1;
    if cdw10.qid() == 0 || taken(cdw10.qid()) {
        return Err(CommandError::new(Status::INVALID_QUEUE_ID, "queue identifier out of range or in use")
            .at_byte(40));
    }
    if !(MIN_QUEUE_ENTRIES..=MAX_QUEUE_ENTRIES).contains(&entries) {
        return Err(BAD_SIZE);
    }
    if !entry_size_is_set {
        return Err(CommandError::new(
            Status::INVALID_QUEUE_SIZE,
            "CC does not give the size of queue entries",
        ));
    }
    if !contiguous {
        return Err(CommandError::invalid_field("queues must be physically contiguous (CAP.CQR)").at_byte(44));
    }
    if !command.prp1().is_multiple_of(PAGE_BYTES as u64) {
        return Err(CommandError::new(Status::PRP_OFFSET_INVALID, "a queue begins on a page").at_byte(24));
    }
    Ok(NewQueue { qid: cdw10.qid(), entries, base: BusAddr(command.prp1()) })
}

fn deleted_queue(command: &Command) -> Result<u16, CommandError> {
    match QueueCdw10::from_bits(command.cdw10).qid() {
        0 => {
            Err(CommandError::new(Status::INVALID_QUEUE_ID, "the admin queue cannot be deleted").at_byte(40))
        }
        qid => Ok(qid),
    }
}

const BAD_SIZE: CommandError =
    CommandError::new(Status::INVALID_QUEUE_SIZE, "queue size out of range").at_byte(42);
const NO_SUCH_QUEUE: CommandError = CommandError::new(Status::INVALID_QUEUE_ID, "no such queue").at_byte(40);
