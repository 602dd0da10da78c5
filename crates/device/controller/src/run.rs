//! Serving queues: doorbells, fetching commands, and handing them to who executes them.

use byway_kv::Expect;
use byway_link::Work;
use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::vendor;
use byway_spec::{Cdw0, Command};

use crate::admin::effects;
use crate::completion::Ticket;
use crate::controller::Controller;
use crate::counting::Typed;
use crate::error::CommandError;
use crate::fused::Pair;
use crate::namespace::Outcome;
use crate::port::Port;
use crate::queue::{FetchedCommand, MAX_IO_QUEUES, SubmissionQueue};
use crate::subsystem::Subsystem;
use crate::transfer::inline::{self, Capsule};

/// What a look at a submission queue gave.
pub(crate) enum Fetched {
    /// The queue has nothing that can be served now.
    Nothing,
    /// A command, with the length of the inline payload that came with it.
    Command { ticket: Ticket, inline_bytes: Option<usize> },
    /// Two fused commands.
    Pair(Box<Pair>),
    /// The first of two fused commands, without the second.
    Alone(Ticket),
    /// The queue's boundary between commands and payloads is lost.
    Broken,
}

impl Controller {
    /// Reads the doorbells that were rung and marks their queues. `rung` is one whose mark the caller kept.
    #[inline]
    pub(crate) fn take_doorbells(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        rung: Option<DoorbellIndex>,
    ) {
        if let Some(index) = rung {
            self.take_doorbell(doorbells, index);
        }
        doorbells.take_dirty(|index| self.take_doorbell(doorbells, index));
        if self.admin.has_shadow_doorbells() {
            self.take_shadow_doorbells(port);
        }
    }

    /// Takes what the register of doorbell `index` holds.
    #[inline]
    pub(crate) fn take_doorbell(&mut self, doorbells: &Doorbells, index: DoorbellIndex) {
        // The register of a shadowed doorbell only says: look. Its value may be older than one seen already. Those of a
        // queue on leave are looked at where it is, and marked once it is back.
        if self.is_shadowed(index.queue()) || self.away.contains(index.queue()) {
            return;
        }
        let value = doorbells.load(index);
        let accepted = match index.is_completion() {
            false => self.take_tail(index.queue(), value),
            true => self.take_head(index.queue(), value),
        };
        if !accepted {
            self.note_invalid_doorbell(index, value);
        }
    }

    /// Takes a new tail of submission queue `qid`; says whether it was one that can be.
    #[inline]
    pub(crate) fn take_tail(&mut self, qid: u16, tail: u32) -> bool {
        let Some(Some(sq)) = self.submission.get_mut(usize::from(qid)) else { return false };
        self.ready.insert(qid);
        self.rung.insert(qid);
        sq.ring.set_tail(tail).is_ok()
    }

    /// Takes a new head of completion queue `qid`; who waited for room there may go on.
    pub(crate) fn take_head(&mut self, qid: u16, head: u32) -> bool {
        let Some(Some(cq)) = self.completion.get_mut(usize::from(qid)) else { return false };
        let accepted = cq.ring.set_head(head).is_ok();
        if std::mem::take(&mut cq.blocks) {
            for (sqid, sq) in self.submission.iter().enumerate() {
                if sq.as_ref().is_some_and(|sq| sq.cqid == qid) {
                    self.ready.insert(sqid as u16);
                }
            }
        }
        accepted
    }

    /// Looks anew at the heads of the completion queues that commands wait for.
    #[cold]
    pub(crate) fn wake_blocked(&mut self, doorbells: &Doorbells) {
        // Admin commands may be for queues that are on leave: whoever serves them has all of them in.
        let first = u16::from(!self.away.is_empty());
        self.blocked |= first > 0 && matches!(&self.completion[0], Some(cq) if cq.blocks);
        for cqid in first..=MAX_IO_QUEUES {
            if !self.is_shadowed(cqid) && matches!(&self.completion[usize::from(cqid)], Some(cq) if cq.blocks)
            {
                let head = doorbells.load(DoorbellIndex::completion(cqid));
                // Its submission queues are ready again; one that finds no room says so again.
                self.take_head(cqid, head);
            }
        }
    }

