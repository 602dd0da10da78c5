//! Fetching commands from rings, each with the inline payload behind it.

use byway_dma::BusAddr;
use byway_kv::PREFETCH_GROUP;
use byway_link::Work;
use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::{Cdw0, Command, vendor};

use super::pair::FusedPair;
use super::ring::slot_at;
use super::{FetchedCommand, Queues, SubmissionQueue};
use crate::port::Port;
use crate::ticket::Ticket;
use crate::transfer::inline::{self, Capsule};

/// The result of a fetch from a submission queue.
pub(crate) enum Fetched {
    /// The queue has nothing that can be served now.
    Nothing,
    /// A command, with the length of the inline payload that came with it.
    Command { ticket: Ticket, inline_bytes: Option<usize> },
    /// Two fused commands.
    Pair(Box<FusedPair>),
    /// The first of two fused commands, without the second.
    Alone(Ticket),
    /// The queue's boundary between commands and payloads is lost.
    Broken,
}

/// Whether the next command of a queue is fetched together with others.
pub(crate) enum Group<'a> {
    /// It is fetched by itself.
    None,
    /// It was fetched with others before.
    Before,
    /// It was fetched now, as the first of these.
    Now(&'a [Command]),
}

/// State outside the queues that a fetch needs.
pub(crate) struct FetchContext<'a> {
    pub doorbells: &'a Doorbells,
    /// Doorbells of I/O queues are in host memory.
    pub shadowed: bool,
    /// Payloads may follow commands of I/O queues in their ring.
    pub inline_enabled: bool,
    /// Payloads are read in bursts, not slot by slot (profile).
    pub chunk_burst: bool,
    /// Takes the payload; its length is the longest allowed.
    pub inline: &'a mut [u8],
}

impl Queues {
    /// Fetches the next command of `qid` into `command`, with its inline payload, if all of it has arrived and there is
    /// a slot for its completion.
    #[inline(always)]
    pub fn fetch(
        &mut self,
        port: &mut Port<'_>,
        context: &mut FetchContext<'_>,
        qid: u16,
        command: &mut Command,
    ) -> Fetched {
        let Some(sq) = self.submission[usize::from(qid)].as_mut() else { return Fetched::Nothing };
        if sq.ring.available() == 0 {
            return Fetched::Nothing;
        }
        let shadowed = sq.cqid != 0 && context.shadowed;
        // The completion's slot first: a command that cannot be completed is not fetched.
        let Some(cq) = self.completion[usize::from(sq.cqid)].as_mut() else { return Fetched::Nothing };
        let doorbells = context.doorbells;
        let Some(permit) =
            cq.permit(|| (!shadowed).then(|| doorbells.load(DoorbellIndex::completion(sq.cqid))))
        else {
            cq.blocked.set();
            self.blocked = true;
            return Fetched::Nothing;
        };
        let enabled = qid != 0 && context.inline_enabled;
        let enabled = if sq.fetched.is_some() || !sq.ahead.is_empty() {
            take_fetched(sq, command).unwrap_or(enabled)
        } else {
            if read_command(port, sq.slot(sq.ring.head()), command).is_none() {
                return Fetched::Broken;
            }
            enabled
        };
        if command.cdw0.fuse() == Cdw0::FUSE_FIRST && qid != 0 {
            let first = FetchedCommand { command: *command, inline: enabled };
            return self.fetch_pair(port, context, qid, first, permit);
        }
        let inline_bytes = match inline::capsule(command, enabled, context.inline.len(), sq.ring.size()) {
            Capsule::None => None,
            Capsule::Broken => return Fetched::Broken,
            Capsule::Payload { slots, .. } if sq.ring.available() <= slots => {
                // The rest of the capsule is still to come. Other queues are served meanwhile.
                sq.fetched = Some(FetchedCommand { command: *command, inline: enabled });
                cq.ring.give_back(permit);
                return Fetched::Nothing;
            }
            Capsule::Payload { bytes, slots } => {
                if inline::fetch(port, sq, context.inline, slots, context.chunk_burst).is_err() {
                    return Fetched::Broken;
                }
                Some(bytes)
            }
        };
        sq.had_payload = inline_bytes.is_some();
        let taken = sq.ring.skip(1 + inline_bytes.map_or(0, vendor::inline_chunks) as u32);
        debug_assert!(taken, "slots that were available");
        if sq.ring.available() == 0 {
            self.ready.remove(qid);
        }
        let ticket = Ticket { sqid: qid, cid: command.cid(), cqid: sq.cqid, permit };
        Fetched::Command { ticket, inline_bytes }
    }

    /// Fetches the next commands of `qid` together, if there are several, so that their cache misses overlap. Where time is
    /// modelled, commands are fetched when the model says.
    #[inline]
    pub fn fetch_group(
        &mut self,
        port: &mut Port<'_>,
        qid: u16,
        inline_max_bytes: Option<usize>,
    ) -> Group<'_> {
        let Some(Some(sq)) = self.submission.get_mut(usize::from(qid)) else { return Group::None };
        // Slots behind a command with a payload are most likely its own.
        if sq.ring.available() < 2 || sq.had_payload || qid == 0 || port.meter.is_timing() {
            return Group::None;
        }
        if !sq.ahead.is_empty() {
            return Group::Before;
        }
        if sq.fetched.is_some() {
            return Group::None;
        }
        fetch_ahead(port, sq, inline_max_bytes);
        self.grouped = qid;
        Group::Now(sq.ahead.as_slice())
    }
}

/// Fetches a group of commands from the head of `sq` on.
#[inline(never)]
fn fetch_ahead(port: &mut Port<'_>, sq: &mut SubmissionQueue, inline_max_bytes: Option<usize>) {
    let SubmissionQueue { base, ahead, ring, .. } = sq;
    ahead.begin(inline_max_bytes.is_some());
    let (mut slots, mut commands) = (0, 0);
    while commands < PREFETCH_GROUP && slots < ring.available() {
        // A slot that cannot be read is reported when it is fetched as the head.
        let at = slot_at(*base, ring.behind_head(slots));
        if !ahead.push_with(|command| read_command(port, at, command)) {
            return;
        }
        commands += 1;
        let max_bytes = inline_max_bytes.unwrap_or_default();
        let Some(command) = ahead.as_slice().last() else { return };
        match inline::capsule(command, inline_max_bytes.is_some(), max_bytes, ring.size()) {
            Capsule::None => slots += 1,
            Capsule::Payload { slots: payload, .. } => slots += 1 + payload,
            Capsule::Broken => return,
        }
    }
}

/// Takes the command at the head, which was fetched before; whether payloads could follow commands then. None if it was not.
#[inline(never)]
fn take_fetched(sq: &mut SubmissionQueue, into: &mut Command) -> Option<bool> {
    if let Some(waits) = sq.fetched.take() {
        *into = waits.command;
        return Some(waits.inline);
    }
    sq.ahead.take(into)
}

/// Reads the command in the ring slot at an address. It stays in the ring until its payload has arrived too.
#[inline(always)]
pub(super) fn read_command(port: &mut Port<'_>, at: BusAddr, into: &mut Command) -> Option<()> {
    port.read_command(at, into).ok()?;
    port.meter.work(Work::Command);
    Some(())
}
