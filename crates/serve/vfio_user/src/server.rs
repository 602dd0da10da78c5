//! Serving one client after the other.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_local::Failed;
use byway_sys::idle::Next;
use byway_sys::{Idle, SpinBudget, Wakeup};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::{Connection, Received};
use crate::door::Door;
use crate::function::{Function, Refusal};
use crate::session::Session;
use crate::waiting::{Waiting, refuse};

/// Looks at doorbells in shared memory between two at the socket; one that found work counts as more.
const LOOKS: u32 = 2000;
const WORK: u32 = 4;

/// Looks at doorbells in memory of the client between two at the socket.
const GLANCES: u32 = 32;

/// What a server tells of, for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Told<'a> {
    /// A client has said its first word, and is served from here on.
    Came,
    /// It has gone.
    Left,
    /// It was sent away: its messages have no boundaries any more, or its socket failed.
    SentAway(&'a dyn std::error::Error),
    /// Another came while one was served, and was refused.
    Refused,
}

/// What somebody who serves clients was woken by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// The word to stop.
    Stop,
    /// Something at the sockets, or the device.
    Ready,
    /// Nothing: the time is over.
    Nothing,
}

/// Why a client's service ended.
enum Ended {
    Left,
    Stopped,
    /// The device failed: nobody can be served any more.
    Failed,
}

/// A server at one socket.
#[derive(Debug)]
pub struct Server {
    door: Door,
    function: Function,
    stop: Arc<Wakeup>,
    waiting: Waiting,
}

impl Server {
    /// Serves `function` to who comes to `door`.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(door: Door, function: Function) -> io::Result<Self> {
        Ok(Self { door, function, stop: Arc::new(Wakeup::new()?), waiting: Waiting::default() })
    }

    /// Ends [`Server::serve`] when it is raised.
    #[must_use]
    pub fn stop(&self) -> Arc<Wakeup> {
        self.stop.clone()
    }

    /// Serves clients until it is stopped; what was rung by then is done when it returns.
    ///
    /// # Errors
    /// A device that failed; the system's answer.
    pub fn serve(&mut self, mut tell: impl FnMut(Told<'_>)) -> Result<(), ServeError> {
        loop {
            let Some(client) = self.await_client()? else { return Ok(()) };
            tell(Told::Came);
            let ended = Service::new(self, client).and_then(|mut service| service.run(&mut tell));
            match &ended {
                Ok(Ended::Failed) => tell(Told::SentAway(&Failed::Panicked)),
                Ok(_) => tell(Told::Left),
                Err(error) => tell(Told::SentAway(error)),
            }
            if matches!(ended, Ok(Ended::Stopped)) {
                self.function.front().finish().map_err(Refusal::from)?;
                self.function.leave()?;
                return Ok(());
            }
            self.function.leave()?;
        }
    }

    /// The next client; `None` when the server is stopped. A device with work of its own goes on meanwhile.
    fn await_client(&mut self) -> Result<Option<Connection>, ServeError> {
        loop {
            // Those too who came while another was served.
            self.waiting.hear(&self.door);
            self.function.front().check().map_err(Refusal::from)?;
            if let Some(next) = self.waiting.next() {
                return Ok(Some(next));
            }
            let front = self.function.front();
            if self.sleep(self.waiting.wanted(), front.rests_for())? == Woken::Stop {
                return Ok(None);
            }
            front.run();
        }
    }

    /// Sleeps until one of `others` is ready, a client comes, the device calls, or for so long.
    fn sleep<'a>(
        &'a self,
        others: impl IntoIterator<Item = PollFd<'a>>,
        at_most: Option<Duration>,
    ) -> io::Result<Woken> {
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        fds.extend(others);
        let (wanted, rests) = self.door.wanted();
        fds.push(PollFd::new(&self.door, wanted));
        let bell = self.function.front().bell();
        fds.extend(bell.iter().map(|bell| PollFd::new(*bell, PollFlags::IN)));
        wait(&mut fds, [at_most, rests].into_iter().flatten().min())?;
        if bell.is_some() && fds.last().is_some_and(|bell| !bell.revents().is_empty()) {
            // Lowered before the device is looked at: what is left behind later raises it again.
            bell.into_iter().for_each(Wakeup::lower);
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        Ok(match fds.first() {
            Some(stop) if is_ready(stop) => Woken::Stop,
            _ if fds.iter().any(is_ready) => Woken::Ready,
            _ => Woken::Nothing,
        })
    }
}

/// Why a server ends by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] Refusal),
    /// The system's answer.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The service of one client.
struct Service<'a> {
    server: &'a mut Server,
    session: Session,
    client: Connection,
    /// Queues that may have been rung in shared memory.
    rung: usize,
    /// How long it looks for more before it sleeps.
    patience: SpinBudget,
}

impl<'a> Service<'a> {
    fn new(server: &'a mut Server, client: Connection) -> io::Result<Self> {
        server.function.begin()?;
        let patience = SpinBudget::new(Idle::Adaptive);
        Ok(Self { server, session: Session::default(), client, rung: usize::MAX, patience })
    }