    /// Serves at most one command of queue `qid`.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        qid: u16,
        now_ps: u64,
    ) {
        if qid == 0 && !self.admin_may_go_on() {
            return self.ready.remove(0);
        }
        port.meter.begin(now_ps);
        let mut command = Command::default();
        match self.fetch(port, doorbells, qid, &mut command) {
            Fetched::Nothing => self.ready.remove(qid),
            Fetched::Broken => self.fail(),
            Fetched::Alone(ticket) => self.abort_alone(subsystem, port, (ticket, &command), now_ps),
            Fetched::Pair(pair) => self.serve_pair(subsystem, port, *pair, now_ps),
            Fetched::Command { mut ticket, inline_bytes } => {
                self.look_ahead(subsystem, port, qid);
                // Until the command says which.
                self.room.mapped.len_bytes = 0;
                let result = if qid == 0 {
                    let Some(mine) = self.keep_if_long(ticket, &command) else { return };
                    ticket = mine;
                    self.execute_admin(subsystem, port, doorbells, &command)
                } else {
                    self.execute_fetched(subsystem, port, qid, &command, inline_bytes)
                };
                let changes = subsystem.synced_completions && effects::changes(qid == 0, command.opcode());
                let typed = Typed::of(qid, &command);
                self.count(subsystem, port, typed, inline_bytes, (&result, changes));
                self.finish(port, ticket, result, changes);
                if !self.habits.coalesce_interrupts {
                    self.announce(port, now_ps);
                }
            }
        }
    }

    /// Executes a command of a ring, with the payload that was fetched behind it.
    #[inline]
    fn execute_fetched(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
        inline_bytes: Option<usize>,
    ) -> Result<Outcome, CommandError> {
        let Some(bytes) = inline_bytes else { return self.execute_io(subsystem, port, qid, command, None) };
        let payload = std::mem::take(&mut self.inline);
        let result = self.execute_io(subsystem, port, qid, command, Some(&payload[..bytes]));
        self.inline = payload;
        result
    }

    /// Whether the admin queue is served now: it waits for a command that was put off, and for queue pairs that are away.
    fn admin_may_go_on(&mut self) -> bool {
        self.admin_waits = !self.away.is_empty();
        !self.admin_waits && !self.put_off.holds_admin()
    }

    /// Fetches the next command of `qid` into `command`, with its inline payload, if all of it has arrived and its completion
    /// has a place.
    #[inline(always)]
    fn fetch(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        qid: u16,
        command: &mut Command,
    ) -> Fetched {
        let Some(sq) = self.submission[usize::from(qid)].as_mut() else { return Fetched::Nothing };
        if sq.ring.available() == 0 {
            return Fetched::Nothing;
        }
        let shadowed = sq.cqid != 0 && self.admin.has_shadow_doorbells();
        // The completion's place first: a command that cannot be completed is not fetched.
        let Some(cq) = self.completion[usize::from(sq.cqid)].as_mut() else { return Fetched::Nothing };
        let Some(permit) =
            cq.permit(|| (!shadowed).then(|| doorbells.load(DoorbellIndex::completion(sq.cqid))))
        else {
            cq.blocks = true;
            self.blocked = true;
            return Fetched::Nothing;
        };
        let enabled = qid != 0 && self.admin.transfers.inline();
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
            return self.fetch_pair(port, doorbells, qid, first, permit);
        }
        let inline_bytes = match inline::capsule(command, enabled, self.inline.len(), sq.ring.size()) {
            Capsule::None => None,
            Capsule::Broken => return Fetched::Broken,
            Capsule::Payload { slots, .. } if sq.ring.available() <= slots => {
                // The rest of the capsule is still to come. Other queues go on meanwhile.
                sq.fetched = Some(FetchedCommand { command: *command, inline: enabled });
                cq.ring.give_back(permit);
                return Fetched::Nothing;
            }
            Capsule::Payload { bytes, slots } => {
                if inline::fetch(port, sq, &mut self.inline, slots, self.habits.chunk_burst).is_err() {
                    return Fetched::Broken;
                }
                Some(bytes)
            }
        };
        let taken = sq.ring.skip(1 + inline_bytes.map_or(0, vendor::inline_chunks) as u32);
        debug_assert!(taken, "slots looked at are there");
        if sq.ring.available() == 0 {
            self.ready.remove(qid);
        }
        let ticket = Ticket { sqid: qid, cid: command.cid(), cqid: sq.cqid, permit };
        Fetched::Command { ticket, inline_bytes }
    }
}

