//! Counting the commands of hosts: for SMART always, by type where metrics are on.

use byway_flash::{HostCounters, HostIo, StallCause};
use byway_spec::Status;

use super::Subsystem;
use crate::counting::{
    CommandCounters, CommandSnapshot, Counted, Executed, HostCommand, QueueKind, QueueOf, StallSnapshot,
    Typed,
};
use crate::namespace::Namespace;
use crate::outcome::ExternalWork;

impl Subsystem {
    /// Counts commands by type from now on.
    pub fn count_commands(&mut self) {
        self.counting.get_or_insert_with(|| Box::new(CommandCounters::new()));
    }

    /// Whether commands are counted by type.
    #[inline]
    #[must_use]
    pub fn counts_commands(&self) -> bool {
        self.counting.is_some()
    }

    /// Commands that are executed from here on began at `now_ns`, by any monotonic clock.
    #[inline]
    pub fn begin_commands(&mut self, now_ns: u64) {
        if let Some(counting) = &mut self.counting {
            counting.begin(now_ns);
        }
    }

    /// Commands that completed since then took until `now_ns`, which is called if there are any.
    #[inline]
    pub fn end_commands(&mut self, now_ns: impl FnOnce() -> u64) {
        if let Some(counting) = self.counting.as_mut().filter(|counting| counting.has_fresh()) {
            counting.settle(now_ns());
        }
    }

    /// Counts an executed command, before its completion takes the path that its result asks for.
    #[inline]
    pub(crate) fn count(&mut self, executed: &Executed<'_>) {
        if executed.typed.queue == QueueKind::Io {
            self.count_host(executed.typed.opcode, if executed.result.is_ok() { executed.bytes } else { 0 });
        }
        if self.counting.is_some() {
            self.count_by_type(executed);
        }
    }

    /// Counts an executed command by its type, if metrics are on.
    pub(crate) fn count_by_type(&mut self, executed: &Executed<'_>) {
        let Self { counting, slots, .. } = self;
        let Some(counting) = counting else { return };
        let nsid = executed.typed.nsid;
        counting.count(executed, || {
            let slot = slots.get((nsid as usize).checked_sub(1)?)?.as_ref();
            slot.map(|slot| slot.namespace.csi())
        });
    }

    /// Counts a command that completed without being executed.
    #[cold]
    pub(crate) fn count_unexecuted(&mut self, typed: Typed, status: Status) {
        let csi = self.namespace(typed.nsid).map(Namespace::csi);
        if let Some(counting) = &mut self.counting {
            counting.count_unexecuted(typed, status, || csi);
        }
    }

    /// Work that a command waited for has ended, and the command ends with `status`.
    pub(crate) fn count_external(&mut self, work: ExternalWork, status: Status) {
        if let Some(counting) = &mut self.counting {
            counting.end_external(work, status);
        }
    }

    /// Counts an I/O command for SMART, which moved `bytes` of data if it succeeded.
    #[inline]
    pub(crate) fn count_host(&mut self, opcode: u8, bytes: usize) {
        if let Some(HostCommand { io, has_data }) = HostCommand::of(opcode) {
            self.flash.count_host(io, 1, if has_data { bytes as u64 } else { 0 });
        }
    }

    /// Counts commands that a delegated queue executed without the run lock, which moved `bytes` of data in all.
    pub(crate) fn count_unlocked(&mut self, counted: Counted, commands: u64, bytes: u64) {
        self.io.note_many(counted, commands);
        // Data counts whether it came by a pointer or in the commands.
        if let Some(HostCommand { io, .. }) = HostCommand::of(counted.opcode()) {
            self.flash.count_host(io, commands, bytes);
        }
    }

    /// Counts commands that serving threads executed without the run lock, and counted in their tallies.
    pub(crate) fn count_tallied(&mut self, more: HostCounters) {
        self.io.note_many(Counted::RETRIEVED_BY_CAPSULE, more.reads);
        self.io.note_many(Counted::STORED_IN_CAPSULE, more.writes);
        self.flash.count_tallied(more);
    }

    /// Counts a stored value for SMART whose bytes came in commands or in device memory.
    #[inline]
    pub(crate) fn count_value(&mut self, bytes: usize) {
        self.flash.count_host(HostIo::Write, 0, bytes as u64);
    }

    /// Notes that commands waited `waited_ns` before one was executed.
    #[inline]
    pub fn note_wait(&mut self, cause: StallCause, waited_ns: u64) {
        if waited_ns > 0 {
            self.flash.note_stall(cause, waited_ns);
        }
    }

    /// Counts what a command waited that was just executed.
    #[inline]
    pub(crate) fn count_stall(&mut self, queue: QueueOf, nsid: u32) {
        self.stalls.note(self.flash.stalls(), queue, nsid);
    }

    /// Waits of commands since the subsystem was opened.
    #[must_use]
    pub fn stall_snapshot(&self) -> StallSnapshot {
        self.stalls.snapshot(self.flash.stalls(), self.flash.upkeep())
    }

    /// Commands since counting began; none where metrics are off.
    #[must_use]
    pub fn command_snapshot(&self) -> CommandSnapshot {
        self.counting.as_ref().map_or_else(CommandSnapshot::default, |counting| counting.snapshot())
    }
}
