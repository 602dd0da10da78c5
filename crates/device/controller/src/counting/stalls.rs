//! Waits of commands by namespace and by queue.
//!
//! The flash counts every wait by cause. A command whose execution made its counts grow waited that long.

use std::collections::BTreeMap;

use byway_flash::{Stall, Stalls};

use crate::id::ControllerId;

/// A submission queue: controller and queue identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueOf {
    /// Controller.
    pub controller: ControllerId,
    /// Queue identifier.
    pub qid: u16,
}

/// Waits of the commands of one queue, or to one namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStalls {
    /// Waits by cause.
    pub by_cause: Stalls,
    /// Commands that waited.
    pub commands: u64,
    /// What the command waited that waited longest, for all causes together, in nanoseconds.
    pub longest_ns: u64,
}

impl CommandStalls {
    fn note(&mut self, waited: &Stalls) {
        self.by_cause.add(waited);
        self.commands += 1;
        self.longest_ns = self.longest_ns.max(waited.total_ns());
    }
}

/// Waits of commands at one moment.
#[derive(Clone, Debug, Default)]
pub struct StallSnapshot {
    /// All waits since the subsystem was opened.
    pub device: Stalls,
    /// Waits of commands to each namespace.
    pub namespaces: Vec<(u32, CommandStalls)>,
    /// Waits of commands of each queue.
    pub queues: Vec<(QueueOf, CommandStalls)>,
    /// Upkeep that no command waited for.
    pub upkeep: UpkeepTimes,
}

/// Upkeep by threads that had nothing to execute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpkeepTimes {
    /// Its time by cause.
    pub by_cause: Stalls,
    /// Quanta: each is what a thread did without a break.
    pub quanta: Stall,
}

/// Waits of commands since the subsystem was opened.
#[derive(Debug, Default)]
pub(crate) struct StallCounters {
    /// What the flash had counted after the last command.
    seen: Stalls,
    namespaces: BTreeMap<u32, CommandStalls>,
    queues: BTreeMap<QueueOf, CommandStalls>,
    quanta: Stall,
}

impl StallCounters {
    /// Counts what a command waited that was just executed, given what the flash has `counted`.
    #[inline]
    pub fn note(&mut self, counted: &Stalls, queue: QueueOf, nsid: u32) {
        if counted.total_ns() != self.seen.total_ns() {
            self.note_wait(counted, queue, nsid);
        }
    }

    #[cold]
    fn note_wait(&mut self, counted: &Stalls, queue: QueueOf, nsid: u32) {
        let waited = counted.since(&self.seen);
        self.seen = *counted;
        self.namespaces.entry(nsid).or_default().note(&waited);
        self.queues.entry(queue).or_default().note(&waited);
    }

    /// Leaves out waits that the flash has `counted` so far and that are of no command: of a sync that several commands share.
    pub fn skip(&mut self, counted: &Stalls) {
        self.seen = *counted;
    }

    /// Counts a quantum of upkeep.
    pub fn note_quantum(&mut self, took_ns: u64) {
        self.quanta.note(took_ns);
    }

    /// Forgets a namespace that is deleted.
    pub fn forget_namespace(&mut self, nsid: u32) {
        self.namespaces.remove(&nsid);
    }

    /// Forgets the queues of a controller that is gone.
    pub fn forget_controller(&mut self, id: ControllerId) {
        self.queues.retain(|queue, _| queue.controller != id);
    }

    /// The waits, where the flash has `counted` them, and `upkeep` beside.
    pub fn snapshot(&self, counted: &Stalls, upkeep: &Stalls) -> StallSnapshot {
        StallSnapshot {
            device: *counted,
            namespaces: self.namespaces.iter().map(|(nsid, stalls)| (*nsid, *stalls)).collect(),
            queues: self.queues.iter().map(|(queue, stalls)| (*queue, *stalls)).collect(),
            upkeep: UpkeepTimes { by_cause: *upkeep, quanta: self.quanta },
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_flash::StallCause;

    use super::*;

    #[test]
    fn stall_counters_give_a_wait_to_the_command_that_was_executed() {
        let (mut counters, mut flash) = (StallCounters::default(), Stalls::default());
        let queue = |qid| QueueOf { controller: ControllerId(1), qid };
        counters.note(&flash, queue(1), 1);
        flash.note(StallCause::Flush, 4000);
        flash.note(StallCause::GarbageCollection, 2000);
        counters.note(&flash, queue(1), 2);
        counters.note(&flash, queue(2), 1);
        flash.note(StallCause::Flush, 3000);
        counters.note(&flash, queue(2), 1);

        let snapshot = counters.snapshot(&flash, &Stalls::default());
        let of = |stalls: &CommandStalls| (stalls.commands, stalls.longest_ns);
        let queues: Vec<_> = snapshot.queues.iter().map(|(queue, stalls)| (queue.qid, of(stalls))).collect();
        assert_eq!(queues, [(1, (1, 6000)), (2, (1, 3000))]);
        let namespaces: Vec<_> =
            snapshot.namespaces.iter().map(|(nsid, stalls)| (*nsid, of(stalls))).collect();
        assert_eq!(namespaces, [(1, (1, 3000)), (2, (1, 6000))]);
        assert_eq!(snapshot.device.of(StallCause::Flush).count, 2);
    }

    #[test]
    fn stall_counters_give_a_shared_wait_to_no_command() {
        let (mut counters, mut flash) = (StallCounters::default(), Stalls::default());
        flash.note(StallCause::Sync, 9000);
        counters.skip(&flash);
        counters.note(&flash, QueueOf { controller: ControllerId(1), qid: 1 }, 1);
        let snapshot = counters.snapshot(&flash, &Stalls::default());
        assert!(snapshot.queues.is_empty() && snapshot.namespaces.is_empty());
        assert_eq!(snapshot.device.of(StallCause::Sync).count, 1);
    }

    #[test]
    fn stall_counters_forget_a_namespace_and_a_controller() {
        let (mut counters, mut flash) = (StallCounters::default(), Stalls::default());
        flash.note(StallCause::Sync, 4000);
        counters.note(&flash, QueueOf { controller: ControllerId(1), qid: 1 }, 7);
        counters.forget_namespace(7);
        counters.forget_controller(ControllerId(1));
        let snapshot = counters.snapshot(&flash, &Stalls::default());
        assert!(snapshot.namespaces.is_empty() && snapshot.queues.is_empty());
    }
}
