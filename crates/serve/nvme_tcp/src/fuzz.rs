//! A target without sockets and threads, for fuzzers: hosts are bytes that somebody made up, and time is what it is said to be.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_controller::PortId;
use byway_local::Capsules;
use byway_tls::TlsUnavailable;
use rustix::io::Errno;

use crate::directory::{Directory, Port};
use crate::ended::Ended;
use crate::options::{SubsystemTerms, TargetOptions};
use crate::premises::{Place, Premises};
use crate::site::Site;
use crate::socket::{Connection, Turn};
use crate::wire::Wire;

/// Bytes received at once.
const BUFFER_BYTES: usize = 8 << 10;

/// Turns after which a connection that is still busy is taken to hang.
const TURNS_MAX: u32 = 100_000;

/// A target.
#[derive(Debug)]
pub struct Grounds {
    premises: Arc<Premises>,
    site: Arc<Site>,
}

/// A connection of a host to it.
#[derive(Debug)]
pub struct Visit {
    connection: Connection<Arc<Pipe>>,
    pipe: Arc<Pipe>,
    buffer: Vec<u8>,
    is_closed: bool,
}

/// What is in place of a socket.
#[derive(Debug, Default)]
struct Pipe(Mutex<Ends>);

#[derive(Debug, Default)]
struct Ends {
    to_target: VecDeque<u8>,
    to_host: Vec<u8>,
    /// So much more the host takes.
    room: usize,
    /// The host says no more.
    has_left: bool,
}

impl Grounds {
    /// One that serves `device`.
    ///
    /// # Errors
    /// Where there is no OpenSSL for hosts that have keys.
    pub fn new(terms: SubsystemTerms, device: Capsules) -> Result<Self, TlsUnavailable> {
        let site = Arc::new(Site::new(terms, device));
        let port = Port { id: PortId(1), address: address() };
        let directory = Directory::new(vec![port], vec![site.clone()])?;
        let premises = Premises::new(TargetOptions::default(), directory, Arc::new(|_| {}));
        Ok(Self { premises: Arc::new(premises), site })
    }

    /// A host comes: to the subsystem's port, or to where discovery alone is.
    #[must_use]
    pub fn visit(&self, to_discovery: bool, now_ns: u64) -> Visit {
        let port = (!to_discovery).then_some(PortId(1));
        let place = Place { from: address(), to: address(), port };
        let pipe = Arc::<Pipe>::default();
        let connection = Connection::new(pipe.clone(), self.premises.clone(), place, now_ns);
        Visit { connection, pipe, buffer: vec![0; BUFFER_BYTES], is_closed: false }
    }

    /// Hosts that have a controller.
    #[must_use]
    pub fn hosts(&self) -> usize {
        let mut hosts = BTreeMap::new();
        self.site.associations.count_hosts(&mut hosts);
        hosts.len()
    }
}

impl Visit {
    /// The host sends something.
    pub fn put(&mut self, bytes: &[u8]) {
        self.pipe.ends().to_target.extend(bytes);
    }

    /// The host says no more.
    pub fn leave(&mut self) {
        self.pipe.ends().has_left = true;
    }

    /// What the target sends, so much of it at most.
    pub fn take(&mut self, bytes: usize, now_ns: u64) -> Vec<u8> {
        self.pipe.ends().room = bytes;
        self.run(now_ns);
        let mut ends = self.pipe.ends();
        ends.room = 0;
        std::mem::take(&mut ends.to_host)
    }

    /// Has the target do all that it can now.
    ///
    /// # Panics
    /// If it never comes to an end.
    pub fn run(&mut self, now_ns: u64) {
        for _ in 0..TURNS_MAX {
            if self.is_closed {
                return;
            }
            self.connection.look(now_ns);
            match self.connection.turn(&mut self.buffer, now_ns) {
                Turn::Busy => {}
                Turn::Idle => return,
                Turn::Closed => self.is_closed = true,
            }
        }
        panic!("the connection is busy without end");
    }

    /// Has the target mind the time.
    pub fn mind(&mut self, now_ns: u64) {
        self.is_closed |= self.connection.mind(now_ns);
    }

    /// Whether it is over, or closed already.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_closed || self.connection.is_over()
    }

    /// Ends it, as a target does that ends.
    pub fn end(&mut self, now_ns: u64) {
        self.connection.end(Ended::Left, now_ns);
        self.is_closed = true;
    }

    /// Bytes that the connection holds for its host.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.connection.held_bytes()
    }
}

impl Pipe {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ends {
    /// How much of what is there fits in `into`; nothing yet, or nothing more, where that is none.
    fn copy(&self, into: &mut [u8]) -> Result<usize, Errno> {
        if self.to_target.is_empty() && !self.has_left {
            return Err(Errno::AGAIN);
        }
        into.iter_mut().zip(&self.to_target).for_each(|(to, from)| *to = *from);
        Ok(into.len().min(self.to_target.len()))
    }
}

impl Wire for Arc<Pipe> {
    fn receive(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let mut ends = self.ends();
        let bytes = ends.copy(into)?;
        ends.to_target.drain(..bytes);
        Ok(bytes)
    }

    fn peek(&self, into: &mut [u8]) -> Result<usize, Errno> {
        self.ends().copy(into)
    }

    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut ends = self.ends();
        if ends.room == 0 {
            return Err(Errno::AGAIN);
        }
        let taken = bytes.get(..ends.room).unwrap_or(bytes);
        ends.to_host.extend_from_slice(taken);
        ends.room -= taken.len();
        Ok(taken.len())
    }

    fn end(&self) {}
}

fn address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 4420))
}
