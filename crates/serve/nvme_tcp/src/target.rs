//! A target: its listening sockets, its threads, and its end.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use byway_controller::PortId;
use byway_executor::Capsules;
use byway_sys::OwnerProcess;
use byway_tls::TlsUnavailable;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::acceptor::{Acceptor, LISTENERS_MAX, ListenError, Listener};
use crate::control::TargetControl;
use crate::counters::TargetSnapshot;
use crate::directory::{Directory, TargetPort};
use crate::options::{EventHandler, SubsystemTerms, TargetOptions};
use crate::paths::{self, PathError};
use crate::pool::ThreadPool;
use crate::subsystem::Subsystem;
use crate::target_state::TargetState;
use crate::worker::{FIRST_LISTENER, Worker};

/// Bound listening sockets of a target to be started. Hosts that connect before wait in the backlog.
#[derive(Debug)]
pub struct Listeners {
    listeners: Vec<Listener>,
    discovery: Option<SocketAddr>,
}

/// A running target. Dropping it stops the threads and closes all connections; acknowledged data stays.
#[derive(Debug)]
pub struct Target {
    owner: OwnerProcess,
    pool: Arc<ThreadPool>,
    threads: Vec<JoinHandle<()>>,
    discovery: Option<SocketAddr>,
}

/// Why a target could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system's error.
    #[error("cannot serve NVMe/TCP: {0}")]
    System(io::Error),
    /// An invalid ANA setting.
    #[error(transparent)]
    Paths(#[from] PathError),
    /// A subsystem names a port that does not exist.
    #[error("there is no port {}", .0.0)]
    NoPort(PortId),
    /// TLS keys without OpenSSL.
    #[error(transparent)]
    Tls(#[from] TlsUnavailable),
}

impl Listeners {
    /// Listens at each of `addresses`, which become ports 1, 2, …, and at `discovery` for discovery only.
    ///
    /// # Errors
    /// The system's error; too many addresses.
    pub fn open(addresses: &[SocketAddr], discovery: Option<SocketAddr>) -> Result<Self, ListenError> {
        let mut listeners = Self { listeners: Vec::new(), discovery: None };
        for (port, address) in (1..).map(PortId).zip(addresses) {
            listeners.listen(*address, Some(port))?;
        }
        if let Some(asked) = discovery {
            listeners.discovery = Some(listeners.listen(asked, None)?);
        }
        Ok(listeners)
    }

    /// Adds a listening socket; returns its bound address.
    fn listen(&mut self, address: SocketAddr, port: Option<PortId>) -> Result<SocketAddr, ListenError> {
        if self.listeners.len() == LISTENERS_MAX {
            let said = format!("a target listens at {LISTENERS_MAX} addresses at most");
            let source = io::Error::new(io::ErrorKind::InvalidInput, said);
            return Err(ListenError { address, source });
        }
        let listener = Listener::open(address, port)?;
        let found = listener.address;
        self.listeners.push(listener);
        Ok(found)
    }

    fn ports(&self) -> Vec<TargetPort> {
        let port = |listener: &Listener| Some(TargetPort { id: listener.port?, address: listener.address });
        self.listeners.iter().filter_map(port).collect()
    }
}

impl Target {
    /// Starts serving `subsystems`, each with its device. `report` receives events.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        listeners: Listeners,
        options: TargetOptions,
        subsystems: Vec<(SubsystemTerms, Capsules)>,
        report: EventHandler,
    ) -> Result<Self, StartError> {
        let ports = listeners.ports();
        let mut served = Vec::with_capacity(subsystems.len());
        for (terms, device) in subsystems {
            paths::begin(&device, &ports, &terms.ana)?;
            let is_there = |wanted: &PortId| ports.iter().any(|port| port.id == *wanted);
            if let Some(missing) = terms.ports.iter().flatten().find(|port| !is_there(port)) {
                return Err(StartError::NoPort(*missing));
            }
            served.push(Arc::new(Subsystem::new(terms, device)));
        }
        let threads = usize::from(options.threads.get());
        let target = Arc::new(TargetState::new(options, Directory::new(ports, served)?, report));
        Self::run(listeners, target, threads).map_err(StartError::System)
    }

    fn run(listeners: Listeners, target: Arc<TargetState>, threads: usize) -> io::Result<Self> {
        let Listeners { listeners, discovery } = listeners;
        let mut poll = new_poll()?;
        // Thread 0 accepts.
        let acceptor = Acceptor::new(poll.clone(), FIRST_LISTENER, listeners)?;
        let pool = Arc::new(ThreadPool::new(target, acceptor, threads)?);
        let owner = OwnerProcess::current();
        let mut target = Self { owner, pool, threads: Vec::new(), discovery };
        for at in 0..threads {
            target.spawn(at, std::mem::replace(&mut poll, new_poll()?))?;
        }
        Ok(target)
    }

    fn spawn(&mut self, at: usize, poll: Arc<OwnedFd>) -> io::Result<()> {
        let mut worker = Worker::new(self.pool.clone(), at, poll)?;
        let thread =
            std::thread::Builder::new().name(format!("byway-tcp-{at}")).spawn(move || worker.run())?;
        self.threads.push(thread);
        Ok(())
    }

    /// A handle for its counters.
    #[must_use]
    pub fn watch(&self) -> TargetWatch {
        TargetWatch(Arc::downgrade(&self.pool))
    }

    /// A handle for changing its configuration.
    #[must_use]
    pub fn control(&self) -> TargetControl {
        TargetControl::of(&self.pool)
    }

    /// Its ports, with the TCP ports that the system chose.
    #[must_use]
    pub fn ports(&self) -> Vec<TargetPort> {
        self.pool.target().directory.listing().ports.clone()
    }

    /// The discovery-only address.
    #[must_use]
    pub fn discovery(&self) -> Option<SocketAddr> {
        self.discovery
    }
}

fn new_poll() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?))
}

/// A handle for a target's counters. It does not keep the target alive.
#[derive(Debug, Clone)]
pub struct TargetWatch(Weak<ThreadPool>);

impl TargetWatch {
    /// The counters; `None` once the target is gone.
    #[must_use]
    pub fn snapshot(&self) -> Option<TargetSnapshot> {
        let pool = self.0.upgrade()?;
        let mut hosts = BTreeMap::new();
        let listing = pool.target().directory.listing();
        listing.subsystems.iter().for_each(|subsystem| subsystem.associations().count_hosts(&mut hosts));
        let hosts = hosts.into_iter().collect();
        Some(TargetSnapshot::of(&pool.target().counters, pool.all_counters(), hosts))
    }
}

impl Drop for Target {
    /// A forked child has none of the threads, and its parent continues to serve.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return std::mem::forget(std::mem::take(&mut self.threads));
        }
        self.pool.stop();
        for thread in self.threads.drain(..) {
            // A panic of a thread has been reported by its own hook.
            let _ = thread.join();
        }
        let listing = self.pool.target().directory.listing();
        listing.subsystems.iter().for_each(|subsystem| subsystem.device().finish());
    }
}
