//! Listening sockets of a target. Thread 0 accepts from them; they can be opened and closed at run time.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use byway_controller::PortId;
use parking_lot::Mutex;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::endpoints::Endpoints;
use crate::wire;

/// Listening sockets of a target, at most.
pub const LISTENERS_MAX: usize = 32;

/// An address at which the target cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address}: {source}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// The system's error.
    pub source: io::Error,
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    /// The bound address, with the TCP port that the system chose.
    pub address: SocketAddr,
    /// The NVMe port; `None` for the discovery-only address.
    pub port: Option<PortId>,
}

impl Listener {
    /// Binds and listens.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(address: SocketAddr, port: Option<PortId>) -> Result<Self, ListenError> {
        let open = || {
            let socket = TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok(Self { socket, address, port })
        };
        open().map_err(|source| ListenError { address, source })
    }

    /// The same socket, as port `id`.
    pub fn with_port(self, id: PortId) -> Self {
        Self { port: Some(id), ..self }
    }

    /// Accepts a connection and makes its socket non-blocking.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) when none is pending, [`ConnectionAborted`](io::ErrorKind::ConnectionAborted)
    /// for one that is gone already; the system's error.
    pub fn accept(&self) -> io::Result<(TcpStream, Endpoints)> {
        let (stream, from) = self.socket.accept()?;
        let prepare = || {
            wire::prepare(&stream)?;
            stream.local_addr()
        };
        let to = prepare().map_err(|error| io::Error::new(io::ErrorKind::ConnectionAborted, error))?;
        Ok((stream, Endpoints { from, to, port: self.port }))
    }
}

/// All listening sockets. The index of a socket is its epoll token less `first_token`.
#[derive(Debug)]
pub struct Acceptor {
    /// The epoll instance of the accepting thread.
    poll: Arc<OwnedFd>,
    /// The epoll token of socket 0.
    first_token: u64,
    listeners: Mutex<Vec<Option<Arc<Listener>>>>,
}

impl Acceptor {
    /// Registers the sockets with `poll`, with tokens from `first_token` on.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(poll: Arc<OwnedFd>, first_token: u64, listeners: Vec<Listener>) -> io::Result<Self> {
        let acceptor = Self { poll, first_token, listeners: Mutex::default() };
        listeners.into_iter().try_for_each(|listener| acceptor.open(listener))?;
        Ok(acceptor)
    }

    /// Adds a listening socket.
    ///
    /// # Errors
    /// More than [`LISTENERS_MAX`]; the system's error.
    pub fn open(&self, listener: Listener) -> io::Result<()> {
        let mut listeners = self.listeners.lock();
        let at = listeners.iter().position(Option::is_none).unwrap_or(listeners.len());
        if at == LISTENERS_MAX {
            let said = format!("a target listens at {LISTENERS_MAX} addresses at most");
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

    /// Closes the sockets of a port; further connections are refused by the system.
    pub fn close(&self, port: PortId) {
        for place in self.listeners.lock().iter_mut() {
            if place.as_ref().is_some_and(|listener| listener.port == Some(port)) {
                // Closing the socket removes it from epoll; if the accepting thread holds it now, when that thread drops it.
                *place = None;
            }
        }
    }

    /// The socket at an index.
    pub fn at(&self, at: usize) -> Option<Arc<Listener>> {
        self.listeners.lock().get(at)?.clone()
    }

    /// Enables or disables epoll events of all sockets.
    pub fn set_open(&self, is_open: bool) {
        let flags = if is_open { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        for (token, place) in (self.first_token..).zip(self.listeners.lock().iter()) {
            let Some(listener) = place else { continue };
            // A failure is retried at the next tick.
            let _ = epoll::modify(&self.poll, &listener.socket, epoll::EventData::new_u64(token), flags);
        }
    }
}
