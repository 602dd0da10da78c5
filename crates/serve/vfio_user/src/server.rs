//! The server: one client at a time.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_executor::Failed;
use byway_sys::idle::Next;
use byway_sys::{Idle, SocketListener, SpinBudget, Wakeup};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::info;

use crate::connection::{Connection, Received};
use crate::function::{Function, Refusal};
use crate::pending_clients::{PendingClients, refuse};
use crate::session::Session;

/// Polls of mapped doorbells between two polls of the socket; a poll that found work counts as several.
const PAGE_POLLS: u32 = 2000;
const BUSY_POLL: u32 = 4;

/// Polls of doorbell buffers in client memory between two polls of the socket.
const BUFFER_POLLS: u32 = 32;

/// An event of the server, for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientEvent<'a> {
    /// A client has sent its first message and is served.
    Connected,
    /// It has disconnected.
    Disconnected,
    /// It was disconnected by the server: invalid framing, a failed socket, or a failed device.
    Dropped(&'a dyn std::error::Error),
    /// Another client was refused because one is served.
    Refused,
}

/// The result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// The server is to stop.
    Stop,
    /// A socket is ready, or the device has work.
    Ready,
    /// The timeout has passed.
    TimedOut,
}

/// Why a client's service ended.
enum Ended {
    Left,
    Stopped,
    /// The device failed.
    Failed,
}

/// A server at one socket.
#[derive(Debug)]
pub struct Server {
    listener: SocketListener,
    function: Function,
    stop: Arc<Wakeup>,
    pending: PendingClients,
}

impl Server {
    /// Serves `function` to clients that connect to `listener`.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(listener: SocketListener, function: Function) -> io::Result<Self> {
        Ok(Self { listener, function, stop: Arc::new(Wakeup::new()?), pending: PendingClients::default() })
    }

    /// Stops [`Server::serve`] when it is raised.
    #[must_use]
    pub fn stop(&self) -> Arc<Wakeup> {
        self.stop.clone()
    }

    /// Serves clients until it is stopped. Doorbells rung before are served when it returns.
    ///
    /// # Errors
    /// A failed device; the system's error.
    pub fn serve(&mut self, mut report: impl FnMut(ClientEvent<'_>)) -> Result<(), ServeError> {
        loop {
            let Some(client) = self.await_client()? else { return Ok(()) };
            info!("client connected");
            report(ClientEvent::Connected);
            let ended = Service::new(self, client).and_then(|mut service| service.run(&mut report));
            match &ended {
                Ok(Ended::Failed) => {
                    info!("device failed: the client is disconnected");
                    report(ClientEvent::Dropped(&Failed::Panicked));
                }
                Ok(_) => {
                    info!("client disconnected");
                    report(ClientEvent::Disconnected);
                }
                Err(error) => {
                    info!(%error, "client disconnected by the server");
                    report(ClientEvent::Dropped(error));
                }
            }
            if matches!(ended, Ok(Ended::Stopped)) {
                self.function.front().finish().map_err(Refusal::from)?;
                self.function.leave()?;
                return Ok(());
            }
            self.function.leave()?;
        }
    }

    /// Waits for the next client; `None` when the server is stopped. The device runs on meanwhile.
    fn await_client(&mut self) -> Result<Option<Connection>, ServeError> {
        loop {
            self.pending.accept(&self.listener);
            self.function.front().check().map_err(Refusal::from)?;
            if let Some(next) = self.pending.next() {
                return Ok(Some(next));
            }
            let front = self.function.front();
            if self.sleep(self.pending.wanted(), front.idle_time())? == Woken::Stop {
                return Ok(None);
            }
            front.run();
        }
    }

    /// Waits until one of `others` is ready, a client connects, the device notifies, or `at_most` has passed.
    fn sleep<'a>(
        &'a self,
        others: impl IntoIterator<Item = PollFd<'a>>,
        at_most: Option<Duration>,
    ) -> io::Result<Woken> {
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        fds.extend(others);
        let (wanted, pause) = self.listener.wanted();
        fds.push(PollFd::new(&self.listener, wanted));
        let notifier = self.function.front().notifier();
        fds.extend(notifier.iter().map(|notifier| PollFd::new(*notifier, PollFlags::IN)));
        wait(&mut fds, [at_most, pause].into_iter().flatten().min())?;
        if notifier.is_some() && fds.last().is_some_and(|notifier| !notifier.revents().is_empty()) {
            // Cleared before the device is run: later work signals again.
            notifier.into_iter().for_each(Wakeup::lower);
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        Ok(match fds.first() {
            Some(stop) if is_ready(stop) => Woken::Stop,
            _ if fds.iter().any(is_ready) => Woken::Ready,
            _ => Woken::TimedOut,
        })
    }
}

/// Why a server ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] Refusal),
    /// The system's error.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The service of one client.
struct Service<'a> {
    server: &'a mut Server,
    session: Session,
    client: Connection,
    /// Queues whose mapped doorbells may have been written.
    rung: usize,
    /// Spin budget before it sleeps.
    spin: SpinBudget,
}

impl<'a> Service<'a> {
    fn new(server: &'a mut Server, client: Connection) -> io::Result<Self> {
        server.function.begin()?;
        let spin = SpinBudget::new(Idle::Adaptive);
        Ok(Self { server, session: Session::default(), client, rung: usize::MAX, spin })
    }

