//! What is said of NVMe/TCP, and what the target makes of it.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;

use byway_core::{Error, ErrorKind, Result};
use byway_tcp_target::{
    AnaSetting, ControlError, Dhchap, Digests, Keys, ListenError, Listeners, Nqn, PathError, StartError,
    TargetControl, TargetOptions, Tls, TlsKey, TlsPolicy, TlsUnavailable,
};

use crate::serve::ServeOptions;
use crate::serve::told::{Events, Told};

/// Where NVMe/TCP hosts connect, and what they find.
#[derive(Debug, Clone)]
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
    /// Names of the hosts that may connect; all where there are none.
    pub hosts: Vec<String>,
    /// What hosts show who they are by, where they must.
    pub dhchap: Option<Dhchap>,
    /// How namespaces are reached by ports, where not all are optimized at each (ANA). Hosts are told of states where there are
    /// several ports, or any of this.
    pub ana: Vec<AnaSetting>,
    /// What TLS connections are made by, where there are any.
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

/// By what NVMe/TCP hosts show who they are.
#[derive(Debug, Clone, Default)]
pub struct HostKeys {
    /// As [`TcpOptions::dhchap`].
    pub dhchap: Option<Dhchap>,
    /// As [`TcpOptions::tls`].
    pub tls: Option<TlsKeys>,
}

/// By what the hosts of a served device show who they are, to be changed while it is served.
#[derive(Debug, Clone)]
pub struct ServedKeys {
    target: TargetControl,
    nqn: String,
    events: Arc<Events>,
}

/// Digests that hosts may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    /// At an address, and everything else as it is unless something is said.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        let (digests, hosts) = (TcpDigests::default(), Vec::new());
        let (addresses, ana) = (vec![address], Vec::new());
        Self { addresses, discovery: None, nqn: None, digests, hosts, dhchap: None, ana, tls: None }
    }
}

impl ServedKeys {
    pub(super) fn new(target: TargetControl, nqn: String, events: Arc<Events>) -> Self {
        Self { target, nqn, events }
    }

    /// Has hosts that come go by `keys`, all of them at once. Connections that are there go on.
    ///
    /// # Errors
    /// Where there is no OpenSSL; nothing is changed then.
    pub fn set(&self, keys: HostKeys) -> Result<()> {
        let nqn = name(&self.nqn)?;
        let tls = keys.tls.as_ref().map(|keys| tls_of(&nqn, keys)).transpose()?;
        self.target.set_keys(&nqn, Keys { dhchap: keys.dhchap, tls }).map_err(from_control)
    }

    /// The same of what is `read`, and tells of it; those that there are stay where it cannot be, and that is told, with why.
    pub fn renew<E: Display>(&self, read: impl FnOnce() -> Result<HostKeys, E>) {
        let renewed = read().map_err(|why| format!("{why:#}"));
        self.tell(renewed.and_then(|keys| self.set(keys).map_err(|why| why.to_string())));
    }

    /// Tells of a change of all that is served, and why it was not made where it could not be.
    pub fn change<E: Display>(&self, change: impl FnOnce() -> Result<(), E>) {
        self.tell(change().map_err(|why| format!("{why:#}")));
    }

    fn tell(&self, renewed: Result<(), String>) {
        self.events.put(renewed.map_or_else(Told::KeysKept, |()| Told::KeysRenewed));
    }
}

/// Listens.
pub(super) fn open_listeners(options: &TcpOptions) -> Result<Listeners> {
    Listeners::open(&options.addresses, options.discovery).map_err(from_listen)
}

/// How a target serves.
pub(super) fn target_options(options: &TcpOptions, served: &ServeOptions) -> TargetOptions {
    let digests = match options.digests {
        TcpDigests::None => Digests::NONE,
        TcpDigests::Header => Digests { header: true, data: false },
        TcpDigests::Data => Digests { header: false, data: true },
        TcpDigests::Both => Digests::BOTH,
    };
    let ServeOptions { threads, idle, .. } = *served;
    TargetOptions { digests, threads, idle, ..TargetOptions::default() }
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
