//! Fused commands of rings. A host rings once for both (Base 2.1, section 3.4.2), so that a first command with nothing behind
//! it has no second and is aborted: it never waits for a doorbell that may not come.

use byway_dma::DmaFault;
use byway_queue::{CompletionPermit, DoorbellIndex, Doorbells};
use byway_spec::{Cdw0, Command};

use super::{ALONE, FusedCommand};
use crate::admin::effects;
use crate::completion::Ticket;
use crate::controller::Controller;
use crate::counting::Typed;
use crate::port::Port;
use crate::queue::{FetchedCommand, SubmissionQueue};
use crate::run::{Fetched, fetch_command};
use crate::subsystem::Subsystem;
use crate::transfer::inline::{self, Capsule};

/// A completion queue of fewer entries has no room for both completions, and never will.
const CQ_ENTRIES_MIN: u32 = 3;

/// Two fused commands that were taken out of their ring.
#[derive(Debug)]
pub(crate) struct Pair([Half; 2]);

#[derive(Debug)]
struct Half {
    ticket: Ticket,
    command: Command,
    payload: Option<Vec<u8>>,
}

/// What a ring has of a pair whose first command is at its head.
enum Found {
    /// Payload slots of one of them are still to come.
    Part,
    /// Something else is behind the first, or nothing, or there is never room for both. It has so many payload slots.
    Alone(u32),
    /// The second, and the payload slots of both.
    Both(Command, [u32; 2]),
    /// The boundary between commands and payloads is lost.
    Broken,
}

impl Controller {
    /// Fetches what goes with the first of two fused commands, which is at the head of `qid` and has a place for its
    /// completion.
    #[cold]
    pub(crate) fn fetch_pair(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        qid: u16,
        first: FetchedCommand,
        permit: CompletionPermit,
    ) -> Fetched {
        match self.look_at_pair(port, qid, &first) {
            Found::Broken => Fetched::Broken,
            Found::Part => self.leave_first(qid, first, permit),
            Found::Alone(slots) => match self.take_slots(qid, 1 + slots) {
                Some(cqid) => Fetched::Alone(Ticket { sqid: qid, cid: first.command.cid(), cqid, permit }),
                None => Fetched::Nothing,
            },
            Found::Both(second, slots) => match self.second_permit(doorbells, qid) {
                None => self.leave_first(qid, first, permit),
                Some(other) => {
                    let pair = self.take_pair(port, qid, [(first.command, permit), (second, other)], slots);
                    pair.map_or(Fetched::Broken, |pair| Fetched::Pair(Box::new(pair)))
                }
            },
        }
    }

    fn look_at_pair(&mut self, port: &mut Port<'_>, qid: u16, first: &FetchedCommand) -> Found {
        let limit = self.inline.len();
        let Some(Some(sq)) = self.submission.get_mut(usize::from(qid)) else { return Found::Broken };
        let Some(own) = payload_slots(sq, &first.command, first.inline, limit) else { return Found::Broken };
        let available = sq.ring.available();
        let cq = self.completion.get(usize::from(sq.cqid)).and_then(Option::as_ref);
        if available <= own {
            return Found::Part;
        }
        if available == 1 + own || cq.is_none_or(|cq| cq.ring.size() < CQ_ENTRIES_MIN) {
            return Found::Alone(own);
        }
        let Some(second) = look_behind(port, sq, own) else { return Found::Broken };
        if second.cdw0.fuse() != Cdw0::FUSE_SECOND {
            return Found::Alone(own);
        }
        match payload_slots(sq, &second, first.inline, limit) {
            None => Found::Broken,
            Some(others) if available < 2 + own + others => Found::Part,
            Some(others) => Found::Both(second, [own, others]),
        }
    }

    /// Leaves a first command at the head of its queue, whose turn comes again with a doorbell.
    fn leave_first(&mut self, qid: u16, first: FetchedCommand, permit: CompletionPermit) -> Fetched {
        let Some(Some(sq)) = self.submission.get_mut(usize::from(qid)) else { return Fetched::Nothing };
        sq.fetched = Some(first);
        if let Some(Some(cq)) = self.completion.get_mut(usize::from(sq.cqid)) {
            cq.ring.give_back(permit);
        }
        Fetched::Nothing
    }

