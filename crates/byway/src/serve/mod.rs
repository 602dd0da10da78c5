//! Serving embedded devices, and exports of other devices, to hosts in other processes and on other machines.

mod apply;
mod damage;
mod events;
mod exports;
mod live;
pub mod metrics;
pub mod requests;
mod subsystem;
mod tcp;

use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use byway_controller::SubsystemOptions;
use byway_core::{Error, ErrorKind, Result};
use byway_local::{Hosts, UpkeepBy, WatchedBy};
use byway_sys::{SocketError, SocketListener};
use byway_tcp_target::{Listeners, SubsystemTerms, Target, TargetPort};
use byway_vfio_user::{DoorbellPage, Function, ServeError, Server, Vectors};

use crate::embedded::control_folder::ControlSocket;
use crate::embedded::errors::from_start;
use crate::uri::Options;

pub use byway_sys::Idle;
pub use byway_tcp_target::{
    AnaSetting, AnaState, AuthHash, AuthSecrets, AuthSuites, DhGroup, Dhchap, DhchapSecret, Nqn, Parties,
    PathError, PortId, PskForm, PskHash, SecretError, TargetPaths, TlsKey, TlsKeyError, TlsPolicy, TlsPsk,
};
pub use events::{ServeEvent, StopServing};
pub use exports::{Exported, Exporter};
pub use live::{PathState, ServeControl, ServedNamespace, ServedSubsystem};
pub use subsystem::SubsystemSpec;
pub use tcp::{HostKeys, ServedKeys, TcpDigests, TcpOptions, TlsKeys};

use damage::DamageWatch;
use events::EventQueue;
use metrics::{ClientCounters, MetricsServer, Watch};
use requests::Requests;
use subsystem::{OpenSubsystem, ServerSettings, SubsystemTable};

/// The former name of [`ServeEvent`].
#[deprecated(note = "it is `ServeEvent`")]
pub type Told = ServeEvent;

/// Where a device is served, and what its controllers announce.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The socket for vfio-user clients: QEMU's `vfio-user-pci` device among them.
    pub vfio_user: Option<PathBuf>,
    /// Where NVMe/TCP hosts connect, beside or instead.
    pub tcp: Option<TcpOptions>,
    /// What is exported as namespaces, beside those of the image: of each device that a URI names, the namespace of blocks that
    /// it means.
    pub exports: Vec<String>,
    /// Whether controllers announce SGLs; `None` for what the URI says.
    pub sgls: Option<bool>,
    /// How threads wait while no command arrives.
    pub idle: Idle,
    /// How many threads share the queues, and the connections.
    pub threads: NonZeroU16,
    /// Address of the Prometheus endpoint. Without it commands are not counted.
    pub metrics: Option<SocketAddr>,
    /// A control socket for requests of other processes of this user, beside those of the served images.
    pub control: Option<PathBuf>,
}

impl ServeOptions {
    /// No fronts yet; everything else by default.
    #[must_use]
    pub fn new() -> Self {
        let (exports, threads) = (Vec::new(), NonZeroU16::MIN);
        let idle = Idle::default();
        let (vfio_user, tcp, metrics) = (None, None, None);
        Self { vfio_user, tcp, exports, sgls: None, idle, threads, metrics, control: None }
    }

    /// At a socket for vfio-user clients.
    #[must_use]
    pub fn at(vfio_user: impl Into<PathBuf>) -> Self {
        Self { vfio_user: Some(vfio_user.into()), ..Self::new() }
    }

    /// Where NVMe/TCP hosts connect.
    #[must_use]
    pub fn over_tcp(tcp: TcpOptions) -> Self {
        Self { tcp: Some(tcp), ..Self::new() }
    }

