//! A target: where it listens, its threads, its end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use byway_controller::PortId;
use byway_in_process::Capsules;

use crate::counters::TargetSnapshot;
use crate::keys::TargetKeys;
use crate::options::{TargetOptions, Tell};
use crate::paths::{self, PathError, TargetPaths};
use crate::premises::Premises;
use crate::worker::{Crew, LISTENERS_MAX, Listener, Worker};

/// Where a target will serve: hosts who come before it does wait.
#[derive(Debug)]
pub struct Doors {
    listeners: Vec<Listener>,
    ports: Vec<SocketAddr>,
    discovery: Option<SocketAddr>,
}

/// A target that serves. Dropping it ends the service; what hosts were told stays.
#[derive(Debug)]
pub struct Target {
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
}

/// Why a target does not listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address}: {source}")]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// The system's answer.
    pub source: io::Error,
}

impl Doors {
    /// Listens at each of `addresses`, which are the subsystem's ports from 1 on, and for discovery alone at another where
    /// that is asked for.
    ///
    /// # Errors
    /// What the system says of an address; more of them than there may be.
    pub fn open(addresses: &[SocketAddr], discovery: Option<SocketAddr>) -> Result<Self, ListenError> {
        let mut doors = Self { listeners: Vec::new(), ports: Vec::new(), discovery: None };
        for (port, address) in (1..).map(PortId).zip(addresses) {
            let found = doors.listen(*address, Some(port))?;
            doors.ports.push(found);
        }
        if let Some(asked) = discovery {
            doors.discovery = Some(doors.listen(asked, None)?);
        }
        Ok(doors)
    }

    /// Listens, and says where: the port, where one was to be found.
    fn listen(&mut self, address: SocketAddr, port: Option<PortId>) -> Result<SocketAddr, ListenError> {
        let failed = |source| ListenError { address, source };
        if self.listeners.len() == LISTENERS_MAX {
            let said = format!("a target listens at {LISTENERS_MAX} places at most");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, said)));
        }
        let socket = TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let found = socket.local_addr().map_err(failed)?;
        self.listeners.push(Listener { socket, port });
        Ok(found)
    }
}

impl Target {
    /// Serves `device` to who comes. `tell` is told of hosts that come and go.
    ///
    /// # Errors
    /// What the system says of threads and descriptors; as [`TargetPaths::set`].
    pub fn start(
        doors: Doors,
        options: TargetOptions,
        device: Capsules,
        tell: Tell,
    ) -> Result<Self, StartError> {
        let Doors { mut listeners, ports, discovery } = doors;
        let failed = StartError::System;
        let threads = usize::from(options.threads.get());
        paths::begin(&device, ports.len(), &options.ana)?;
        let premises = Arc::new(Premises::new(options, ports, tell));
        let crew = Arc::new(Crew::new(premises, device, threads).map_err(failed)?);
        let mut target = Self { crew, threads: Vec::new(), discovery };
        for at in 0..threads {
            // The first has all of them.
            let mine = std::mem::take(&mut listeners);
            target.spawn(at, mine).map_err(failed)?;
        }
        Ok(target)
    }

    fn spawn(&mut self, at: usize, listeners: Vec<Listener>) -> io::Result<()> {
        let mut worker = Worker::new(self.crew.clone(), at, listeners)?;
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

    /// Where it listens, from port 1 on: with the TCP port, where one was to be found.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.crew.premises.ports
    }

    /// How its namespaces are reached, to be changed while it serves.
    #[must_use]
    pub fn paths(&self) -> TargetPaths {
        TargetPaths::of(&self.crew)
    }

    /// By what hosts show who they are, to be changed while it serves.
    #[must_use]
    pub fn keys(&self) -> TargetKeys {
        TargetKeys::of(&self.crew)
    }

    /// Where the discovery service listens alone.
    #[must_use]
    pub fn discovery(&self) -> Option<SocketAddr> {
        self.discovery
    }
}

/// A way to look at what a target does, which does not keep it.
#[derive(Debug, Clone)]
pub struct TargetWatch(Weak<Crew>);

impl TargetWatch {
    /// What the target has done so far; `None` once it is gone.
    #[must_use]
    pub fn snapshot(&self) -> Option<TargetSnapshot> {
        let crew = self.0.upgrade()?;
        let hosts = crew.premises.associations.hosts();
        Some(TargetSnapshot::of(&crew.premises.rare, crew.counters.iter(), hosts))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.crew.stop();
        for thread in self.threads.drain(..) {
            // A panic of a thread has been reported by its own hook.
            let _ = thread.join();
        }
        self.crew.device.finish();
    }
}
