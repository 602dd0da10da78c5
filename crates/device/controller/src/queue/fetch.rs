//! Fetching commands from rings, each with the inline payload behind it.

use byway_kv::PrefetchStage;
use byway_link::Work;
use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::{Cdw0, Command, vendor};

use super::pair::FusedPair;
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

/// Commands fetched ahead of the current one.
const AHEAD: usize = 8;

/// Distance, in commands, at which a command's index entry and its value are prefetched. The stage before has arrived
/// by then.
const ENTRY_AHEAD: usize = 4;
const VALUE_AHEAD: usize = 2;

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
            if fetch_command(port, sq, sq.ring.head(), command).is_none() {
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
        let taken = sq.ring.skip(1 + inline_bytes.map_or(0, vendor::inline_chunks) as u32);
        debug_assert!(taken, "slots that were available");
        if sq.ring.available() == 0 {
            self.ready.remove(qid);
        }
        let ticket = Ticket { sqid: qid, cid: command.cid(), cqid: sq.cqid, permit };
        Fetched::Command { ticket, inline_bytes }
    }

    /// Fetches commands behind the current one, and passes each to `prefetch` with the memory that it needs next, so that
    /// cache misses of several commands overlap. Where time is modelled, commands are fetched when the model says.
    #[inline]
    pub fn fetch_ahead(
        &mut self,
        port: &mut Port<'_>,
        qid: u16,
        (inline_enabled, inline_max_bytes): (bool, usize),
        mut prefetch: impl FnMut(&Command, PrefetchStage),
    ) {
        let Some(Some(sq)) = self.submission.get_mut(usize::from(qid)) else { return };
        if qid == 0 || sq.ring.available() == 0 || sq.fetched.is_some() || port.meter.is_timing() {
            return;
        }
        let may_follow = |command: &Command, entries| {
            inline::capsule(command, inline_enabled, inline_max_bytes, entries) == Capsule::None
        };
        let known = sq.ahead.len();
        while sq.ahead.len() < AHEAD.min(sq.ring.available() as usize)
            && sq.ahead.back().is_none_or(|last| may_follow(last, sq.ring.size()))
        {
            // A slot that cannot be read is reported when it is fetched as the head.
            let slot = sq.ring.behind_head(sq.ahead.len() as u32);
            let mut command = Command::default();
            if fetch_command(port, sq, slot, &mut command).is_none() {
                break;
            }
            sq.ahead.push_back(command);
        }
        let fresh = sq.ahead.iter().skip(known).map(|command| (command, PrefetchStage::Key));
        let entry = sq.ahead.get(ENTRY_AHEAD - 1).map(|command| (command, PrefetchStage::Entry));
        let value = sq.ahead.get(VALUE_AHEAD - 1).map(|command| (command, PrefetchStage::Value));
        for (command, stage) in fresh.chain(entry).chain(value) {
            prefetch(command, stage);
        }
    }
}

/// Takes the command at the head, which was fetched before. For one that waited for its payload: whether payloads could
/// follow commands when it was fetched.
#[inline(never)]
fn take_fetched(sq: &mut SubmissionQueue, into: &mut Command) -> Option<bool> {
    if let Some(waits) = sq.fetched.take() {
        *into = waits.command;
        return Some(waits.inline);
    }
    *into = sq.ahead.pop_front()?;
    None
}

/// Reads the command in a slot of `sq`. It stays in the ring until its payload has arrived too.
#[inline(always)]
pub(super) fn fetch_command(
    port: &mut Port<'_>,
    sq: &SubmissionQueue,
    slot: u16,
    into: &mut Command,
) -> Option<()> {
    port.read_command(sq.slot(slot), into).ok()?;
    port.meter.work(Work::Command);
    Some(())
}
