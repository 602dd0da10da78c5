//! Options of NVMe/TCP, and their translation for the target.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;

use byway_core::{Error, ErrorKind, Result};
use byway_tcp_target::{
    AnaSetting, ControlError, Dhchap, Digests, Keys, ListenError, Listeners, Nqn, PathError, StartError,
    TargetControl, TargetOptions, Tls, TlsKey, TlsPolicy, TlsUnavailable,
};

use crate::serve::ServeOptions;
use crate::serve::events::{EventQueue, ServeEvent};

/// Where NVMe/TCP hosts connect, and what they find.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TcpOptions {
    /// Where they connect: to the subsystem, and to the discovery service as well. Each is a port of the subsystem, numbered
    /// from 1.
    pub addresses: Vec<SocketAddr>,
    /// Where the discovery service answers alone.
    pub discovery: Option<SocketAddr>,
    /// Name of the subsystem, unless the image's own.
    pub nqn: Option<String>,
    /// Digests that hosts may ask for.
    pub digests: TcpDigests,
    /// NQNs of the hosts that may connect; empty for all.
    pub hosts: Vec<String>,
    /// Secrets for DH-HMAC-CHAP, if hosts must authenticate.
    pub dhchap: Option<Dhchap>,
    /// ANA states of namespaces at ports, where not all are optimized. Hosts get states if there are several ports, or any state
    /// here.
    pub ana: Vec<AnaSetting>,
    /// Keys of TLS, if there are any.
    pub tls: Option<TlsKeys>,
}

/// Keys of hosts, by which their connections are TLS connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsKeys {
    /// Hosts, each with its key.
    pub hosts: Vec<(Nqn, TlsKey)>,
    /// Whether hosts may connect without.
    pub policy: TlsPolicy,
}

/// Secrets and keys of NVMe/TCP hosts.
#[derive(Debug, Clone, Default)]
pub struct HostKeys {
    /// As [`TcpOptions::dhchap`].
    pub dhchap: Option<Dhchap>,
    /// As [`TcpOptions::tls`].
    pub tls: Option<TlsKeys>,
}

/// Secrets and keys of a served device's hosts, to be changed while it is served.
#[derive(Debug, Clone)]
pub struct ServedKeys {
    target: TargetControl,
    nqn: String,
    events: Arc<EventQueue>,
}

/// Digests that hosts may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TcpDigests {
    /// None: a host that asks for one is answered that it gets none.
    None,
    /// Of headers.
    Header,
    /// Of data.
    Data,
    /// Either.
    #[default]
    Both,
}

impl TcpOptions {
    /// Serves at an address; everything else by default.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self::at_each([address])
    }

    /// Serves at several addresses, ports 1, 2 and so on of the subsystem; everything else by default.
    #[must_use]
    pub fn at_each(addresses: impl Into<Vec<SocketAddr>>) -> Self {
        let (addresses, digests) = (addresses.into(), TcpDigests::default());
        let (hosts, ana) = (Vec::new(), Vec::new());
        Self { addresses, discovery: None, nqn: None, digests, hosts, dhchap: None, ana, tls: None }
    }

    byway_sys::setters! {
        /// Address at which the discovery service alone answers. Default: `None`, only at the addresses of the subsystem.
        discovery: impl Into<Option<SocketAddr>>;
        /// NQN of the subsystem. Default: `None`, the image's own.
        nqn: impl Into<Option<String>>;
        /// Digests that hosts may ask for. Default: [`TcpDigests::Both`].
        digests: TcpDigests;
        /// NQNs of the hosts that may connect. Default: empty, all hosts.
        hosts: impl Into<Vec<String>>;
        /// Secrets for DH-HMAC-CHAP, by which hosts must authenticate. Default: `None`, no authentication.
        dhchap: impl Into<Option<Dhchap>>;
        /// ANA states of namespaces at ports. Default: empty, all optimized.
        ana: impl Into<Vec<AnaSetting>>;
        /// Keys of TLS. Default: `None`, no TLS.
        tls: impl Into<Option<TlsKeys>>;
    }
}

