//! What a device of several paths and its queues share: the paths, admin commands over them, and namespace layouts.

use std::sync::Arc;
use std::time::Duration;

use byway_core::identify::Identifies;
use byway_core::layouts::{Layouts, changes_namespaces};
use byway_core::moves::Layout;
use byway_core::{
    AdminCommand, Buffer, Capabilities, Deadline, Error, ErrorKind, Failed, Identity, Namespace, Outcome,
    Payload, Result, check_admin, identify,
};
use byway_spec::base::ana::AnaState;

use super::live::Paths;
use crate::connection::{Order, Way};
use crate::order::order_of_admin;
use crate::owner::Owner;

/// What the device and its queues share.
pub(crate) struct PathSet {
    pub paths: Arc<Paths>,
    /// Of each path, in their order.
    pub owners: Vec<Arc<Owner>>,
    pub layouts: Arc<Layouts>,
    pub identity: Identity,
    /// Common capabilities of the paths that were live at the opening.
    pub capabilities: Capabilities,
    /// Namespaces report their command set.
    pub command_sets: bool,
}

impl Drop for PathSet {
    /// All admin threads are asked to end before the first is waited for.
    fn drop(&mut self) {
        if !self.owners.iter().all(|owner| owner.process.is_current()) {
            return;
        }
        self.paths.end();
        self.owners.iter().for_each(|owner| owner.association.end());
    }
}

impl PathSet {
    /// Sends an admin command by a live path; with `waits`, it waits for one.
    ///
    /// # Errors
    /// When no path carries it, or it fails.
    pub fn admin(&self, command: AdminCommand, waits: bool) -> Result<Outcome> {
        check_admin(&command)?;
        self.capabilities.admin.require(&command)?;
        let order = order_of_admin(&command, 0);
        let changes = changes_namespaces(&order.entry);
        if changes {
            self.layouts.begin_change();
        }
        let result = self.send(order, command.into_payload(), waits);
        if changes {
            self.layouts.end_change();
        }
        result
    }

    /// By the best path, and by others while it can be: where a path does not serve a command, or was lost with one that
    /// changes nothing.
    fn send(&self, order: Order, mut payload: Payload, waits: bool) -> Result<Outcome> {
        let nsid = order.entry.nsid;
        let timeout = if waits { self.paths.peer(0).options.admin_timeout } else { Duration::ZERO };
        let deadline = Deadline::after(timeout);
        let (mut tried, mut last) = (0, None);
        loop {
            let index = match (self.paths.wait_for_any(nsid, tried, deadline), last) {
                (Ok(index), _) => index,
                (Err(error), last) => return Err(last.unwrap_or(error)),
            };
            let bytes = payload.len();
            let failed = match self.owners[index].association.send(order, payload) {
                Ok(outcome) => return Ok(outcome),
                Err(failed) => failed,
            };
            let Failed { error, buffer, vector } = failed;
            payload = buffer.map_or(Payload::Vectored(vector), Payload::Buffer);
            let state = error.nvme_status().and_then(AnaState::of_status);
            let may_go_on = state.is_some() || (error.kind() == ErrorKind::DeviceLost && order.repeats);
            // A small payload is not returned with the failure: the command cannot be sent again without it.
            if !may_go_on || payload.len() != bytes || (bytes == 0 && order.way != Way::None) {
                return Err(error);
            }
            if let Some(state) = state {
                self.paths.met(index, nsid, state);
                self.owners[index].association.mark_states_stale();
                tried |= 1 << index;
            }
            last = Some(error);
        }
    }

    /// The namespaces of the subsystem.
    ///
    /// # Errors
    /// When no path carries the commands that list them.
    pub fn namespaces(&self) -> Result<Vec<Namespace>> {
        identify::namespaces(&Asker { set: self, waits: true })
    }

    /// The layout of a namespace, and the epoch as of which it is known. While no path is live the cached layout `was` is used: the
    /// device refuses commands that no longer fit its layout, and only this program's memory is at risk.
    pub fn layout(&self, nsid: u32, was: Option<Layout>) -> Result<(u64, Layout)> {
        let asker = Asker { set: self, waits: was.is_none() };
        match (self.layouts.layout(nsid, || identify::layout(&asker, nsid)), was) {
            (Err(error), Some(layout)) if is_of_paths(&error) => Ok((NO_EPOCH, layout)),
            (known, _) => known,
        }
    }
}

/// An epoch that no layout has: the next command looks the layout up again.
const NO_EPOCH: u64 = u64::MAX;

/// Whether no path carried the command, so that the device has not answered it.
fn is_of_paths(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::DeviceLost | ErrorKind::TimedOut)
}

/// Sends Identify commands over a live path; with `waits`, it waits for one.
struct Asker<'s> {
    set: &'s PathSet,
    waits: bool,
}

impl Identifies for Asker<'_> {
    fn identify(&self, command: AdminCommand) -> Result<Outcome> {
        self.set.admin(command, self.waits)
    }

    fn identify_buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn reports_command_sets(&self) -> bool {
        self.set.command_sets
    }
}
