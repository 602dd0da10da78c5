//! Controllers of hosts over fabrics.

use std::sync::Arc;

use byway_controller::{
    CapsuleData, CommandError, Controller, ControllerId, DeviceMemory, Done, Host, MAX_CONTROLLERS,
    NoInterrupts, Port, PortId, Subsystem,
};
use byway_dma::{DmaSpace, DmaView};
use byway_link::{Meter, Profile};
use byway_queue::Doorbells;

/// Controllers of hosts over fabrics, by controller identifier.
#[derive(Debug)]
pub(crate) struct FabricControllers {
    controllers: Vec<Option<Box<Controller>>>,
    /// The last identifier. Identifiers are reused as late as possible, since the former host may still use one.
    last: u16,
    /// Commands may wait for a sync of the image.
    wants_sync: bool,
    /// No memory: data moves in capsules.
    nowhere: DmaView,
    /// Off: a fabric has no transactions on the device's link.
    meter: Meter,
    /// Never rung.
    doorbells: Doorbells,
}

/// What a fabric controller needs to execute a command.
pub(crate) struct FabricContext<'a> {
    pub controller: &'a mut Controller,
    pub port: Port<'a>,
    pub doorbells: &'a Doorbells,
    /// To be set if commands of the controller wait for a sync.
    pub wants_sync: &'a mut bool,
}

/// No controller identifier is free, or the host's identity is refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AttachError {
    /// Every controller identifier is in use.
    #[error("every controller identifier is taken")]
    NoRoom,
    /// The host identifier is invalid.
    #[error(transparent)]
    Host(#[from] CommandError),
}

impl FabricControllers {
    /// No controllers.
    pub fn new(profile: &Profile) -> Self {
        let mut meter = Meter::new(profile);
        meter.set_ledger(false);
        Self {
            controllers: Vec::new(),
            last: 0,
            wants_sync: false,
            nowhere: Arc::new(DmaSpace::new()).view(),
            meter,
            doorbells: Doorbells::new(byway_controller::MAX_IO_QUEUES + 1),
        }
    }

    /// A new controller for `host`, connected at `port`.
    pub fn attach(
        &mut self,
        subsystem: &mut Subsystem,
        host: Option<Host>,
        port: PortId,
    ) -> Result<ControllerId, AttachError> {
        let mut ids = (self.last + 1..MAX_CONTROLLERS).chain(1..=self.last).map(ControllerId);
        let id = ids.find(|id| !subsystem.has_controller(*id)).ok_or(AttachError::NoRoom)?;
        self.last = id.0;
        let host = host.unwrap_or(Host::Unnamed(id));
        let controller = Controller::over_fabric(id, subsystem, host, Some(port))?;
        let at = usize::from(id.0);
        self.controllers.resize_with(self.controllers.len().max(at + 1), || None);
        self.controllers[at] = Some(Box::new(controller));
        Ok(id)
    }

    /// Removes a controller.
    pub fn detach(&mut self, subsystem: &mut Subsystem, id: ControllerId) {
        let controller = self.controllers.get_mut(usize::from(id.0)).and_then(Option::take);
        controller.into_iter().for_each(|controller| controller.detach(subsystem));
    }

    /// I/O queues of all controllers.
    pub fn io_queues(&self) -> usize {
        self.controllers.iter().flatten().map(|controller| controller.io_queues()).sum()
    }

    /// Whether commands may wait for a sync.
    #[inline]
    pub fn wants_sync(&self) -> bool {
        self.wants_sync
    }

    /// Assigns waiting commands to the sync that begins now; whether there were any.
    pub fn cover(&mut self) -> bool {
        self.wants_sync = false;
        // No short circuit: every controller is asked.
        self.controllers.iter_mut().flatten().fold(false, |any, controller| controller.cover() | any)
    }

    /// Completes the commands that a sync covered.
    pub fn end_cover(&mut self, synced: &Result<(), CommandError>) {
        let Self { controllers, nowhere, meter, .. } = self;
        let mut port = port(nowhere, meter, None);
        controllers.iter_mut().flatten().for_each(|controller| controller.end_cover(&mut port, synced, 0));
    }

    /// Completes a command of an external engine; one of a former controller is released.
    pub fn end_external(&mut self, subsystem: &mut Subsystem, done: Done) {
        match self.context(done.owner, None) {
            Some(FabricContext { controller, mut port, doorbells, .. }) => {
                controller.complete_external(subsystem, &mut port, doorbells, done);
            }
            None => subsystem.release_done(&done),
        }
    }

    /// Fails the commands of a withdrawn namespace.
    pub fn fail_external(&mut self, nsid: u32) {
        let Self { controllers, nowhere, meter, .. } = self;
        let mut port = port(nowhere, meter, None);
        controllers.iter_mut().flatten().for_each(|controller| controller.fail_external(&mut port, nsid));
    }

    /// A controller.
    pub fn controller(&mut self, id: ControllerId) -> Option<&mut Controller> {
        self.controllers.get_mut(usize::from(id.0))?.as_deref_mut()
    }

    /// A controller with what it needs to execute a command with `capsule`.
    #[inline]
    pub fn context<'a>(
        &'a mut self,
        id: ControllerId,
        capsule: Option<CapsuleData<'a>>,
    ) -> Option<FabricContext<'a>> {
        let Self { controllers, nowhere, meter, doorbells, wants_sync, .. } = self;
        let controller = controllers.get_mut(usize::from(id.0))?.as_deref_mut()?;
        Some(FabricContext { controller, port: port(nowhere, meter, capsule), doorbells, wants_sync })
    }
}

fn port<'a>(memory: &'a DmaView, meter: &'a mut Meter, capsule: Option<CapsuleData<'a>>) -> Port<'a> {
    let (interrupts, device_memory) = (&NoInterrupts, DeviceMemory::Nowhere);
    Port { memory, meter, interrupts, own_memory: 0..0, device_memory, capsule, grants: None }
}
