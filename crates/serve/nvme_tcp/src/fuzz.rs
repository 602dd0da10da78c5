//! A target without sockets and threads, for fuzzers: the caller passes bytes and time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use byway_controller::PortId;
use byway_executor::Capsules;
use byway_tls::TlsUnavailable;
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;

use crate::close_reason::CloseReason;
use crate::directory::{Directory, TargetPort};
use crate::endpoints::Endpoints;
use crate::options::{SubsystemTerms, TargetOptions};
use crate::socket::{Connection, Progress};
use crate::subsystem::Subsystem;
use crate::target_state::TargetState;
use crate::wire::Wire;

/// Bytes received at once.
const BUFFER_BYTES: usize = 8 << 10;

/// Iterations after which a connection that is still busy counts as hung.
const ITERATIONS_MAX: u32 = 100_000;

/// A target with one subsystem at port 1.
#[derive(Debug)]
pub struct SocketlessTarget {
    target: Arc<TargetState>,
    subsystem: Arc<Subsystem>,
}

/// A host's connection to it.
#[derive(Debug)]
pub struct SocketlessConnection {
    connection: Connection<Arc<Pipe>>,
    pipe: Arc<Pipe>,
    buffer: Vec<u8>,
    is_closed: bool,
}

/// The stand-in for a socket.
#[derive(Debug, Default)]
struct Pipe(Mutex<Ends>);

#[derive(Debug, Default)]
struct Ends {
    to_target: VecDeque<u8>,
    to_host: Vec<u8>,
    /// Bytes that the host still takes.
    room: usize,
    /// The host closed its side.
    has_left: bool,
}

impl SocketlessTarget {
    /// A target that serves `device`.
    ///
    /// # Errors
    /// TLS keys without OpenSSL.
    pub fn new(terms: SubsystemTerms, device: Capsules) -> Result<Self, TlsUnavailable> {
        let subsystem = Arc::new(Subsystem::new(terms, device));
        let port = TargetPort { id: PortId(1), address: address() };
        let directory = Directory::new(vec![port], vec![subsystem.clone()])?;
        let target = TargetState::new(TargetOptions::default(), directory, Arc::new(|_| {}));
        Ok(Self { target: Arc::new(target), subsystem })
    }

    /// Connects a host, to port 1 or to the discovery-only address.
    #[must_use]
    pub fn connect(&self, to_discovery: bool, now_ns: u64) -> SocketlessConnection {
        let port = (!to_discovery).then_some(PortId(1));
        let endpoints = Endpoints { from: address(), to: address(), port };
        let pipe = Arc::<Pipe>::default();
        let connection = Connection::new(pipe.clone(), self.target.clone(), endpoints, 0, now_ns);
        SocketlessConnection { connection, pipe, buffer: vec![0; BUFFER_BYTES], is_closed: false }
    }

    /// The number of hosts with a controller.
    #[must_use]
    pub fn hosts(&self) -> usize {
        let mut hosts = BTreeMap::new();
        self.subsystem.associations().count_hosts(&mut hosts);
        hosts.len()
    }
}

impl SocketlessConnection {
    /// Sends bytes of the host.
    pub fn put(&mut self, bytes: &[u8]) {
        self.pipe.ends().to_target.extend(bytes);
    }

    /// Closes the host's side.
    pub fn leave(&mut self) {
        self.pipe.ends().has_left = true;
    }

    /// Runs the connection, and returns at most `bytes` that the target sends.
    pub fn take(&mut self, bytes: usize, now_ns: u64) -> Vec<u8> {
        self.pipe.ends().room = bytes;
        self.run(now_ns);
        let mut ends = self.pipe.ends();
        ends.room = 0;
        std::mem::take(&mut ends.to_host)
    }

    /// Runs the connection until it is idle.
    ///
    /// # Panics
    /// It never becomes idle.
    pub fn run(&mut self, now_ns: u64) {
        for _ in 0..ITERATIONS_MAX {
            if self.is_closed {
                return;
            }
            self.connection.poll_completions(now_ns);
            match self.connection.serve(&mut self.buffer, now_ns) {
                Progress::Busy => {}
                Progress::Idle => return,
                Progress::Closed => self.is_closed = true,
            }
        }
        panic!("the connection is busy without end");
    }

    /// Checks the timeouts.
    pub fn check_time(&mut self, now_ns: u64) {
        self.is_closed |= self.connection.check_time(now_ns);
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_closed || self.connection.is_over()
    }

    /// Ends it, as a target does when it stops.
    pub fn end(&mut self, now_ns: u64) {
        self.connection.end(CloseReason::Left, now_ns);
        self.is_closed = true;
    }

    /// Bytes of its buffers.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.connection.held_bytes()
    }
}

impl Pipe {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.lock()
    }
}

impl Ends {
    /// Copies available bytes into `into`; returns how many, 0 at the end of the stream.
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
