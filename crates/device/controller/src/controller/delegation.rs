//! Delegating queue pairs to threads, and reclaiming them (decision 0009).

use super::Controller;
use crate::delegated::{DelegatedHabits, DelegatedQueue, DelegatedTo};
use crate::subsystem::Subsystem;

impl Controller {
    /// Takes I/O queue pair `qid` out of the controller, if it can be delegated: its completion queue is its own, none of
    /// its commands waits, and neither synced completions nor external engines need the controller for every command.
    ///
    /// The caller keeps no modelled time.
    pub fn delegate(
        &mut self,
        subsystem: &Subsystem,
        qid: u16,
        to: DelegatedTo,
    ) -> Option<Box<DelegatedQueue>> {
        if qid == 0 || !self.delegates(subsystem, to) || self.external.has_commands_of(qid) {
            return None;
        }
        let habits = self.delegated_habits(subsystem, qid);
        let blocks = subsystem.block_access(self.id);
        let buffered = self.admin.shadow_doorbells().map(|shadow| shadow.pair(qid));
        let (sq, cq) = self.queues.delegate(qid)?;
        Some(Box::new(DelegatedQueue::new(qid, (sq, cq), buffered, habits, blocks)))
    }

    /// Whether queue pairs can be delegated now.
    fn delegates(&self, subsystem: &Subsystem, to: DelegatedTo) -> bool {
        let finds_doorbells = match to {
            DelegatedTo::Submitter => !self.admin.has_shadow_doorbells(),
            DelegatedTo::Poller => true,
        };
        self.is_ready()
            && finds_doorbells
            && !self.registers.is_admin_only()
            && !subsystem.syncs_completions()
            && self.group_commit.is_empty()
            && !subsystem.has_engines()
    }

    /// Whether the host chose admin commands alone.
    pub(crate) fn is_admin_only(&self) -> bool {
        self.registers.is_admin_only()
    }

    /// Whether the host chose every I/O command set.
    pub(crate) fn serves_all_sets(&self) -> bool {
        self.registers.serves_all_sets()
    }

    /// Whether it went through every reset of the subsystem.
    pub(crate) fn follows(&self, subsystem: &Subsystem) -> bool {
        self.resets_seen == subsystem.resets()
    }

    /// Puts a delegated queue pair back. Everything it gathered has been executed and completed.
    pub fn reclaim(&mut self, queue: Box<DelegatedQueue>) {
        let parts = queue.into_parts();
        parts.errors.into_iter().for_each(|noted| self.admin.add_error(noted));
        if let (Some(pair), Some(shadow)) = (parts.buffered, self.admin.shadow_doorbells_mut()) {
            shadow.take_pair(pair);
        }
        self.queues.reclaim(parts.qid, parts.sq, parts.cq);
        if parts.broken {
            self.fail();
        }
    }

    fn delegated_habits(&self, subsystem: &Subsystem, qid: u16) -> DelegatedHabits {
        let vector = self.queues.completion(qid).and_then(|cq| cq.vector);
        // With CC.CSS 000b the controller refuses key-value commands.
        let all_sets = self.registers.serves_all_sets();
        DelegatedHabits {
            id: self.id,
            key_value: if all_sets { subsystem.key_value_namespaces(self.id) } else { 0 },
            transfers: self.admin.transfers(),
            sgls: subsystem.options().sgls,
            inline_max_bytes: self.inline.len(),
            piggyback_max_bytes: subsystem.profile().limits.piggyback_max_bytes as usize,
            whole_page_prp: self.habits.whole_page_prp,
            chunk_burst: self.habits.chunk_burst,
            result_max_bytes: if self.admin.transfers().inline_read() { self.result_max_bytes } else { 0 },
            coalesce_interrupts: self.habits.coalesce_interrupts,
            vector: vector.filter(|vector| !self.registers.is_masked(*vector)),
        }
    }
}
