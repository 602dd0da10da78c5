//! Group commit: one sync of the image for all commands that wait for one.
//!
//! The owner of the device syncs: [`Controller::begin_sync`] says which commands a sync that begins now covers,
//! [`Controller::end_sync`] completes those. The device may run in between.

use byway_flash::{FinishedSync, PendingSync};
use byway_spec::Status;

use super::Controller;
use crate::error::CommandError;
use crate::group_commit::Uncommitted;
use crate::port::Port;
use crate::subsystem::Subsystem;

impl Controller {
    /// Whether commands wait for a sync that has not begun.
    #[inline]
    pub fn wants_sync(&self) -> bool {
        self.group_commit.wants_sync()
    }

    /// Whether a command of queue `sqid` waits for a sync that has not begun.
    pub fn waits_for_sync(&self, sqid: u16) -> bool {
        self.group_commit.has_waiting(sqid)
    }

    /// Queues with commands that wait for a sync that has not begun.
    pub fn queues_that_wait(&self) -> usize {
        self.group_commit.waiting_queues()
    }

    /// Begins a sync for every command that waits for one; `None` if none does. One sync at a time.
    pub fn begin_sync(&mut self, subsystem: &mut Subsystem) -> Option<PendingSync> {
        self.cover().then(|| subsystem.begin_sync())
    }

    /// Has a sync that begins now cover the commands that wait for one; whether there are any.
    pub fn cover(&mut self) -> bool {
        self.group_commit.cover()
    }

    /// Ends a sync: completes the commands that it covers. If it failed they fail, and the subsystem is read-only from
    /// then on.
    pub fn end_sync(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        sync: FinishedSync,
        now_ps: u64,
    ) {
        let synced = subsystem.end_sync(sync);
        self.end_cover(port, &synced, now_ps);
    }

    /// Completes the commands of this controller that a sync for several controllers covered. `synced` is how it ended.
    pub fn end_cover(&mut self, port: &mut Port<'_>, synced: &Result<(), CommandError>, now_ps: u64) {
        let mut covered = self.group_commit.take_covered();
        for command in covered.drain(..) {
            let synced = synced.clone().map_err(|error| self.admin.log_error(&command.ticket, &error, None));
            self.deliver_uncommitted(port, command, synced);
        }
        self.group_commit.reuse(covered);
        self.announce(port, now_ps);
    }

    /// Syncs for the commands that wait while the device does not run: for owners without other work meanwhile.
    pub fn sync_now(&mut self, subsystem: &mut Subsystem, port: &mut Port<'_>, now_ps: u64) {
        if let Some(sync) = self.begin_sync(subsystem) {
            self.end_sync(subsystem, port, sync.wait(), now_ps);
        }
    }

    /// Submission queue `sqid` is being deleted: its commands were executed, but may not be durable.
    pub(super) fn abort_uncommitted_of(&mut self, port: &mut Port<'_>, sqid: u16) {
        for command in self.group_commit.take_queue(sqid) {
            self.deliver_uncommitted(port, command, Err(Status::ABORTED_SQ_DELETION));
        }
    }

    fn deliver_uncommitted(&mut self, port: &mut Port<'_>, command: Uncommitted, synced: Result<(), Status>) {
        let Uncommitted { ticket, entry, due_ps } = command.finish(&self.queues, synced);
        self.deliver(port, ticket, entry, due_ps);
    }
}
