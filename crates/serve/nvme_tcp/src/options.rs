//! Options of a target and of its subsystems, and the events it reports.

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

/// Entries of an admin queue, at most.
pub const ADMIN_ENTRIES_MAX: u16 = 128;

/// Options of a target.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TargetOptions {
    /// Digests that hosts may negotiate.
    pub digests: Digests,
    /// Threads of the pool.
    pub threads: NonZeroU16,
    /// Wait strategy of the threads.
    pub idle: Idle,
    /// Budget in bytes for solicited and unsent data of all connections, beyond 64 KiB of each.
    pub data_bytes_max: usize,
}

impl Default for TargetOptions {
    fn default() -> Self {
        let (digests, threads) = (Digests::BOTH, NonZeroU16::MIN);
        Self { digests, threads, idle: Idle::default(), data_bytes_max: 1 << 30 }
    }
}

impl TargetOptions {
    byway_sys::setters! {
        /// Digests that hosts may negotiate.
        digests: Digests;
        /// Threads of the pool.
        threads: NonZeroU16;
        /// Wait strategy of the threads.
        idle: Idle;
        /// Budget in bytes for data of all connections, beyond 64 KiB of each.
        data_bytes_max: usize;
    }
}

/// How a subsystem is exported.
#[derive(Debug, Clone)]
pub struct SubsystemTerms {
    /// The subsystem's NQN; the device reports the same.
    pub nqn: Nqn,
    /// Hosts that may connect; empty admits all.
    pub hosts: Vec<Nqn>,
    /// Ports that export it; `None` is every port.
    pub ports: Option<Vec<PortId>>,
    /// Authentication, required of every host; `None` requires none.
    pub dhchap: Option<Dhchap>,
    /// ANA states other than optimized. ANA is reported if there are several ports or any setting.
    pub ana: Vec<AnaSetting>,
    /// TLS; `None` accepts no handshake.
    pub tls: Option<Tls>,
}

impl SubsystemTerms {
    /// A subsystem that admits every host at every port, without authentication and TLS.
    #[must_use]
    pub fn of(nqn: Nqn) -> Self {
        Self { nqn, hosts: Vec::new(), ports: None, dhchap: None, ana: Vec::new(), tls: None }
    }
}

/// The ANA state of namespaces at a port (Base 2.1, section 8.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnaSetting {
    /// The port: the first listening address is port 1.
    pub port: PortId,
    /// The namespace, an ANA group of its own; `None` is every namespace.
    pub nsid: Option<u32>,
    /// The state.
    pub state: AnaState,
}

/// TLS 1.3 with pre-shared keys, for every queue. A key is valid for one host NQN.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Hosts with a key.
    pub(crate) hosts: Vec<Nqn>,
    /// Whether other hosts may connect.
    pub(crate) policy: TlsPolicy,
    /// Retained keys in every accepted form.
    pub(crate) psks: Vec<TlsPsk>,
}

/// Whether hosts may connect without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TlsPolicy {
    /// TLS is required, except at the discovery-only address.
    #[default]
    Required,
    /// TLS is optional; hosts without a key may connect in clear text.
    Allowed,
    /// Secure channel concatenation (Base 2.1, section 8.3.4.5): a clear-text admin queue may only authenticate, which generates
    /// the TLS key for the next connection. Hosts with a configured key use that.
    Concatenated,
}

impl Tls {
    /// Keys of `hosts` for `subsystem` and for discovery. Both versions of PSK identities are accepted, and version 1 keys as
    /// libnvme derived them until 2025.
    ///
    /// # Errors
    /// OpenSSL is missing.
    pub fn new(subsystem: &Nqn, hosts: &[(Nqn, TlsKey)], policy: TlsPolicy) -> Result<Self, TlsUnavailable> {
        let mut psks = Vec::new();
        for (host, key) in hosts {
            for subsystem in [subsystem.clone(), Nqn::discovery()] {
                let parties = Parties { host: host.clone(), subsystem };
                psks.extend(PskForm::ALL_DISTINGUISHABLE.map(|form| TlsPsk::of(key, &parties, form)));
            }
        }
        let hosts = hosts.iter().map(|(host, _)| host.clone()).collect();
        // Report a missing OpenSSL here, not when the subsystem is added.
        TlsSubsystem::new([])?;
        Ok(Self { hosts, policy, psks })
    }
}

impl Tls {
    /// Adds the keys of `more`, which replace older keys of the same hosts.
    pub(crate) fn with(mut self, more: Self) -> Self {
        self.hosts.retain(|host| !more.hosts.contains(host));
        self.psks.retain(|psk| !more.hosts.contains(&psk.parties().host));
        self.hosts.extend(more.hosts);
        self.psks.extend(more.psks);
        self
    }

    /// Removes the keys of a host; the policy stays.
    pub(crate) fn without(mut self, host: &Nqn) -> Self {
        self.hosts.retain(|other| other != host);
        self.psks.retain(|psk| psk.parties().host != *host);
        self
    }
}

/// DH-HMAC-CHAP authentication of every host on every queue; discovery controllers do not require it.
#[derive(Debug, Clone)]
pub struct Dhchap {
    /// Hosts with their secrets, and the controller's secret for mutual authentication.
    pub hosts: Vec<(Nqn, AuthSecrets)>,
    /// Accepted hashes and DH groups, preferred first.
    pub suites: AuthSuites,
    /// Time limit of an authentication.
    pub timeout: Duration,
}

impl Dhchap {
    /// 30 s: enough for a host that computes large groups in software under emulation.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
}

/// An event of a target, for a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetEvent {
    /// A host has connected, authenticated where required, and has a controller.
    HostConnected {
        /// The host NQN.
        host: Nqn,
        /// The subsystem NQN.
        subsystem: Nqn,
        /// The controller identifier.
        controller: u16,
        /// The host's address.
        from: SocketAddr,
    },
    /// A Connect was refused: the host is not allowed, used the wrong transport security, or a field is invalid.
    HostRefused {
        /// HOSTNQN of the Connect; empty if it has none.
        host: String,
        /// SUBNQN of the Connect.
        subsystem: String,
        /// The host's address.
        from: SocketAddr,
        /// The reason.
        why: &'static str,
    },
    /// An I/O queue was connected with a HOSTID that differs from its admin queue's.
    HostIdDiffers {
        /// The host NQN.
        host: Nqn,
        /// The subsystem NQN.
        subsystem: Nqn,
        /// The controller identifier.
        controller: u16,
        /// The host's address.
        from: SocketAddr,
    },
    /// A host's controller was removed.
    HostLeft {
        /// The host NQN.
        host: Nqn,
        /// The subsystem NQN.
        subsystem: Nqn,
        /// The controller identifier.
        controller: u16,
        /// The reason, unless the host disconnected.
        why: Option<String>,
    },
    /// The target closed a connection, for a protocol error or a timeout.
    ConnectionEnded {
        /// The host's address.
        from: SocketAddr,
        /// The reason.
        why: String,
    },
    /// A subsystem's device failed: its hosts are disconnected, hosts of other subsystems stay.
    SubsystemFailed {
        /// The subsystem NQN.
        subsystem: Nqn,
    },
    /// Every device failed; the target stops.
    DeviceFailed,
}

/// Receives events. Called on a thread of the target, so it must not block.
pub type EventHandler = Arc<dyn Fn(TargetEvent) + Send + Sync>;