    fn run(&mut self, tell: &mut impl FnMut(Told<'_>)) -> io::Result<Ended> {
        // Its first word has been received.
        self.answer()?;
        loop {
            let is_polled = self.server.function.is_polled();
            let now = if is_polled { self.look() } else { self.watch()? };
            let woken = self.sleep(now)?;
            if woken == Woken::Stop {
                return Ok(Ended::Stopped);
            }
            // Who has doorbells to look at asks the sockets for what is there, and does no more.
            if woken == Woken::Ready || !is_polled {
                if !self.converse()? {
                    return Ok(Ended::Left);
                }
                self.turn_away(tell)?;
            }
            self.server.function.looked_at_host();
            let front = self.server.function.front();
            // Who looks for more soon has no word left for the client to ring.
            if front.look().is_none() {
                front.run();
            }
            if front.check().is_err() {
                return Ok(Ended::Failed);
            }
            if self.server.function.has_lost_memory() {
                return Err(io::Error::other("it cut a file short whose memory it had shared"));
            }
        }
    }

    /// Looks for more where that needs no message, as long as that has spared sleeps; whether there is something at the
    /// sockets. The client rings for what it does afterwards.
    fn watch(&mut self) -> io::Result<bool> {
        let front = self.server.function.front();
        if front.look().is_none() {
            return Ok(false);
        }
        let mut last_work = Instant::now();
        loop {
            match self.patience.next(last_work.elapsed().as_nanos() as u64) {
                Next::Sleep => break,
                // The processors of a guest are threads that may wait for this one.
                Next::Yield => std::thread::yield_now(),
                Next::Look => {}
            }
            for _ in 0..GLANCES {
                if front.look() == Some(true) {
                    last_work = Instant::now();
                }
                std::hint::spin_loop();
            }
            if self.is_called()? {
                return Ok(true);
            }
            self.server.function.looked_at_host();
        }
        front.rest();
        Ok(false)
    }

    /// Whether the client, or who ends the service, has said something.
    fn is_called(&self) -> io::Result<bool> {
        let (stop, client) = (&self.server.stop, &self.client);
        let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(client, self.wanted())];
        wait(&mut fds, Some(Duration::ZERO))?;
        Ok(fds.iter().any(|fd| !fd.revents().is_empty()))
    }

    /// What to wait for at the client's socket: what cannot be answered is not read.
    fn wanted(&self) -> PollFlags {
        if self.client.has_unsent() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Serves doorbells in shared memory for a while; those of every queue there may be are looked at at first. Who does so
    /// does not sleep.
    fn look(&mut self) -> bool {
        let front = self.server.function.front();
        if front.poll(&mut { usize::MAX }) {
            self.rung = usize::MAX;
        }
        let mut left = LOOKS;
        while left > 0 {
            left = left.saturating_sub(if front.poll(&mut self.rung) { WORK } else { 1 });
            std::hint::spin_loop();
        }
        true
    }

    /// Sleeps until there is something to do, or looks for it `now`.
    fn sleep(&mut self, now: bool) -> io::Result<Woken> {
        let client = PollFd::new(&self.client, self.wanted());
        let fds = std::iter::once(client).chain(self.server.waiting.wanted());
        let at_most = if now { Some(Duration::ZERO) } else { self.server.function.front().rests_for() };
        let since = Instant::now();
        let woken = self.server.sleep(fds, at_most)?;
        if !now {
            self.patience.slept(since.elapsed().as_nanos() as u64);
        }
        Ok(woken)
    }

    /// Takes what the client sent, and answers; false when it has gone.
    fn converse(&mut self) -> io::Result<bool> {
        self.client.send()?;
        if self.client.has_unsent() {
            return Ok(true);
        }
        // What was received before, and not done because its answers were too long.
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

    /// Does what was asked, and answers. The doorbells among it are served afterwards: a guest's processor need not wait
    /// for the commands that it rang for.
    fn answer(&mut self) -> io::Result<()> {
        while let Some(incoming) = self.client.reader.next().map_err(io::Error::other)? {
            self.session.take(&mut self.server.function, incoming, &mut self.client.out);
            if self.client.is_clogged() {
                self.client.send()?;
            }
            // The rest is done once the client has read.
            if self.client.is_clogged() {
                return Ok(());
            }
        }
        self.client.send()
    }

    /// Refuses those who have spoken meanwhile, unless the client has left: then the first of them is the next.
    fn turn_away(&mut self, tell: &mut impl FnMut(Told<'_>)) -> io::Result<()> {
        self.server.waiting.hear(&self.server.door);
        // Looked at once they were heard: who came after the client had left finds that.
        if !self.server.waiting.has_next() || self.has_left()? {
            return Ok(());
        }
        while let Some(other) = self.server.waiting.next() {
            refuse(other);
            tell(Told::Refused);
        }
        Ok(())
    }

    /// Whether the client has closed its socket. What it said before may have to be done yet.
    fn has_left(&self) -> io::Result<bool> {
        // One that has only said its last word may read yet, and is not waited for.
        let mut fds = [PollFd::new(&self.client, PollFlags::HUP)];
        wait(&mut fds, Some(Duration::ZERO))?;
        Ok(fds.iter().any(|fd| fd.revents().contains(PollFlags::HUP)))
    }
}

/// Waits until one of `fds` is ready, or for so long. A signal ends it early.
fn wait(fds: &mut [PollFd<'_>], at_most: Option<Duration>) -> io::Result<()> {
    let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
    match poll(fds, at_most.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
