//! What the device's Identify says of its namespaces, and a note of each layout that is learned so.

use byway_core::identify::{self, Identifies};
use byway_core::moves::Layout;
use byway_core::{AdminCommand, Buffer, Namespace, Outcome, Result};

use crate::bus::Bus;
use crate::shared::Shared;

impl<B: Bus> Identifies for Shared<B> {
    fn identify(&self, command: AdminCommand) -> Result<Outcome> {
        self.admin(command)
    }

    fn identify_buffer(&self, len: usize) -> Result<Buffer> {
        self.pool().take(len)
    }

    fn reports_command_sets(&self) -> bool {
        Shared::reports_command_sets(self)
    }
}

/// The namespaces that are attached.
///
/// # Errors
/// When the device does not answer.
pub(crate) fn namespaces<B: Bus>(device: &Shared<B>) -> Result<Vec<Namespace>> {
    identify::active_namespaces(device)?.into_iter().map(|nsid| namespace(device, nsid)).collect()
}

fn namespace<B: Bus>(device: &Shared<B>, nsid: u32) -> Result<Namespace> {
    let epoch = device.layouts().epoch();
    let (namespace, layout) = identify::namespace(device, nsid)?;
    device.layouts().note(epoch, nsid, layout);
    Ok(namespace)
}

/// What the commands of a namespace mean.
///
/// # Errors
/// [`byway_core::ErrorKind::NotFound`] where the device knows no such namespace; when it does not answer.
pub(crate) fn layout<B: Bus>(device: &Shared<B>, nsid: u32) -> Result<Layout> {
    identify::layout(device, nsid)
}
