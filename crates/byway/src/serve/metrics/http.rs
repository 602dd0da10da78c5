//! The metrics endpoint: one thread answers HTTP beside the threads that serve commands.
//!
//! A connection has one request and 10 s. There are at most 32: a further one replaces the oldest, so that neither silent clients nor
//! a flood block scrapers for long. Metrics are at most 100 ms old.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byway_sys::{OwnerProcess, Wakeup};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Watch;
use super::request::{self, Asked, HEAD_MAX_BYTES, Refusal};

/// Connections at once.
const CONNECTIONS_MAX: usize = 32;

/// How long a connection has for its request and its answer.
const CONNECTION_TIME: Duration = Duration::from_secs(10);

/// Age at which metrics are read anew.
const FRESH: Duration = Duration::from_millis(100);

/// How often timeouts are checked while there are connections, and the wait after a failed accept.
const TICK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);

/// Most bytes read from a client after its answer was sent: closing with unread bytes would reset the connection.
const DRAIN_MAX_BYTES: usize = 64 << 10;

/// The metrics endpoint. Dropping it stops it.
#[derive(Debug)]
pub struct MetricsServer {
    owner: OwnerProcess,
    stop: Arc<Wakeup>,
    stopped: Arc<AtomicBool>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at `address`; connections are answered from [`MetricsServer::start`] on.
    ///
    /// # Errors
    /// The system's answer.
    pub(in crate::serve) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Answers requests with the counters of `watch`.
    ///
    /// # Errors
    /// The system's answer.
    pub(in crate::serve) fn start(listener: TcpListener, watch: Watch) -> io::Result<Self> {
        let (stop, stopped) = (Arc::new(Wakeup::new()?), Arc::new(AtomicBool::new(false)));
        let address = listener.local_addr()?;
        let worker = Worker {
            listener,
            watch,
            stop: stop.clone(),
            stopped: stopped.clone(),
            visitors: Vec::new(),
            figures: None,
            accept_failed: false,
        };
        let thread = std::thread::Builder::new().name("byway-metrics".into()).spawn(move || worker.run())?;
        Ok(Self { owner: OwnerProcess::current(), stop, stopped, address, thread: Some(thread) })
    }

    /// Where it listens: the port, where one was to be found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    /// A forked child has no such thread, and its parent goes on serving.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return std::mem::forget(self.thread.take());
        }
        self.stopped.store(true, Relaxed);
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by its own hook.
            let _ = thread.join();
        }
    }
}

/// The thread.
struct Worker {
    listener: TcpListener,
    watch: Watch,
    stop: Arc<Wakeup>,
    stopped: Arc<AtomicBool>,
    /// Open connections, the oldest first.
    visitors: Vec<Visitor>,
    figures: Option<(Instant, String)>,
    /// `accept` failed, as without descriptors: it is tried again after a pause.
    accept_failed: bool,
}

/// One connection.
struct Visitor {
    stream: TcpStream,
    until: Instant,
    received: Vec<u8>,
    answer: Option<Answer>,
}

/// What is sent, and how far.
struct Answer {
    bytes: Vec<u8>,
    sent: usize,
    /// Bytes read after it was sent.
    drained: usize,
}

/// Whether a connection goes on.
#[derive(PartialEq, Eq)]
enum Goes {
    On,
    Away,
}

impl Worker {
    fn run(mut self) {
        while !self.stopped.load(Relaxed) {
            if self.wait().is_err() {
                // Without memory for a list of descriptors there is nothing better to do.
                std::thread::sleep(PAUSE);
            }
            self.accept();
            self.serve();
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&*self.stop, PollFlags::IN)];
        if !self.accept_failed {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        fds.extend(self.visitors.iter().map(|visitor| PollFd::new(&visitor.stream, visitor.wanted())));
        let timeout = match (self.accept_failed, self.visitors.is_empty()) {
            (true, _) => Some(PAUSE),
            (false, false) => Some(TICK),
            (false, true) => None,
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self) {
        self.accept_failed = false;
        // Bounded, so that open connections are served in between.
        for _ in 0..CONNECTIONS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    if self.visitors.len() >= CONNECTIONS_MAX {
                        self.visitors.remove(0);
                    }
                    self.visitors.push(Visitor::new(stream));
                }
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) => {
                    self.accept_failed = error.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }

    fn serve(&mut self) {
        let now = Instant::now();
        let mut visitors = std::mem::take(&mut self.visitors);
        visitors.retain_mut(|visitor| {
            now < visitor.until && self.turn(visitor).is_ok_and(|goes| goes == Goes::On)
        });
        self.visitors = visitors;
    }

    fn turn(&mut self, visitor: &mut Visitor) -> io::Result<Goes> {
        if visitor.answer.is_none() {
            let has_more = visitor.receive()?;
            let bytes = match request::parse(&visitor.received) {
                Asked::Part if has_more => return Ok(Goes::On),
                Asked::Part => return Ok(Goes::Away),
                Asked::Figures { head_only } => self.figures(head_only),
                Asked::Root { head_only } => request::root(head_only),
                Asked::Refused { why, head_only } => why.answer(head_only),
            };
            visitor.answer = Some(Answer { bytes, sent: 0, drained: 0 });
        }
        visitor.send()
    }

    fn figures(&mut self, head_only: bool) -> Vec<u8> {
        let is_fresh = |(at, _): &(Instant, String)| at.elapsed() < FRESH;
        if !self.figures.as_ref().is_some_and(is_fresh) {
            let snapshot = self.watch.snapshot();
            self.figures = snapshot.map(|snapshot| (Instant::now(), snapshot.to_text()));
        }
        match &self.figures {
            Some((_, text)) => request::figures(text, head_only),
            None => Refusal::Unavailable.answer(head_only),
        }
    }
}

impl Visitor {
    fn new(stream: TcpStream) -> Self {
        Self { stream, until: Instant::now() + CONNECTION_TIME, received: Vec::new(), answer: None }
    }

    fn wanted(&self) -> PollFlags {
        match &self.answer {
            Some(answer) if answer.sent < answer.bytes.len() => PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Reads what has arrived of the request; returns whether more may follow.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 2048];
        while self.received.len() < HEAD_MAX_BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(bytes) => self.received.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sends the rest of the answer, then drains the client's bytes until it closes: closing with unread bytes would reset the
    /// connection and lose the answer.
    fn send(&mut self) -> io::Result<Goes> {
        let Some(answer) = &mut self.answer else { return Ok(Goes::On) };
        while answer.sent < answer.bytes.len() {
            match self.stream.write(&answer.bytes[answer.sent..]) {
                Ok(0) => return Ok(Goes::Away),
                Ok(bytes) => answer.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Goes::On),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if answer.sent == answer.bytes.len() {
                self.stream.shutdown(Shutdown::Write)?;
            }
        }
        let mut buffer = [0; 4096];
        while answer.drained < DRAIN_MAX_BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(Goes::Away),
                Ok(bytes) => answer.drained += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Goes::On),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Goes::Away)
    }
}