    byway_sys::setters! {
        /// The socket for vfio-user clients.
        vfio_user: impl Into<Option<PathBuf>>;
        /// Where NVMe/TCP hosts connect.
        tcp: impl Into<Option<TcpOptions>>;
        /// URIs of devices whose namespaces of blocks are exported.
        exports: impl Into<Vec<String>>;
        /// Whether controllers announce SGLs; `None` for what the URI says.
        sgls: impl Into<Option<bool>>;
        /// How threads wait while no command arrives.
        idle: Idle;
        /// Threads that share the queues, and the connections.
        threads: NonZeroU16;
        /// Address of the Prometheus endpoint.
        metrics: impl Into<Option<SocketAddr>>;
        /// A control socket beside those of the served images.
        control: impl Into<Option<PathBuf>>;
    }
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// What is being served. Dropping it closes the devices.
#[derive(Debug)]
pub struct Served {
    // Declared before the devices, whose images are closed with the last of all.
    requests: Arc<Requests>,
    sockets: Vec<ControlSocket>,
    snapshots: Vec<ControlSocket>,
    server: Option<Server>,
    target: Option<Target>,
    metrics: Option<MetricsServer>,
    clients: Arc<ClientCounters>,
    events: Arc<EventQueue>,
    nqn: String,
    exported: Vec<Exported>,
    exporter: Option<Exporter>,
    table: Arc<SubsystemTable>,
}

/// Opens the device that `uri` names and serves it: as a PCIe NVMe controller over vfio-user, over NVMe/TCP, or both.
///
/// # Errors
/// As [`crate::embedded::open`]; options that are a host's to choose; a socket at which another server listens.
pub fn serve(uri: &str, options: &ServeOptions) -> Result<Served> {
    let spec = SubsystemSpec::of(Some(uri), &options.exports, options.tcp.as_ref());
    serve_specs(&[spec], options).map_err(|error| error.doing(format!("serve {uri}")))
}

/// Exports what `options` name, and nothing else: each is a namespace, numbered from 1 in their order, of a subsystem whose name
/// follows from theirs.
///
/// # Errors
/// As [`serve`], and as [`crate::open`] of what is exported; where nothing is.
pub fn export(options: &ServeOptions) -> Result<Served> {
    if options.exports.is_empty() {
        return Err(Error::host(ErrorKind::InvalidArgument, "nothing is to be exported"));
    }
    serve_specs(&[SubsystemSpec::of(None, &options.exports, options.tcp.as_ref())], options)
}

/// Serves several subsystems to NVMe/TCP hosts at the same ports. Of `options`, what is one subsystem's own is for `subsystems` to
/// say, and there may be none of them to begin with.
///
/// # Errors
/// As [`serve`]; two of one name; one that exports nothing and has no name; vfio-user clients, who find one device.
pub fn serve_all(subsystems: &[SubsystemSpec], options: &ServeOptions) -> Result<Served> {
    let refused = |said: &'static str| Err(Error::host(ErrorKind::InvalidArgument, said));
    let Some(tcp) = &options.tcp else { return refused("several subsystems are served over NVMe/TCP") };
    let TcpOptions { nqn, hosts, dhchap, ana, tls, .. } = tcp;
    let of_one = nqn.is_some() || !hosts.is_empty() || dhchap.is_some() || !ana.is_empty() || tls.is_some();
    if of_one || !options.exports.is_empty() {
        return refused("a name, hosts, keys, states and namespaces are for each subsystem to have");
    }
    if options.vfio_user.is_some() {
        return refused("vfio-user clients find one device, not several subsystems");
    }
    serve_specs(subsystems, options)
}

/// Serves `specs` at every front of `options`.
fn serve_specs(specs: &[SubsystemSpec], options: &ServeOptions) -> Result<Served> {
    // Before the images: what cannot be served is not opened.
    if let Some(path) = &options.vfio_user {
        SocketListener::check(path).map_err(|error| from_socket(path, error))?;
    }
    let listeners = options.tcp.as_ref().map(tcp::open_listeners).transpose()?;
    let listener = options.metrics.map(listen_for_metrics).transpose()?;
    let polls = options.idle == Idle::Poll && options.vfio_user.is_some();
    let vectors = Arc::new(Vectors::default());
    let no_memory = |error| Error::kernel("share doorbells", error);
    let page = if polls { Some(DoorbellPage::new().map_err(no_memory)?) } else { None };
    let hosts = || Hosts {
        interrupts: vectors.clone(),
        doorbells: page.as_ref().map(|page| page.memory().clone()),
        // Queues of PCIe hosts alone leave for threads.
        threads: if options.vfio_user.is_some() { options.threads } else { NonZeroU16::MIN },
        engines: None,
        upkeep_by: UpkeepBy::default(),
    };
    let settings = settings_of(options, polls);
    let opened = specs.iter().map(|spec| OpenSubsystem::open(spec, &settings, hosts()));
    let open = opened.collect::<Result<Vec<_>>>()?;
    // After the images: a client is answered from here on.
    let server = match (&options.vfio_user, open.first()) {
        (Some(path), Some(only)) => {
            let socket = SocketListener::open(path).map_err(|error| from_socket(path, error))?;
            let server = Server::new(socket, Function::new(only.device.front(), vectors, page));
            Some(server.map_err(|error| Error::kernel("serve by vfio-user", error))?)
        }
        _ => None,
    };
    let events = Arc::new(EventQueue::new().map_err(|error| Error::kernel("serve", error))?);
    let target = match (listeners, &options.tcp) {
        (Some(listeners), Some(tcp)) => Some(start_target(listeners, (tcp, options), specs, &open, &events)?),
        _ => None,
    };
    let first = open.first().map(|first| (first.nqn.clone(), first.exported.clone()));
    let (nqn, exported) = first.unwrap_or_default();
    let exporter = open.first().and_then(|first| first.exporter.clone()).filter(|_| !exported.is_empty());
    let snapshots = open.iter().filter(|open| is_asked_for_copies(open));
    let snapshots = snapshots.map(|open| open.control.clone()).collect();
    let table = Arc::new(SubsystemTable::new(settings, open));
    let clients = Arc::new(ClientCounters::default());
    let watch = Watch {
        table: Arc::downgrade(&table),
        target: target.as_ref().map(Target::watch),
        clients: server.as_ref().map(|_| clients.clone()),
    };
    let metrics = listener.map(|listener| MetricsServer::start(listener, watch));
    let metrics = metrics.transpose().map_err(|error| Error::kernel("serve metrics", error))?;
    let requests = Arc::new(Requests::new(events.clone()));
    let control = control_of(&table, target.as_ref(), &requests);
    let sockets = requests.start_all(options.control.as_deref(), &table, &control)?;
    Ok(Served {
        requests,
        sockets,
        snapshots,
        server,
        target,
        metrics,
        clients,
        events,
        nqn,
        exported,
        exporter,
        table,
    })
}

fn control_of(
    table: &Arc<SubsystemTable>,
    target: Option<&Target>,
    requests: &Arc<Requests>,
) -> ServeControl {
    let sockets: Weak<Requests> = Arc::downgrade(requests);
    ServeControl::new(table, target.map(Target::control), sockets)
}

/// Whether an image is served that its process must copy.
fn is_asked_for_copies(open: &OpenSubsystem) -> bool {
    open.image.as_ref().is_some_and(|image| !image.is_shared())
}

/// What holds for every subsystem, those that are added later too.
fn settings_of(options: &ServeOptions, polls: bool) -> ServerSettings {
    let is_fixed = options.vfio_user.is_some();
    ServerSettings {
        announced: SubsystemOptions::default().doorbell_buffers(!polls),
        sgls: options.sgls,
        counts_commands: options.metrics.is_some(),
        // Hosts over PCIe only wait for interrupts; those over a network have threads that poll.
        watched_by: if is_fixed { WatchedBy::Device } else { WatchedBy::Connections },
    }
}

fn listen_for_metrics(address: SocketAddr) -> Result<TcpListener> {
    MetricsServer::listen(address).map_err(|error| Error::kernel(format!("listen at {address}"), error))
}

fn start_target(
    listeners: Listeners,
    (tcp, options): (&TcpOptions, &ServeOptions),
    specs: &[SubsystemSpec],
    open: &[OpenSubsystem],
    events: &Arc<EventQueue>,
) -> Result<Target> {
    let mut subsystems = Vec::with_capacity(open.len());
    for (spec, OpenSubsystem { nqn, device, .. }) in specs.iter().zip(open) {
        let terms = spec.terms(nqn)?;
        if subsystems.iter().any(|(other, _): &(SubsystemTerms, _)| other.nqn == terms.nqn) {
            let said = format!("two subsystems are called {nqn}");
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        subsystems.push((terms, device.capsules().map_err(from_start)?));
    }
    let queue = events.clone();
    let report = Arc::new(move |event: byway_tcp_target::TargetEvent| queue.put(event.into()));
    let target = Target::start(listeners, tcp::target_options(tcp, options), subsystems, report);
    target.map_err(tcp::from_target)
}

/// Refuses options of the host, which a served device would ignore.
fn check_options(options: &Options) -> Result<()> {
    let default = Options::default();
    let of_hosts = [
        ("transfer", options.transfer != default.transfer),
        ("policy", options.policy != default.policy),
        ("inline-read", options.inline_reads != default.inline_reads),
        ("ns", options.ns != default.ns),
        ("run", options.run_by != default.run_by),
        ("depth", options.depth != default.depth),
        ("ring", options.ring_entries != default.ring_entries),
    ];
    match of_hosts.iter().find(|(_, given)| *given) {
        Some((name, _)) => {
            let said = format!("{name}= is for the hosts of a served device to choose");
            Err(Error::host(ErrorKind::InvalidArgument, said))
        }
        None => Ok(()),
    }
}

fn from_socket(path: &Path, error: SocketError) -> Error {
    match error {
        SocketError::System { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            let said = format!("there is no folder for the socket {}: make it first", path.display());
            Error::host(ErrorKind::NotFound, said)
        }
        SocketError::System { source, .. } => Error::kernel(format!("listen at {}", path.display()), source),
        SocketError::Live(_) => Error::host(ErrorKind::Busy, error.to_string()),
        _ => Error::host(ErrorKind::InvalidArgument, error.to_string()),
    }
}

impl Served {
    /// Ends the service, from any thread.
    #[must_use]
    pub fn stopper(&self) -> StopServing {
        StopServing::new(self.events.clone(), self.server.as_ref().map(Server::stop))
    }

    /// The first of [`Self::tcp_addresses`], with the port that the system chose for port 0.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp_addresses().first().copied()
    }

    /// All places where NVMe/TCP hosts connect now: the ports, in order of their numbers.
    #[must_use]
    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        let ports = self.target.as_ref().map(Target::ports).unwrap_or_default();
        ports.iter().map(|TargetPort { address, .. }| *address).collect()
    }

