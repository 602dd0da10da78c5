//! What is behind a connection: nothing yet, a queue of one of the device's controllers, or a discovery controller.

use std::sync::Arc;

use byway_controller::ControllerId;

use crate::association::Association;
use crate::discovery::DiscoveryController;
use crate::ended::Ended;
use crate::premises::Asker;

/// A controller, and a queue of it.
pub type DeviceQueue = (ControllerId, u16);

/// What is behind a connection.
#[derive(Debug)]
pub enum Queue {
    /// Connect is awaited.
    Unconnected,
    /// A queue of the device.
    Device(ConnectedQueue),
    /// A discovery controller.
    Discovery(Box<Discovery>),
}

/// A queue of the device.
#[derive(Debug)]
pub struct ConnectedQueue {
    /// Whose it is.
    pub association: Arc<Association>,
    /// Which.
    pub qid: u16,
    /// Controller resets before it was made. The next ends it.
    pub resets: u32,
}

/// A discovery controller, and when its host was heard last.
#[derive(Debug)]
pub struct Discovery {
    /// The controller.
    pub controller: DiscoveryController,
    /// When anything came.
    pub heard_ns: u64,
    /// Its place among all of them.
    pub _asker: Asker,
}

impl ConnectedQueue {
    /// Where it is in the device.
    #[inline]
    pub fn at(&self) -> DeviceQueue {
        (self.association.controller, self.qid)
    }

    /// Whether the device still has it. To be asked with the device in hand.
    #[inline]
    pub fn is_there(&self) -> bool {
        !self.association.is_over() && (self.qid == 0 || self.association.resets() == self.resets)
    }
}

impl Queue {
    /// Whether it is still there. To be asked with the device in hand: the controller's identifier may be another's by now.
    ///
    /// # Errors
    /// That it is not.
    #[inline]
    pub fn check(&self) -> Result<(), Ended> {
        match self {
            Self::Device(queue) if !queue.is_there() => Err(Ended::ControllerGone),
            Self::Device(queue) if queue.association.is_dismissed() => Err(Ended::Dismissed),
            _ => Ok(()),
        }
    }

    /// The host was heard of.
    #[inline]
    pub fn heard(&mut self, now_ns: u64) {
        match self {
            Self::Unconnected => {}
            Self::Device(queue) => queue.association.heard(now_ns),
            Self::Discovery(discovery) => discovery.heard_ns = now_ns,
        }
    }

    /// Its host has shown who it is.
    pub fn prove(&self) {
        if let Self::Device(queue) = self {
            queue.association.set_claimed(false);
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

    /// Whether something may be to be said by itself: an admin queue's, and what a discovery service tells.
    pub fn waits(&self) -> bool {
        self.is_admin() || matches!(self, Self::Discovery(_))
    }
}
