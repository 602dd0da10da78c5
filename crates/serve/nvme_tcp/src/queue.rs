//! The queue of a connection: none yet, a device's, or a discovery controller's.

use std::sync::Arc;

use byway_controller::ControllerId;

use crate::association::Association;
use crate::close_reason::CloseReason;
use crate::discovery::DiscoveryController;
use crate::target_state::DiscoverySlot;

/// A controller and a queue identifier.
pub type DeviceQueue = (ControllerId, u16);

/// The queue of a connection.
#[derive(Debug)]
pub enum Queue {
    /// Connect is expected.
    Unconnected,
    /// A queue of the device.
    Device(ConnectedQueue),
    /// A discovery controller.
    Discovery(Box<Discovery>),
}

/// A queue of the device.
#[derive(Debug)]
pub struct ConnectedQueue {
    /// The host and its controller.
    pub association: Arc<Association>,
    /// The queue identifier.
    pub qid: u16,
    /// Controller resets before it was connected; the next one ends it.
    pub resets: u32,
}

/// A discovery controller and the time of its host's last command.
#[derive(Debug)]
pub struct Discovery {
    /// The controller.
    pub controller: DiscoveryController,
    heard_ns: u64,
    _slot: DiscoverySlot,
}

impl Discovery {
    /// A discovery controller in its slot.
    pub fn new(controller: DiscoveryController, slot: DiscoverySlot, now_ns: u64) -> Self {
        Self { controller, heard_ns: now_ns, _slot: slot }
    }

    /// The time of the host's last command.
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns
    }
}

impl ConnectedQueue {
    /// Controller and queue identifier.
    #[inline]
    pub fn at(&self) -> DeviceQueue {
        (self.association.controller, self.qid)
    }

    /// Whether the device still has it. Valid under the run lock only.
    #[inline]
    pub fn is_there(&self) -> bool {
        !self.association.is_over() && (self.qid == 0 || self.association.resets() == self.resets)
    }
}

impl Queue {
    /// Checks that the queue still exists. Valid under the run lock only, since controller identifiers are reused.
    ///
    /// # Errors
    /// Why the connection ends.
    #[inline]
    pub fn check(&self) -> Result<(), CloseReason> {
        match self {
            Self::Device(queue) if !queue.is_there() => Err(CloseReason::ControllerGone),
            Self::Device(queue) if queue.association.is_dismissed() => Err(CloseReason::Dismissed),
            _ => Ok(()),
        }
    }

    /// Notes the time of a command, for keep alive.
    #[inline]
    pub fn heard(&mut self, now_ns: u64) {
        match self {
            Self::Unconnected => {}
            Self::Device(queue) => queue.association.heard(now_ns),
            Self::Discovery(discovery) => discovery.heard_ns = now_ns,
        }
    }

    /// Notes that the host has authenticated.
    pub fn set_authenticated(&self) {
        if let Self::Device(queue) = self {
            queue.association.set_unauthenticated(false);
        }
    }

    /// Whether it is a queue of a device.
    pub fn is_of_device(&self) -> bool {
        matches!(self, Self::Device(_))
    }

    /// Whether it is an admin queue of the device.
    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Device(queue) if queue.qid == 0)
    }

    /// Whether it is an I/O queue of the device.
    pub fn is_io(&self) -> bool {
        self.is_of_device() && !self.is_admin()
    }

    /// Whether events are possible: an admin or a discovery queue.
    pub fn has_events(&self) -> bool {
        self.is_admin() || matches!(self, Self::Discovery(_))
    }
}