/// Commands fetched ahead of the one at hand.
const AHEAD: usize = 8;
/// So far ahead of its turn a command's index entry is asked for, and so far its value: what was asked for before has
/// come by then.
const ENTRY_AHEAD: usize = 4;
const VALUE_AHEAD: usize = 2;

impl Controller {
    /// Fetches some of the commands that wait behind the one at hand, and lets their namespaces ask for memory that
    /// they will look at, so that what several commands wait for comes at the same time. Where time is modelled,
    /// commands are fetched when the model says.
    #[inline]
    fn look_ahead(&mut self, subsystem: &mut Subsystem, port: &mut Port<'_>, qid: u16) {
        let Some(Some(sq)) = self.submission.get_mut(usize::from(qid)) else { return };
        if qid == 0 || sq.ring.available() == 0 || sq.fetched.is_some() || port.meter.is_timing() {
            return;
        }
        let (inline, limit) = (self.admin.transfers.inline(), self.inline.len());
        let may_follow =
            |command: &Command, entries| inline::capsule(command, inline, limit, entries) == Capsule::None;
        let known = sq.ahead.len();
        while sq.ahead.len() < AHEAD.min(sq.ring.available() as usize)
            && sq.ahead.back().is_none_or(|last| may_follow(last, sq.ring.size()))
        {
            // A slot that cannot be read is told of when its turn comes.
            let slot = sq.ring.behind_head(sq.ahead.len() as u32);
            let mut command = Command::default();
            if fetch_command(port, sq, slot, &mut command).is_none() {
                break;
            }
            sq.ahead.push_back(command);
        }
        let fresh = sq.ahead.iter().skip(known).map(|command| (command, Expect::Key));
        let entry = sq.ahead.get(ENTRY_AHEAD - 1).map(|command| (command, Expect::Entry));
        let value = sq.ahead.get(VALUE_AHEAD - 1).map(|command| (command, Expect::Value));
        for (command, stage) in fresh.chain(entry).chain(value) {
            if let Ok((namespace, flash)) = subsystem.attached(command.nsid, self.id) {
                namespace.expect(flash, command, stage);
            }
        }
    }
}

/// Takes the command at the head, which was fetched before; whether payloads could follow commands then, if that was noted.
#[inline(never)]
fn take_fetched(sq: &mut SubmissionQueue, into: &mut Command) -> Option<bool> {
    if let Some(waits) = sq.fetched.take() {
        *into = waits.command;
        return Some(waits.inline);
    }
    *into = sq.ahead.pop_front()?;
    None
}

/// Reads the command in a slot of `sq`; it stays there until its payload has come too.
#[inline(always)]
pub(crate) fn fetch_command(
    port: &mut Port<'_>,
    sq: &SubmissionQueue,
    slot: u16,
    into: &mut Command,
) -> Option<()> {
    port.read_command(sq.slot(slot), into).ok()?;
    port.meter.work(Work::Command);
    Some(())
}