    /// How NVMe/TCP hosts reach namespaces of the first subsystem by each port (ANA), to be changed while it is served; none without such hosts.
    #[must_use]
    pub fn paths(&self) -> Option<TargetPaths> {
        let nqn = tcp::name(&self.nqn).ok()?;
        Some(self.target.as_ref()?.control().paths(nqn))
    }

    /// Secrets and keys of the first subsystem's NVMe/TCP hosts, to be changed while it is served; `None` without NVMe/TCP.
    #[must_use]
    pub fn keys(&self) -> Option<ServedKeys> {
        let target = self.target.as_ref()?.control();
        Some(ServedKeys::new(target, self.nqn.clone(), self.events.clone()))
    }

    /// Where they ask for subsystems alone.
    #[must_use]
    pub fn discovery_address(&self) -> Option<SocketAddr> {
        self.target.as_ref().and_then(Target::discovery)
    }

    /// Address of the Prometheus endpoint, with the port that the system chose for port 0.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::address)
    }

    /// Control sockets when the service began: the one of [`ServeOptions::control`] and one for each image, or the reason why that one
    /// is missing. Empty if there is neither.
    #[must_use]
    pub fn control_sockets(&self) -> &[ControlSocket] {
        &self.sockets
    }

    /// Snapshot sockets of the served writable images, or the reason why one is missing.
    #[must_use]
    pub fn snapshot_sockets(&self) -> &[ControlSocket] {
        &self.snapshots
    }

    /// What is served, to be changed while it is.
    #[must_use]
    pub fn control(&self) -> ServeControl {
        control_of(&self.table, self.target.as_ref(), &self.requests)
    }

    /// What the first subsystem exports, to be changed while it is served; none where nothing is.
    #[must_use]
    pub fn exporter(&self) -> Option<Exporter> {
        self.exporter.clone()
    }

    /// What the first subsystem exported when the service began, in order of identifiers.
    #[must_use]
    pub fn exported(&self) -> &[Exported] {
        &self.exported
    }

    /// The first subsystem's name.
    #[must_use]
    pub fn nqn(&self) -> &str {
        &self.nqn
    }

    /// Serves until it is stopped, vfio-user clients one after the other, then closes the devices. `report` gets an event for each
    /// client and host that connects or disconnects.
    ///
    /// # Errors
    /// When the device has failed, another program has cut short or overwritten the image of the last subsystem or of one beside
    /// vfio-user clients, or the system refuses.
    pub fn run(mut self, mut report: impl FnMut(ServeEvent)) -> Result<()> {
        let stopper = self.stopper();
        let (events, clients) = (self.events.clone(), self.clients.clone());
        let watch = self.damage_watch();
        let inspect = || watch.inspect();
        let count = |event: &ServeEvent| clients.note(event);
        let served = match (self.server.take(), self.target.take()) {
            (None, target) => {
                let waited = events.wait(&mut report, inspect);
                drop(target);
                waited
            }
            (Some(server), target) => std::thread::scope(|scope| {
                let (put, stop) = (&events, &stopper);
                let clients = scope.spawn(move || {
                    let served = serve_clients(server, count, |event| put.put(event));
                    stop.stop();
                    served
                });
                let waited = events.wait(&mut report, inspect);
                stop.stop();
                drop(target);
                let panicked = |_| Err(Error::host(ErrorKind::Device, "the server failed"));
                let served = clients.join().unwrap_or_else(panicked);
                waited.and(served)
            }),
        };
        self.requests.close();
        events.drain(&mut report);
        served
    }

    fn damage_watch(&self) -> DamageWatch {
        DamageWatch { table: self.table.clone(), control: self.control(), events: self.events.clone() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Before the devices: a request may hold them.
        self.requests.close();
    }
}

fn serve_clients(
    mut server: Server,
    count: impl Fn(&ServeEvent),
    mut report: impl FnMut(ServeEvent),
) -> Result<()> {
    let on_event = |event: byway_vfio_user::ClientEvent<'_>| {
        if let Some(event) = ServeEvent::of_client(&event) {
            count(&event);
            report(event);
        }
    };
    server.serve(on_event).map_err(|error| match error {
        ServeError::System(error) => Error::kernel("serve by vfio-user", error),
        other => Error::host(ErrorKind::Device, other.to_string()),
    })
}
