//! Fetching fused commands from a ring. A host rings once for both (Base 2.1, section 3.4.2), so a first command with
//! nothing behind it has no second and is aborted: it never waits for a doorbell that may not come.

use byway_dma::DmaFault;
use byway_queue::{CompletionPermit, DoorbellIndex};
use byway_spec::{Cdw0, Command};

use super::fetch::{FetchContext, Fetched, read_command};
use super::{FetchedCommand, Queues, SubmissionQueue};
use crate::port::Port;
use crate::ticket::Ticket;
use crate::transfer::inline::{self, Capsule};

/// A completion queue of fewer entries has no room for both completions, and never will.
const CQ_ENTRIES_MIN: u32 = 3;

/// Two fused commands that were taken out of their ring.
pub(crate) type FusedPair = [FusedHalf; 2];

/// One of two fused commands, with its payload.
#[derive(Debug)]
pub(crate) struct FusedHalf {
    pub ticket: Ticket,
    pub command: Command,
    pub payload: Option<Vec<u8>>,
}

/// The state of a pair whose first command is at the head of its ring.
enum Found {
    /// Payload slots of one of them are still to come.
    Part,
    /// The first has no second, or there is never room for both completions. Its number of payload slots.
    Alone(u32),
    /// The second, and the payload slots of both.
    Both(Command, [u32; 2]),
    /// The boundary between commands and payloads is lost.
    Broken,
}

impl Queues {
    /// Fetches the second of two fused commands. The first is at the head of `qid` and has a slot for its
    /// completion.
    #[cold]
    pub(super) fn fetch_pair(
        &mut self,
        port: &mut Port<'_>,
        context: &mut FetchContext<'_>,
        qid: u16,
        first: FetchedCommand,
        permit: CompletionPermit,
    ) -> Fetched {
        match self.look_at_pair(port, qid, &first, context.inline.len()) {
            Found::Broken => Fetched::Broken,
            Found::Part => self.leave_first(qid, first, permit),
            Found::Alone(slots) => match self.take_slots(qid, 1 + slots) {
                Some(cqid) => Fetched::Alone(Ticket { sqid: qid, cid: first.command.cid(), cqid, permit }),
                None => Fetched::Nothing,
            },
            Found::Both(second, slots) => match self.second_permit(context, qid) {
                None => self.leave_first(qid, first, permit),
                Some(other) => {
                    let commands = [(first.command, permit), (second, other)];
                    let pair = self.take_pair(port, context, qid, commands, slots);
                    pair.map_or(Fetched::Broken, |pair| Fetched::Pair(Box::new(pair)))
                }
            },
        }
    }

    fn look_at_pair(&mut self, port: &mut Port<'_>, qid: u16, first: &FetchedCommand, limit: usize) -> Found {
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
        let Some(second) = look_behind(port, sq, (own, first.inline)) else { return Found::Broken };
        if second.cdw0.fuse() != Cdw0::FUSE_SECOND {
            return Found::Alone(own);
        }
        match payload_slots(sq, &second, first.inline, limit) {
            None => Found::Broken,
            Some(others) if available < 2 + own + others => Found::Part,
            Some(others) => Found::Both(second, [own, others]),
        }
    }

    /// Leaves a first command at the head of its queue, to be fetched again with the next doorbell.
    fn leave_first(&mut self, qid: u16, first: FetchedCommand, permit: CompletionPermit) -> Fetched {
        let Some(Some(sq)) = self.submission.get_mut(usize::from(qid)) else { return Fetched::Nothing };
        sq.fetched = Some(first);
        if let Some(Some(cq)) = self.completion.get_mut(usize::from(sq.cqid)) {
            cq.ring.give_back(permit);
        }
        Fetched::Nothing
    }

    /// The right to post the second completion; without it the queue waits for room.
    fn second_permit(&mut self, context: &FetchContext<'_>, qid: u16) -> Option<CompletionPermit> {
        let cqid = self.submission.get(usize::from(qid))?.as_ref()?.cqid;
        let (doorbells, shadowed) = (context.doorbells, context.shadowed && cqid != 0);
        let cq = self.completion.get_mut(usize::from(cqid))?.as_mut()?;
        let permit = cq.permit(|| (!shadowed).then(|| doorbells.load(DoorbellIndex::completion(cqid))));
        if permit.is_none() {
            cq.blocked.set();
            self.blocked = true;
        }
        permit
    }

    fn take_pair(
        &mut self,
        port: &mut Port<'_>,
        context: &mut FetchContext<'_>,
        qid: u16,
        [first, second]: [(Command, CompletionPermit); 2],
        slots: [u32; 2],
    ) -> Result<FusedPair, DmaFault> {
        let first = self.take_half(port, context, qid, first, slots[0])?;
        // Fetched before, as the command behind the first.
        if let Some(Some(sq)) = self.submission.get_mut(usize::from(qid)) {
            sq.ahead.take(&mut Command::default());
        }
        Ok([first, self.take_half(port, context, qid, second, slots[1])?])
    }

    fn take_half(
        &mut self,
        port: &mut Port<'_>,
        context: &mut FetchContext<'_>,
        qid: u16,
        (command, permit): (Command, CompletionPermit),
        slots: u32,
    ) -> Result<FusedHalf, DmaFault> {
        let bytes = command.sgl1().length_bytes as usize;
        let mut payload = None;
        if let (Some(sq), true) = (self.submission(qid), slots > 0) {
            inline::fetch(port, sq, context.inline, slots, context.chunk_burst)?;
            payload = context.inline.get(..bytes).map(<[u8]>::to_vec);
        }
        let cqid = self.take_slots(qid, 1 + slots).unwrap_or_default();
        Ok(FusedHalf { ticket: Ticket { sqid: qid, cid: command.cid(), cqid, permit }, command, payload })
    }

    /// Takes slots out of a ring; the completion queue of their commands.
    fn take_slots(&mut self, qid: u16, slots: u32) -> Option<u16> {
        let sq = self.submission.get_mut(usize::from(qid))?.as_mut()?;
        let taken = sq.ring.skip(slots);
        debug_assert!(taken, "slots that were available");
        if sq.ring.available() == 0 {
            self.ready.remove(qid);
        }
        Some(sq.cqid)
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

/// The command behind the one at the head and its payload of `slots`. It stays in the ring, and is not fetched again.
fn look_behind(
    port: &mut Port<'_>,
    sq: &mut SubmissionQueue,
    (slots, inline): (u32, bool),
) -> Option<Command> {
    if sq.ahead.is_empty() {
        let at = sq.slot(sq.ring.behind_head(1 + slots));
        sq.ahead.begin(inline);
        sq.ahead.push_with(|command| read_command(port, at, command));
    }
    sq.ahead.as_slice().first().copied()
}