    /// The right to post the second completion; without it the queue waits for room.
    fn second_permit(&mut self, doorbells: &Doorbells, qid: u16) -> Option<CompletionPermit> {
        let cqid = self.submission.get(usize::from(qid))?.as_ref()?.cqid;
        let shadowed = self.is_shadowed(cqid);
        let cq = self.completion.get_mut(usize::from(cqid))?.as_mut()?;
        let permit = cq.permit(|| (!shadowed).then(|| doorbells.load(DoorbellIndex::completion(cqid))));
        cq.blocks |= permit.is_none();
        self.blocked |= permit.is_none();
        permit
    }

    fn take_pair(
        &mut self,
        port: &mut Port<'_>,
        qid: u16,
        [first, second]: [(Command, CompletionPermit); 2],
        slots: [u32; 2],
    ) -> Result<Pair, DmaFault> {
        let first = self.take_half(port, qid, first, slots[0])?;
        // Looked at before, where it stood behind the first.
        if let Some(Some(sq)) = self.submission.get_mut(usize::from(qid)) {
            sq.ahead.pop_front();
        }
        Ok(Pair([first, self.take_half(port, qid, second, slots[1])?]))
    }

    fn take_half(
        &mut self,
        port: &mut Port<'_>,
        qid: u16,
        (command, permit): (Command, CompletionPermit),
        slots: u32,
    ) -> Result<Half, DmaFault> {
        let (burst, bytes) = (self.habits.chunk_burst, command.sgl1().length_bytes as usize);
        let Self { submission, inline, .. } = self;
        let mut payload = None;
        if let (Some(Some(sq)), true) = (submission.get(usize::from(qid)), slots > 0) {
            inline::fetch(port, sq, inline, slots, burst)?;
            payload = inline.get(..bytes).map(<[u8]>::to_vec);
        }
        let cqid = self.take_slots(qid, 1 + slots).unwrap_or_default();
        Ok(Half { ticket: Ticket { sqid: qid, cid: command.cid(), cqid, permit }, command, payload })
    }

    /// Takes slots out of a ring; the completion queue of what stood in them.
    fn take_slots(&mut self, qid: u16, slots: u32) -> Option<u16> {
        let sq = self.submission.get_mut(usize::from(qid))?.as_mut()?;
        let taken = sq.ring.skip(slots);
        debug_assert!(taken, "slots looked at are there");
        if sq.ring.available() == 0 {
            self.ready.remove(qid);
        }
        Some(sq.cqid)
    }

    /// Executes two fused commands of a ring and completes both.
    #[cold]
    pub(crate) fn serve_pair(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        Pair([first, second]): Pair,
        now_ps: u64,
    ) {
        let halves = [&first, &second]
            .map(|half| FusedCommand { command: &half.command, carried: half.payload.as_deref() });
        let [compared, written] = self.execute_fused(subsystem, port, first.ticket.sqid, halves);
        let changes = subsystem.synced_completions && effects::changes(false, second.command.opcode());
        let qid = first.ticket.sqid;
        self.count_pair(subsystem, port, qid, halves, ([&compared, &written], changes));
        self.finish(port, first.ticket, compared, false);
        self.finish(port, second.ticket, written, changes);
        self.announce_each(port, now_ps);
    }

    /// Aborts a first command that has no second.
    #[cold]
    pub(crate) fn abort_alone(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        (ticket, command): (Ticket, &Command),
        now_ps: u64,
    ) {
        let aborted = Err(ALONE);
        self.count(subsystem, port, Typed::of(ticket.sqid, command), None, (&aborted, false));
        self.finish(port, ticket, aborted, false);
        self.announce_each(port, now_ps);
    }

    fn announce_each(&mut self, port: &mut Port<'_>, now_ps: u64) {
        if !self.habits.coalesce_interrupts {
            self.announce(port, now_ps);
        }
    }
}

/// Slots of the payload behind a command in its ring; none where the boundary between commands is lost.
fn payload_slots(sq: &SubmissionQueue, command: &Command, inline: bool, limit: usize) -> Option<u32> {
    match inline::capsule(command, inline, limit, sq.ring.size()) {
        Capsule::None => Some(0),
        Capsule::Payload { slots, .. } => Some(slots),
        Capsule::Broken => None,
    }
}

/// The command behind the one at the head and its payload of `slots`. It stays where it is, and is not fetched again.
fn look_behind(port: &mut Port<'_>, sq: &mut SubmissionQueue, slots: u32) -> Option<Command> {
    if sq.ahead.is_empty() {
        let mut command = Command::default();
        fetch_command(port, sq, sq.ring.behind_head(1 + slots), &mut command)?;
        sq.ahead.push_back(command);
    }
    sq.ahead.front().copied()
}