    fn run(&mut self, report: &mut impl FnMut(ClientEvent<'_>)) -> io::Result<Ended> {
        // Its first message has been received.
        self.answer()?;
        loop {
            let is_polled = self.server.function.is_polled();
            let now = if is_polled { self.poll_page() } else { self.poll_buffers()? };
            let woken = self.sleep(now)?;
            if woken == Woken::Stop {
                return Ok(Ended::Stopped);
            }
            // With mapped doorbells, the sockets are served only when they are ready.
            if woken == Woken::Ready || !is_polled {
                if !self.serve_messages()? {
                    return Ok(Ended::Left);
                }
                self.refuse_others(report)?;
            }
            self.server.function.note_poll();
            let front = self.server.function.front();
            // Polling the doorbell buffers leaves no event index, so the client need not ring.
            if front.poll_doorbell_buffers().is_none() {
                front.run();
            }
            if front.check().is_err() {
                return Ok(Ended::Failed);
            }
            if self.server.function.has_lost_memory() {
                return Err(io::Error::other("the client truncated a file whose memory it had shared"));
            }
        }
    }

    /// Polls doorbell buffers within the spin budget; whether a socket is ready. Afterwards the client rings again.
    fn poll_buffers(&mut self) -> io::Result<bool> {
        let front = self.server.function.front();
        if front.poll_doorbell_buffers().is_none() {
            return Ok(false);
        }
        let mut last_work = Instant::now();
        loop {
            match self.spin.next(last_work.elapsed().as_nanos() as u64) {
                Next::Sleep => break,
                // The guest's virtual CPUs are threads that may wait for this processor.
                Next::Yield => std::thread::yield_now(),
                Next::Look => {}
            }
            for _ in 0..BUFFER_POLLS {
                if front.poll_doorbell_buffers() == Some(true) {
                    last_work = Instant::now();
                }
                std::hint::spin_loop();
            }
            if self.is_ready()? {
                return Ok(true);
            }
            self.server.function.note_poll();
        }
        front.stop_polling_buffers();
        Ok(false)
    }

    /// Whether the client has sent something, or the server is to stop.
    fn is_ready(&self) -> io::Result<bool> {
        let (stop, client) = (&self.server.stop, &self.client);
        let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(client, self.wanted())];
        wait(&mut fds, Some(Duration::ZERO))?;
        Ok(fds.iter().any(|fd| !fd.revents().is_empty()))
    }

    /// Poll flags of the client's socket: nothing is read while replies are unsent.
    fn wanted(&self) -> PollFlags {
        if self.client.has_unsent() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Polls mapped doorbells, at first of every queue. A server in this mode never sleeps.
    fn poll_page(&mut self) -> bool {
        let front = self.server.function.front();
        if front.poll(&mut { usize::MAX }) {
            self.rung = usize::MAX;
        }
        let mut left = PAGE_POLLS;
        while left > 0 {
            left = left.saturating_sub(if front.poll(&mut self.rung) { BUSY_POLL } else { 1 });
            std::hint::spin_loop();
        }
        true
    }

    /// Waits for work, or only polls if `now`.
    fn sleep(&mut self, now: bool) -> io::Result<Woken> {
        let client = PollFd::new(&self.client, self.wanted());
        let fds = std::iter::once(client).chain(self.server.pending.wanted());
        let at_most = if now { Some(Duration::ZERO) } else { self.server.function.front().idle_time() };
        let since = Instant::now();
        let woken = self.server.sleep(fds, at_most)?;
        if !now {
            self.spin.slept(since.elapsed().as_nanos() as u64);
        }
        Ok(woken)
    }

    /// Receives messages and replies; false when the client has disconnected.
    fn serve_messages(&mut self) -> io::Result<bool> {
        self.client.send()?;
        if self.client.has_unsent() {
            return Ok(true);
        }
        // Messages that were held back because of unsent replies.
        self.answer()?;
        if self.client.has_unsent() {
            return Ok(true);
        }
        match self.client.receive()? {
            Received::End => return Ok(false),
            Received::Nothing => return Ok(true),
            Received::Some => self.answer()?,
        }
        Ok(true)
    }

    /// Executes received messages and replies. Doorbells are served afterwards, so that a guest's CPU does not wait for its
    /// commands.
    fn answer(&mut self) -> io::Result<()> {
        while let Some(incoming) = self.client.reader.next().map_err(io::Error::other)? {
            self.session.take(&mut self.server.function, incoming, &mut self.client.out);
            if self.client.is_clogged() {
                self.client.send()?;
            }
            // The rest is executed once the client has read replies.
            if self.client.is_clogged() {
                return Ok(());
            }
        }
        self.client.send()
    }

    /// Refuses other clients with a message, unless the served one has disconnected: then the first of them is next.
    fn refuse_others(&mut self, report: &mut impl FnMut(ClientEvent<'_>)) -> io::Result<()> {
        self.server.pending.accept(&self.server.listener);
        // Checked after receiving: a client that connected after the served one left must be served.
        if !self.server.pending.has_next() || self.has_left()? {
            return Ok(());
        }
        while let Some(other) = self.server.pending.next() {
            info!("client refused: another is served");
            refuse(other);
            report(ClientEvent::Refused);
        }
        Ok(())
    }

    /// Whether the client has closed its socket. Its last messages may still be unserved.
    fn has_left(&self) -> io::Result<bool> {
        // A half-closed client may still read, and does not count.
        let mut fds = [PollFd::new(&self.client, PollFlags::HUP)];
        wait(&mut fds, Some(Duration::ZERO))?;
        Ok(fds.iter().any(|fd| fd.revents().contains(PollFlags::HUP)))
    }
}

/// Waits until one of `fds` is ready, at most `at_most`. A signal ends it early.
fn wait(fds: &mut [PollFd<'_>], at_most: Option<Duration>) -> io::Result<()> {
    let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
    match poll(fds, at_most.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
