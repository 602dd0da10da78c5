//! What a target is told, and what it tells.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use byway_fabrics::Nqn;
use byway_fabrics::authentication::{AuthSecrets, AuthSuites};
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
    /// What hosts show who they are by, and all of them must; nobody has to where there is nothing.
    pub dhchap: Option<Dhchap>,
}

/// Authentication by DH-HMAC-CHAP: of every queue, of every host. The discovery service is left out of it.
#[derive(Debug, Clone)]
pub struct Dhchap {
    /// Hosts that may connect, each with its secret, and the controller's where it is to show who it is as well.
    pub hosts: Vec<(Nqn, AuthSecrets)>,
    /// Hashes and groups that are used, the preferred first.
    pub suites: AuthSuites,
    /// How long an authentication may take.
    pub timeout: Duration,
}

impl Dhchap {
    /// Long enough for a host that computes in software, and that in an emulator.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
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
            dhchap: None,
        }
    }
}

/// What a target tells of, for a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// A host has connected, has shown who it is where that is asked for, and has a controller.
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
