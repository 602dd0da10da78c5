//! What a target is told, and what it tells.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use byway_fabrics::Nqn;
use byway_sys::Idle;
use byway_tcp_codec::Digests;

/// Most entries of an admin queue.
pub const ADMIN_ENTRIES_MAX: u16 = 128;

/// What hosts find at a target.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    /// The subsystem's name, as the device has it too.
    pub subsystem: Nqn,
    /// Digests that hosts may ask for.
    pub digests: Digests,
    /// Threads that share the connections.
    pub threads: NonZeroU16,
    /// What a thread does while nothing comes.
    pub idle: Idle,
    /// Hosts that may connect; all where there are none.
    pub hosts: Vec<Nqn>,
}

impl TargetOptions {
    /// A subsystem of this name, and everything else as it is unless something is said.
    #[must_use]
    pub fn of(subsystem: Nqn) -> Self {
        Self {
            subsystem,
            digests: Digests::BOTH,
            threads: NonZeroU16::MIN,
            idle: Idle::default(),
            hosts: Vec::new(),
        }
    }
}

/// What a target tells of, for a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// A host has connected, and has a controller.
    HostCame {
        /// Its name.
        host: Nqn,
        /// The controller.
        controller: u16,
        /// Where it is.
        from: SocketAddr,
    },
    /// Its controller is gone.
    HostLeft {
        /// Its name.
        host: Nqn,
        /// The controller.
        controller: u16,
        /// Why, unless it left by itself.
        why: Option<String>,
    },
    /// A connection was ended for what came over it, or for what did not.
    ConnectionEnded {
        /// Where it was from.
        from: SocketAddr,
        /// Why.
        why: String,
    },
    /// The device failed: nobody can be served any more.
    DeviceFailed,
}

/// Who is told. Called by the thread that it happens in, so that it is not to wait.
pub type Tell = Arc<dyn Fn(Told) + Send + Sync>;
