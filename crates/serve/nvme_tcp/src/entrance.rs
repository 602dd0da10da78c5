//! Where a target listens: sockets that one thread accepts from, and that come and go while it does.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_controller::PortId;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

/// Most places that are listened at.
pub const LISTENERS_MAX: usize = 32;

/// Why a target does not listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address}: {source}")]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// The system's answer.
    pub source: io::Error,
}

/// A socket that is listened at.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// Where it is: with the TCP port, where one was to be found.
    pub address: SocketAddr,
    /// The port; none where discovery alone is.
    pub port: Option<PortId>,
}

impl Listener {
    /// Listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(address: SocketAddr, port: Option<PortId>) -> Result<Self, ListenError> {
        let open = || {
            let socket = TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok(Self { socket, address, port })
        };
        open().map_err(|source| ListenError { address, source })
    }
}

/// All of them, each at the place by which its thread knows it.
#[derive(Debug)]
pub struct Entrance {
    /// What the thread that accepts waits by.
    poll: Arc<OwnedFd>,
    /// The first token of theirs.
    first_token: u64,
    listeners: Mutex<Vec<Option<Arc<Listener>>>>,
}

impl Entrance {
    /// Has those who come told by `poll`, with tokens from `first_token` on.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new(poll: Arc<OwnedFd>, first_token: u64, listeners: Vec<Listener>) -> io::Result<Self> {
        let entrance = Self { poll, first_token, listeners: Mutex::default() };
        listeners.into_iter().try_for_each(|listener| entrance.open(listener))?;
        Ok(entrance)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Arc<Listener>>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts from one more.
    ///
    /// # Errors
    /// More than there may be; the system's answer.
    pub fn open(&self, listener: Listener) -> io::Result<()> {
        let mut listeners = self.lock();
        let at = listeners.iter().position(Option::is_none).unwrap_or(listeners.len());
        if at == LISTENERS_MAX {
            let said = format!("a target listens at {LISTENERS_MAX} places at most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
        }
        let token = epoll::EventData::new_u64(self.first_token + at as u64);
        epoll::add(&self.poll, &listener.socket, token, epoll::EventFlags::IN)?;
        let listener = Some(Arc::new(listener));
        match listeners.get_mut(at) {
            Some(place) => *place = listener,
            None => listeners.push(listener),
        }
        Ok(())
    }

    /// Listens no more at a port: who comes there is refused.
    pub fn close(&self, port: PortId) {
        for place in self.lock().iter_mut() {
            if place.as_ref().is_some_and(|listener| listener.port == Some(port)) {
                // With its socket it is out of what is waited by; where the thread accepts at this moment, when that is done.
                *place = None;
            }
        }
    }

    /// That at a place.
    pub fn at(&self, at: usize) -> Option<Arc<Listener>> {
        self.lock().get(at)?.clone()
    }

    /// Whether those who come are told of.
    pub fn set_open(&self, is_open: bool) {
        let flags = if is_open { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        for (token, place) in (self.first_token..).zip(self.lock().iter()) {
            let Some(listener) = place else { continue };
            // What cannot be changed now is changed at the next tick.
            let _ = epoll::modify(&self.poll, &listener.socket, epoll::EventData::new_u64(token), flags);
        }
    }
}
