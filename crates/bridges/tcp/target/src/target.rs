//! A target: where it listens, its threads, its end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use byway_in_process::Capsules;

use crate::options::{TargetOptions, Tell};
use crate::premises::Premises;
use crate::worker::{Crew, Listener, Worker};

/// Where a target will serve: hosts who come before it does wait.
#[derive(Debug)]
pub struct Doors {
    listeners: Vec<Listener>,
    address: SocketAddr,
    discovery: Option<SocketAddr>,
}

/// A target that serves. Dropping it ends the service; what hosts were told stays.
#[derive(Debug)]
pub struct Target {
    crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
    address: SocketAddr,
    discovery: Option<SocketAddr>,
}

/// Why a target does not listen, or not serve.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address}: {source}")]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// The system's answer.
    pub source: io::Error,
}

impl Doors {
    /// Listens at `address`, and for discovery alone at another where that is asked for.
    ///
    /// # Errors
    /// What the system says of an address.
    pub fn open(address: SocketAddr, discovery: Option<SocketAddr>) -> Result<Self, ListenError> {
        let (first, address) = listen(address, false)?;
        let mut doors = Self { listeners: vec![first], address, discovery: None };
        if let Some(asked) = discovery {
            let (second, found) = listen(asked, true)?;
            doors.listeners.push(second);
            doors.discovery = Some(found);
        }
        Ok(doors)
    }
}

impl Target {
    /// Serves `device` to who comes. `tell` is told of hosts that come and go.
    ///
    /// # Errors
    /// What the system says of threads and descriptors.
    pub fn start(
        doors: Doors,
        options: TargetOptions,
        device: Capsules,
        tell: Tell,
    ) -> Result<Self, ListenError> {
        let Doors { mut listeners, address, discovery } = doors;
        let failed = |source| ListenError { address, source };
        let threads = usize::from(options.threads.get());
        let premises = Arc::new(Premises::new(options, address, tell));
        let crew = Arc::new(Crew::new(premises, device, threads).map_err(failed)?);
        let mut target = Self { crew, threads: Vec::new(), address, discovery };
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

    /// Where it listens: the port, where one was to be found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the discovery service listens alone.
    #[must_use]
    pub fn discovery(&self) -> Option<SocketAddr> {
        self.discovery
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

/// Listens, and says where: the port, where one was to be found.
fn listen(address: SocketAddr, is_discovery: bool) -> Result<(Listener, SocketAddr), ListenError> {
    let failed = |source| ListenError { address, source };
    let socket = TcpListener::bind(address).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    let found = socket.local_addr().map_err(failed)?;
    Ok((Listener { socket, is_discovery }, found))
}
