//! A target: where it listens, its threads, its end.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use byway_controller::PortId;
use byway_local::Capsules;
use byway_sys::OwnerProcess;
use byway_tls::TlsUnavailable;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::control::TargetControl;
use crate::counters::TargetSnapshot;
use crate::crew::Crew;
use crate::directory::{Directory, Port};
use crate::entrance::{Entrance, LISTENERS_MAX, ListenError, Listener};
use crate::options::{SubsystemTerms, TargetOptions, Tell};
use crate::paths::{self, PathError};
use crate::premises::Premises;
use crate::site::Site;
use crate::worker::{FIRST_LISTENER, Worker};

/// Where a target will serve: hosts who come before it does wait.
#[derive(Debug)]
pub struct Doors {
    listeners: Vec<Listener>,
    discovery: Option<SocketAddr>,
}

/// A target that serves. Dropping it ends the service; what hosts were told stays.
#[derive(Debug)]
pub struct Target {
    owner: OwnerProcess,
    crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
    discovery: Option<SocketAddr>,
}

/// Why a target does not serve.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system's answer.
    #[error("cannot serve NVMe/TCP: {0}")]
    System(io::Error),
    /// What is said of paths makes no sense.
    #[error(transparent)]
    Paths(#[from] PathError),
    /// A subsystem is to be found by a port that is not there.
    #[error("there is no port {}", .0.0)]
    NoPort(PortId),
    /// Keys of hosts are of no use.
    #[error(transparent)]
    Tls(#[from] TlsUnavailable),
}

impl Doors {
    /// Listens at each of `addresses`, which are the target's ports from 1 on, and for discovery alone at another where
    /// that is asked for.
    ///
    /// # Errors
    /// What the system says of an address; more of them than there may be.
    pub fn open(addresses: &[SocketAddr], discovery: Option<SocketAddr>) -> Result<Self, ListenError> {
        let mut doors = Self { listeners: Vec::new(), discovery: None };
        for (port, address) in (1..).map(PortId).zip(addresses) {
            doors.listen(*address, Some(port))?;
        }
        if let Some(asked) = discovery {
            doors.discovery = Some(doors.listen(asked, None)?);
        }
        Ok(doors)
    }

    /// Listens, and says where.
    fn listen(&mut self, address: SocketAddr, port: Option<PortId>) -> Result<SocketAddr, ListenError> {
        if self.listeners.len() == LISTENERS_MAX {
            let said = format!("a target listens at {LISTENERS_MAX} places at most");
            let source = io::Error::new(io::ErrorKind::InvalidInput, said);
            return Err(ListenError { address, source });
        }
        let listener = Listener::open(address, port)?;
        let found = listener.address;
        self.listeners.push(listener);
        Ok(found)
    }

    fn ports(&self) -> Vec<Port> {
        let port = |listener: &Listener| Some(Port { id: listener.port?, address: listener.address });
        self.listeners.iter().filter_map(port).collect()
    }
}

impl Target {
    /// Serves subsystems to who comes, each by its device. `tell` is told of hosts that come and go.
    ///
    /// # Errors
    /// What the system says of threads and descriptors; as [`TargetPaths::set`](crate::TargetPaths::set).
    pub fn start(
        doors: Doors,
        options: TargetOptions,
        subsystems: Vec<(SubsystemTerms, Capsules)>,
        tell: Tell,
    ) -> Result<Self, StartError> {
        let ports = doors.ports();
        let mut sites = Vec::with_capacity(subsystems.len());
        for (terms, device) in subsystems {
            paths::begin(&device, &ports, &terms.ana)?;
            let is_there = |wanted: &PortId| ports.iter().any(|port| port.id == *wanted);
            if let Some(missing) = terms.ports.iter().flatten().find(|port| !is_there(port)) {
                return Err(StartError::NoPort(*missing));
            }
            sites.push(Arc::new(Site::new(terms, device)));
        }
        let threads = usize::from(options.threads.get());
        let premises = Arc::new(Premises::new(options, Directory::new(ports, sites)?, tell));
        Self::run(doors, premises, threads).map_err(StartError::System)
    }

    fn run(doors: Doors, premises: Arc<Premises>, threads: usize) -> io::Result<Self> {
        let Doors { listeners, discovery } = doors;
        let mut poll = new_poll()?;
        // Hosts are told of to the first thread.
        let entrance = Entrance::new(poll.clone(), FIRST_LISTENER, listeners)?;
        let crew = Arc::new(Crew::new(premises, entrance, threads)?);
        let owner = OwnerProcess::current();
        let mut target = Self { owner, crew, threads: Vec::new(), discovery };
        for at in 0..threads {
            target.spawn(at, std::mem::replace(&mut poll, new_poll()?))?;
        }
        Ok(target)
    }

    fn spawn(&mut self, at: usize, poll: Arc<OwnedFd>) -> io::Result<()> {
        let mut worker = Worker::new(self.crew.clone(), at, poll)?;
        let thread =
            std::thread::Builder::new().name(format!("byway-tcp-{at}")).spawn(move || worker.run())?;
        self.threads.push(thread);
        Ok(())
    }

    /// A way to look at what it does.
    #[must_use]
    pub fn watch(&self) -> TargetWatch {
        TargetWatch(Arc::downgrade(&self.crew))
    }

    /// A way to change what it serves while it does.
    #[must_use]
    pub fn control(&self) -> TargetControl {
        TargetControl::of(&self.crew)
    }

    /// Where it listens now: with the TCP port, where one was to be found.
    #[must_use]
    pub fn ports(&self) -> Vec<Port> {
        self.crew.premises.directory.listing().ports.clone()
    }

    /// Where the discovery service listens alone.
    #[must_use]
    pub fn discovery(&self) -> Option<SocketAddr> {
        self.discovery
    }
}

fn new_poll() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?))
}

/// A way to look at what a target does, which does not keep it.
#[derive(Debug, Clone)]
pub struct TargetWatch(Weak<Crew>);

impl TargetWatch {
    /// What the target has done so far; `None` once it is gone.
    #[must_use]
    pub fn snapshot(&self) -> Option<TargetSnapshot> {
        let crew = self.0.upgrade()?;
        let mut hosts = BTreeMap::new();
        let listing = crew.premises.directory.listing();
        listing.sites.iter().for_each(|site| site.associations.count_hosts(&mut hosts));
        let hosts = hosts.into_iter().collect();
        Some(TargetSnapshot::of(&crew.premises.rare, crew.counters.iter(), hosts))
    }
}

impl Drop for Target {
    /// A forked child has none of the threads, and its parent goes on serving.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return std::mem::forget(std::mem::take(&mut self.threads));
        }
        self.crew.stop();
        for thread in self.threads.drain(..) {
            // A panic of a thread has been reported by its own hook.
            let _ = thread.join();
        }
        let listing = self.crew.premises.directory.listing();
        listing.sites.iter().for_each(|site| site.device.finish());
    }
}
