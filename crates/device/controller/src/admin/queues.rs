//! Creating and deleting I/O queues (Base 2.1, sections 5.2.1 to 5.2.4).

use byway_dma::BusAddr;
use byway_queue::DoorbellIndex;
use byway_spec::base::admin::{CreateCqCdw11, CreateSqCdw11, QueueCdw10};
use byway_spec::base::register::Cc;
use byway_spec::{Command, Status};

use super::context::Context;
use crate::error::CommandError;
use crate::limits::{INTERRUPT_VECTORS, MAX_IO_QUEUES, PAGE_BYTES};
use crate::outcome::Outcome;
use crate::queue::{CompletionQueue, SubmissionQueue};
use crate::register::MAX_QUEUE_ENTRIES;

/// Fewest entries of a queue: one is always empty.
const MIN_QUEUE_ENTRIES: u32 = 2;

/// Parameters that both kinds of queue are created with.
struct NewQueue {
    qid: u16,
    entries: u32,
    base: BusAddr,
}

pub(super) fn create_completion_queue(
    cx: &mut Context<'_, '_>,
    command: &Command,
) -> Result<DoorbellIndex, CommandError> {
    let cdw11 = CreateCqCdw11::from_bits(command.cdw11);
    let entry_size_is_set = cx.registers.cc().iocqes() == Cc::IOCQES_16;
    let is_free = |qid: u16| cx.queues.has_free_completion(qid);
    let new = new_queue(command, cdw11.pc(), entry_size_is_set, is_free)?;
    if cdw11.iv() >= INTERRUPT_VECTORS {
        return Err(
            CommandError::new(Status::INVALID_INTERRUPT_VECTOR, "no such interrupt vector").at_byte(46)
        );
    }
    let vector = cdw11.ien().then_some(cdw11.iv());
    let cq = CompletionQueue::new(new.base, new.entries, vector).map_err(|_| BAD_SIZE)?;
    cx.queues.create_completion(new.qid, cq);
    Ok(DoorbellIndex::completion(new.qid))
}

pub(super) fn create_submission_queue(
    cx: &mut Context<'_, '_>,
    command: &Command,
) -> Result<DoorbellIndex, CommandError> {
    let cdw11 = CreateSqCdw11::from_bits(command.cdw11);
    let entry_size_is_set = cx.registers.cc().iosqes() == Cc::IOSQES_64;
    let is_free = |qid: u16| cx.queues.has_free_submission(qid);
    let new = new_queue(command, cdw11.pc(), entry_size_is_set, is_free)?;
    if cdw11.cqid() == 0 || cdw11.cqid() > MAX_IO_QUEUES {
        return Err(CommandError::new(Status::INVALID_QUEUE_ID, "no such completion queue").at_byte(46));
    }
    if cx.queues.completion(cdw11.cqid()).is_none() {
        return Err(NO_COMPLETION_QUEUE);
    }
    let sq = SubmissionQueue::new(new.base, new.entries, cdw11.cqid()).map_err(|_| BAD_SIZE)?;
    cx.queues.create_submission(new.qid, sq).ok_or(NO_COMPLETION_QUEUE)?;
    Ok(DoorbellIndex::submission(new.qid))
}

pub(super) fn delete_completion_queue(
    cx: &mut Context<'_, '_>,
    command: &Command,
) -> Result<Outcome, CommandError> {
    let qid = deleted_queue(command)?;
    let cq = cx.queues.completion(qid).ok_or(NO_SUCH_QUEUE)?;
    if cq.submission_queues > 0 {
        let cause = "a submission queue still completes to this queue";
        return Err(CommandError::new(Status::INVALID_QUEUE_DELETION, cause).at_byte(40));
    }
    cx.queues.delete_completion(qid);
    Ok(Outcome::OK)
}

fn new_queue(
    command: &Command,
    contiguous: bool,
    entry_size_is_set: bool,
    is_free: impl FnOnce(u16) -> bool,
) -> Result<NewQueue, CommandError> {
    let cdw10 = QueueCdw10::from_bits(command.cdw10);
    let entries = u32::from(cdw10.qsize_z()) + 1;
    if cdw10.qid() == 0 || !is_free(cdw10.qid()) {
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

/// The I/O queue that a command deletes.
pub(crate) fn deleted_queue(command: &Command) -> Result<u16, CommandError> {
    match QueueCdw10::from_bits(command.cdw10).qid() {
        0 => {
            Err(CommandError::new(Status::INVALID_QUEUE_ID, "the admin queue cannot be deleted").at_byte(40))
        }
        qid => Ok(qid),
    }
}

const BAD_SIZE: CommandError =
    CommandError::new(Status::INVALID_QUEUE_SIZE, "queue size out of range").at_byte(42);
const NO_COMPLETION_QUEUE: CommandError =
    CommandError::new(Status::CQ_INVALID, "the completion queue was not created").at_byte(46);
pub(crate) const NO_SUCH_QUEUE: CommandError =
    CommandError::new(Status::INVALID_QUEUE_ID, "no such queue").at_byte(40);
