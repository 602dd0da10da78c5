//! What a target is told, and what it tells.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use byway_controller::PortId;
use byway_fabrics::Nqn;
use byway_fabrics::authentication::{AuthSecrets, AuthSuites, Parties};
use byway_fabrics::tls::{PskForm, TlsKey, TlsPsk};
use byway_nvme_tcp::Digests;
use byway_spec::base::ana::AnaState;
use byway_sys::Idle;
use byway_tls::{TlsSubsystem, TlsUnavailable};

/// Most entries of an admin queue.
pub const ADMIN_ENTRIES_MAX: u16 = 128;

/// How a target serves, whatever it serves.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    /// Digests that hosts may ask for.
    pub digests: Digests,
    /// Threads that share the connections.
    pub threads: NonZeroU16,
    /// What a thread does while nothing comes.
    pub idle: Idle,
    /// Data that all connections together may have been asked for, or have not taken; beside 64 KiB of each.
    pub data_bytes_max: usize,
}

impl Default for TargetOptions {
    fn default() -> Self {
        let (digests, threads) = (Digests::BOTH, NonZeroU16::MIN);
        Self { digests, threads, idle: Idle::default(), data_bytes_max: 1 << 30 }
    }
}

/// A subsystem as hosts find it, and which of them do.
#[derive(Debug, Clone)]
pub struct SubsystemTerms {
    /// The subsystem's name, as the device has it too.
    pub nqn: Nqn,
    /// Hosts that may connect; all where there are none.
    pub hosts: Vec<Nqn>,
    /// Ports by which it is found; every one where nothing is said.
    pub ports: Option<Vec<PortId>>,
    /// What hosts show who they are by, and all of them must; nobody has to where there is nothing.
    pub dhchap: Option<Dhchap>,
    /// How namespaces are reached by ports, where not all are optimized at each. Hosts are told of states where there are
    /// several ports, or any of this.
    pub ana: Vec<AnaSetting>,
    /// TLS, which hosts may begin where there is something.
    pub tls: Option<Tls>,
}

impl SubsystemTerms {
    /// A subsystem of this name, which every host finds as it is.
    #[must_use]
    pub fn of(nqn: Nqn) -> Self {
        Self { nqn, hosts: Vec::new(), ports: None, dhchap: None, ana: Vec::new(), tls: None }
    }
}

/// How namespaces are reached by a port (ANA, Base 2.1, section 8.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnaSetting {
    /// The port: the first address that is listened at is port 1.
    pub port: PortId,
    /// The namespace, which is an ANA group of its own; every one where none is given.
    pub nsid: Option<u32>,
    /// The state.
    pub state: AnaState,
}

/// TLS 1.3 by pre-shared keys, of every queue. A host's key is for its name alone.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Hosts that have a key.
    pub(crate) hosts: Vec<Nqn>,
    /// Whether others may connect.
    pub(crate) policy: TlsPolicy,
    /// What they begin it by.
    pub(crate) psks: Vec<TlsPsk>,
}

/// Whether hosts may connect without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsPolicy {
    /// They must begin TLS, but where discovery alone is.
    #[default]
    Required,
    /// They may, and may be others than those that have a key.
    Allowed,
    /// They may authenticate on an admin queue, which makes the key of TLS by which they come then (secure channel concatenation,
    /// as the specification has it), and do nothing else. Hosts that have a key come by that.
    Concatenated,
}

impl Tls {
    /// For hosts of `subsystem`, and of the discovery service beside it, each with its key. Both versions of identities are taken,
    /// and version 1 of keys as libnvme derived them until 2025.
    ///
    /// # Errors
    /// Where there is no OpenSSL.
    pub fn new(subsystem: &Nqn, hosts: &[(Nqn, TlsKey)], policy: TlsPolicy) -> Result<Self, TlsUnavailable> {
        let mut psks = Vec::new();
        for (host, key) in hosts {
            for subsystem in [subsystem.clone(), Nqn::discovery()] {
                let parties = Parties { host: host.clone(), subsystem };
                psks.extend(PskForm::TOLD_APART.map(|form| TlsPsk::of(key, &parties, form)));
            }
        }
        let hosts = hosts.iter().map(|(host, _)| host.clone()).collect();
        // Told here that there is none, and not when it is to be served.
        TlsSubsystem::new([])?;
        Ok(Self { hosts, policy, psks })
    }
}

impl Tls {
    /// The same policy, with the keys of `more` in place of those that its hosts had.
    pub(crate) fn with(mut self, more: Self) -> Self {
        self.hosts.retain(|host| !more.hosts.contains(host));
        self.psks.retain(|psk| !more.hosts.contains(&psk.parties().host));
        self.hosts.extend(more.hosts);
        self.psks.extend(more.psks);
        self
    }

    /// The same policy, without the keys of a host.
    pub(crate) fn without(mut self, host: &Nqn) -> Self {
        self.hosts.retain(|other| other != host);
        self.psks.retain(|psk| psk.parties().host != *host);
        self
    }
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

/// What a target tells of, for a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// A host has connected, has shown who it is where that is asked for, and has a controller.
    HostCame {
        /// Its name.
        host: Nqn,
        /// The subsystem's name.
        subsystem: Nqn,
        /// The controller.
        controller: u16,
        /// Where it is.
        from: SocketAddr,
    },
    /// A host was not connected: it may not be, came in another way than it must, or its Connect has a field that is wrong.
    HostRefused {
        /// Its name, as it says: empty where it says none.
        host: String,
        /// The subsystem's name, as it says.
        subsystem: String,
        /// Where it is.
        from: SocketAddr,
        /// Why.
        why: &'static str,
    },
    /// An I/O queue was connected with another host identifier (HOSTID) than its admin queue, by a host of the same name.
    HostIdDiffers {
        /// Its name.
        host: Nqn,
        /// The subsystem's name.
        subsystem: Nqn,
        /// The controller.
        controller: u16,
        /// Where it is.
        from: SocketAddr,
    },
    /// Its controller is gone.
    HostLeft {
        /// Its name.
        host: Nqn,
        /// The subsystem's name.
        subsystem: Nqn,
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
    /// The device of a subsystem failed: its hosts are sent away, those of others stay.
    SubsystemFailed {
        /// Its name.
        subsystem: Nqn,
    },
    /// Every device failed: nobody can be served any more.
    DeviceFailed,
}

/// Who is told. Called by the thread that it happens in, so that it is not to wait.
pub type Tell = Arc<dyn Fn(Told) + Send + Sync>;
