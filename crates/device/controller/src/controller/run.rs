//! A run: takes doorbells, fetches commands queue by queue, executes them and completes them.

use byway_flash::StallCause;
use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::Command;

use super::{Controller, Next};
use crate::counting::Typed;
use crate::error::CommandError;
use crate::opcode;
use crate::outcome::Outcome;
use crate::port::Port;
use crate::queue::{FetchContext, Fetched, Group};
use crate::subsystem::Subsystem;

impl Controller {
    /// Serves the doorbells rung since the last run, at modelled time `now_ps`, for at most `budget` commands.
    /// `rung` is a doorbell that the caller wrote without marking it, as it runs the device itself.
    #[inline]
    pub fn run(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        rung: Option<DoorbellIndex>,
        now_ps: u64,
        budget: u32,
    ) -> Next {
        self.follow_subsystem_reset(subsystem, doorbells);
        if !self.is_ready() {
            doorbells.take_dirty(|_| {});
            return if self.sanitizes_on(subsystem) { Next::At(now_ps) } else { Next::Idle };
        }
        self.admin.tick(now_ps);
        self.take_doorbells(port, doorbells, rung);
        self.post_due(port, now_ps);
        if self.queues.take_blocked() {
            self.queues.wake_blocked(doorbells, self.admin.has_shadow_doorbells());
        }
        subsystem.note_wait(StallCause::FullRing, self.queues.take_full_ring_ns());
        let mut left = budget;
        while left > 0 && !subsystem.is_full() {
            let Some(qid) = self.queues.next_ready() else { break };
            left -= 1;
            self.serve(subsystem, port, doorbells, qid, now_ps);
        }
        self.finish_run(subsystem, port, doorbells, now_ps)
    }

    #[inline]
    fn finish_run(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) -> Next {
        self.report_events(subsystem, port, doorbells, now_ps);
        self.arm_shadow_doorbells(port);
        self.post_due(port, now_ps);
        self.announce(port, now_ps);
        self.admin.number_errors(subsystem);
        if self.queues.has_ready() && !subsystem.is_full() {
            return Next::Now;
        }
        if self.sanitizes_on(subsystem) {
            return Next::At(now_ps);
        }
        match (self.completions.next_due_ps(), self.admin.deadline_ps()) {
            (None, None) => Next::Idle,
            (Some(due_ps), None) | (None, Some(due_ps)) => Next::At(due_ps),
            (Some(one), Some(other)) => Next::At(one.min(other)),
        }
    }

    /// Serves at most one command of queue `qid`.
    #[inline]
    fn serve(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        qid: u16,
        now_ps: u64,
    ) {
        if qid == 0 && !self.may_serve_admin() {
            return self.queues.set_idle(0);
        }
        port.meter.begin(now_ps);
        self.room.is_prefetched = self.prefetch(subsystem, port, qid);
        self.room.result.close();
        let mut command = Command::default();
        let mut context = FetchContext {
            doorbells,
            shadowed: self.admin.has_shadow_doorbells(),
            inline_enabled: self.admin.transfers().inline(),
            chunk_burst: self.habits.chunk_burst,
            inline: &mut self.inline,
        };
        match self.queues.fetch(port, &mut context, qid, &mut command) {
            Fetched::Nothing => self.queues.set_idle(qid),
            Fetched::Broken => self.fail(),
            Fetched::Alone(ticket) => self.abort_alone(subsystem, port, (ticket, &command), now_ps),
            Fetched::Pair(pair) => self.serve_pair(subsystem, port, *pair, now_ps),
            Fetched::Command { mut ticket, inline_bytes } => {
                // Unknown until the command maps its data.
                self.room.mapped.len_bytes = 0;
                let result = if qid == 0 {
                    let Some(not_deferred) = self.defer_if_long(ticket, &command) else { return };
                    ticket = not_deferred;
                    self.execute_admin(subsystem, port, doorbells, &command)
                } else {
                    self.open_result(subsystem, doorbells, &ticket, &command);
                    self.execute_fetched(subsystem, port, qid, &command, inline_bytes)
                };
                let changes = subsystem.syncs_completions() && opcode::changes(qid == 0, command.opcode());
                let typed = Typed::of(qid, &command);
                self.count(subsystem, port, typed, inline_bytes, (&result, changes));
                match result {
                    Ok(Outcome::Done { dw0, dw1 }) if self.room.result.len_bytes() > 0 => {
                        self.complete_with_result(port, ticket, dw0, dw1);
                    }
                    result => self.finish(port, ticket, result, changes),
                }
                self.room.result.close();
                self.announce_each(port, now_ps);
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

    /// Whether the admin queue is served now. It waits for a deferred command and for delegated queue pairs.
    fn may_serve_admin(&mut self) -> bool {
        !self.queues.note_admin_waits() && !self.deferred.has_work()
    }

    /// Fetches the next commands of a queue together, if there are several, and prefetches the memory that their namespace
    /// will need. Whether that was done for the next command.
    #[inline]
    fn prefetch(&mut self, subsystem: &mut Subsystem, port: &mut Port<'_>, qid: u16) -> bool {
        let inline_max_bytes = self.admin.transfers().inline().then_some(self.inline.len());
        let group = match self.queues.fetch_group(port, qid, inline_max_bytes) {
            Group::None => return false,
            Group::Before => return true,
            Group::Now(group) => group,
        };
        let Some(nsid) = group.first().map(|command| command.nsid) else { return false };
        if let Ok((namespace, flash)) = subsystem.attached(nsid, self.id) {
            namespace.prefetch(flash, group.iter().filter(|command| command.nsid == nsid));
        }
        true
    }
}