impl ServedKeys {
    pub(super) fn new(target: TargetControl, nqn: String, events: Arc<EventQueue>) -> Self {
        Self { target, nqn, events }
    }

    /// Replaces all keys for hosts that connect from now on. Open connections go on.
    ///
    /// # Errors
    /// Where there is no OpenSSL; nothing is changed then.
    pub fn set(&self, keys: HostKeys) -> Result<()> {
        let nqn = name(&self.nqn)?;
        let tls = keys.tls.as_ref().map(|keys| tls_of(&nqn, keys)).transpose()?;
        self.target.set_keys(&nqn, Keys { dhchap: keys.dhchap, tls }).map_err(from_control)
    }

    /// Replaces all keys by what `read` returns and queues an event; if that fails, the old keys stay, and the event says why.
    pub fn renew<E: Display>(&self, read: impl FnOnce() -> Result<HostKeys, E>) {
        let renewed = read().map_err(|why| format!("{why:#}"));
        self.report(renewed.and_then(|keys| self.set(keys).map_err(|why| why.to_string())));
    }

    /// Makes a change of the configuration and queues an event, which says why if it failed.
    pub fn change<E: Display>(&self, change: impl FnOnce() -> Result<(), E>) {
        self.report(change().map_err(|why| format!("{why:#}")));
    }

    fn report(&self, renewed: Result<(), String>) {
        self.events.put(renewed.map_or_else(ServeEvent::KeysKept, |()| ServeEvent::KeysRenewed));
    }
}

/// Opens the listening sockets.
pub(super) fn open_listeners(options: &TcpOptions) -> Result<Listeners> {
    Listeners::open(&options.addresses, options.discovery).map_err(from_listen)
}

/// The options of the target.
pub(super) fn target_options(options: &TcpOptions, served: &ServeOptions) -> TargetOptions {
    let digests = match options.digests {
        TcpDigests::None => Digests::NONE,
        TcpDigests::Header => Digests { header: true, data: false },
        TcpDigests::Data => Digests { header: false, data: true },
        TcpDigests::Both => Digests::BOTH,
    };
    let ServeOptions { threads, idle, .. } = *served;
    TargetOptions::default().digests(digests).threads(threads).idle(idle)
}

pub(super) fn tls_of(nqn: &Nqn, keys: &TlsKeys) -> Result<Tls> {
    Tls::new(nqn, &keys.hosts, keys.policy).map_err(|why| from_tls(&why))
}

pub(super) fn name(text: &str) -> Result<Nqn> {
    Nqn::new(text).map_err(|error| Error::host(ErrorKind::InvalidArgument, format!("{text:?}: {error}")))
}

pub(super) fn from_listen(error: ListenError) -> Error {
    let doing = format!("listen at {}", error.address);
    Error::kernel(doing, error.source)
}

pub(super) fn from_target(error: StartError) -> Error {
    match error {
        StartError::System(cause) => Error::kernel("serve NVMe/TCP", cause),
        StartError::Paths(error) => from_path(&error),
        StartError::NoPort(_) => Error::host(ErrorKind::InvalidArgument, error.to_string()),
        StartError::Tls(error) => from_tls(&error),
    }
}

pub(super) fn from_path(error: &PathError) -> Error {
    let kind = match error {
        PathError::Refused { .. } => ErrorKind::InvalidArgument,
        PathError::AnaNotReported => ErrorKind::Unsupported,
        PathError::Gone => ErrorKind::DeviceLost,
    };
    Error::host(kind, error.to_string())
}

pub(super) fn from_tls(error: &TlsUnavailable) -> Error {
    Error::host(ErrorKind::Unsupported, error.to_string())
}

pub(super) fn from_control(error: ControlError) -> Error {
    let kind = match error {
        ControlError::Listen(error) => return from_listen(error),
        ControlError::Path(error) => return from_path(&error),
        ControlError::Tls(error) => return from_tls(&error),
        ControlError::NoSubsystem(_) | ControlError::NoPort(_) => ErrorKind::NotFound,
        ControlError::Taken(_) => ErrorKind::Busy,
        ControlError::Gone => ErrorKind::DeviceLost,
    };
    Error::host(kind, error.to_string())
}
