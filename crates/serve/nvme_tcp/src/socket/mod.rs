//! A connection: a socket and a session. Received bytes go to the session, its responses to the socket.

mod ending;
mod time;

use std::net::TcpStream;
use std::sync::Arc;

use byway_executor::CapsuleQueue;
use rustix::io::Errno;

use crate::channel::Channel;
use crate::close_reason::CloseReason;
use crate::counters::{ConnectionState, Moved};
use crate::endpoints::Endpoints;
use crate::session::Session;
use crate::subsystem::{Entry, Subsystem};
use crate::target_state::TargetState;
use crate::tls_identity::TlsIdentity;
use crate::wire::Wire;

/// Bytes of one receive into the shared buffer while large solicited data is expected, since such data would be copied again.
const BUFFER_BYTES_FOR_LARGE: usize = 4 << 10;

/// Batches under the run lock before a thread that was refused is asked for again: another one may have ended.
const RETRY_AFTER_BATCHES: u32 = 256;

/// The result of a receive.
enum Received {
    Nothing,
    /// Bytes in the thread's buffer.
    Bytes(usize),
    /// Bytes of a command's data, in that command's buffer.
    Directly(usize),
    /// The connection ends.
    End(CloseReason),
}

/// The result of serving a connection once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Bytes were received or sent.
    Busy,
    /// No traffic.
    Idle,
    /// The caller must close it.
    Closed,
}

/// A connection.
#[derive(Debug)]
pub struct Connection<W = TcpStream> {
    channel: Channel<W>,
    session: Session,
    /// The subsystem that its host is connected to, from Connect on.
    subsystem: Option<Arc<Subsystem>>,
    /// An I/O queue's rights to execute commands without the run lock.
    fast: Option<Box<CapsuleQueue>>,
    /// Batches until they are asked for again, where they were refused.
    batches_until_retry: u32,
    /// The number of the thread that serves it.
    thread: usize,
    /// Received bytes that wait until responses have been sent.
    stash: Vec<u8>,
    /// Bytes of it that were consumed.
    stash_at: usize,
    /// Why the connection ended, and when.
    over: Option<(CloseReason, u64)>,
    /// The host has closed its side, or the socket failed.
    at_end: bool,
    /// When bytes were sent last, or none were pending.
    sent_ns: u64,
    /// When bytes were received last.
    came_ns: u64,
    /// Directory generation of the last port check.
    generation: u64,
    /// When the failure of the device was noticed.
    failed_ns: Option<u64>,
    /// TLS close_notify was queued.
    is_closed: bool,
    drained_bytes: usize,
    /// Bytes since [`Self::take_moved`].
    moved: Moved,
}

impl<W: Wire> Connection<W> {
    /// A new connection, served by thread `thread`.
    pub fn new(wire: W, target: Arc<TargetState>, endpoints: Endpoints, thread: usize, now_ns: u64) -> Self {
        let tls = target.directory.listing().tls.clone();
        Self {
            channel: Channel::new(wire, tls),
            session: Session::new(target, endpoints, now_ns),
            subsystem: None,
            fast: None,
            batches_until_retry: RETRY_AFTER_BATCHES,
            thread,
            stash: Vec::new(),
            stash_at: 0,
            over: None,
            at_end: false,
            sent_ns: now_ns,
            came_ns: now_ns,
            generation: 0,
            failed_ns: None,
            is_closed: false,
            drained_bytes: 0,
            moved: Moved::default(),
        }
    }

    /// The socket.
    pub fn wire(&self) -> &W {
        self.channel.wire()
    }

    /// The host's address.
    pub fn from(&self) -> std::net::SocketAddr {
        self.session.endpoints().from
    }

    /// Its state, for metrics.
    pub fn state(&self) -> ConnectionState {
        if self.is_over() { ConnectionState::Ending } else { self.session.state() }
    }

    /// Bytes received and sent since the last call.
    pub fn take_moved(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }

    /// Why it ended, whatever the cause.
    pub fn ended(&self) -> Option<&CloseReason> {
        self.over.as_ref().map(|(why, _)| why)
    }

    /// Whether it waits for bytes of its host.
    pub fn wants_more(&self) -> bool {
        let is_wanted = self.stash.is_empty() && !self.session.out().is_full();
        !self.at_end && (self.over.is_some() || is_wanted)
    }

    /// Whether bytes are left to send.
    pub fn has_more(&self) -> bool {
        !self.session.out().is_empty() || self.channel.has_unsent()
    }

    /// Whether received bytes wait for responses to be sent.
    pub fn has_stash(&self) -> bool {
        !self.stash.is_empty()
    }

    /// Bytes of its buffers: received and not executed, or not sent.
    pub fn held_bytes(&self) -> usize {
        self.stash.len() + self.session.held_bytes()
    }

    /// Whether asynchronous completions are possible.
    pub fn waits(&self) -> bool {
        self.over.is_none() && (self.session.waits() || self.session.has_waiting_commands())
    }

    /// Whether its next command is worth polling for: it is an I/O queue.
    pub fn is_worth_polling(&self) -> bool {
        self.over.is_none() && self.session.is_io()
    }

    /// Whether it is half-open: connected neither to a subsystem nor to discovery.
    pub fn is_half_open(&self) -> bool {
        self.subsystem.is_none() && self.session.state() != ConnectionState::Discovery
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Why it ended, if the cause is this connection's own and not its controller's.
    pub fn why(&self) -> Option<&CloseReason> {
        let of_others = |why: &CloseReason| {
            matches!(
                why,
                CloseReason::Left
                    | CloseReason::ControllerGone
                    | CloseReason::KeepAlive
                    | CloseReason::Dismissed
            )
        };
        self.over.as_ref().map(|(why, _)| why).filter(|why| !of_others(why))
    }

    /// Sends pending bytes, receives into `buffer`, executes and sends the responses.
    pub fn serve(&mut self, buffer: &mut [u8], now_ns: u64) -> Progress {
        let sent = self.send(now_ns);
        if self.at_end {
            // The send found the peer gone.
            self.end(CloseReason::Left, now_ns);
        }
        if self.over.is_some() {
            return self.drain(buffer, now_ns);
        }
        if sent && self.session.waits() {
            // Completions that did not fit in the outbox may fit now.
            self.poll_completions(now_ns);
        }
        if !self.stash.is_empty() && !self.session.out().is_full() {
            let any = self.take_stash(now_ns) | self.send(now_ns) | sent;
            return self.after(if any { Progress::Busy } else { Progress::Idle });
        }
        if !self.wants_more() {
            return self.after(if sent { Progress::Busy } else { Progress::Idle });
        }
        match self.receive(buffer) {
            Received::Nothing => {
                // Handshake messages.
                let sent = (self.channel.has_unsent() && self.send(now_ns)) || sent;
                return self.after(if sent { Progress::Busy } else { Progress::Idle });
            }
            Received::Bytes(bytes) => {
                self.came_ns = now_ns;
                self.take_all(&buffer[..bytes], now_ns);
            }
            Received::Directly(bytes) => {
                self.came_ns = now_ns;
                match self.session.received_directly(bytes) {
                    Ok(()) => self.take_all(&[], now_ns),
                    Err(why) => self.end(why, now_ns),
                }
            }
            Received::End(why) => {
                // A host whose bytes are not TLS still reads the alert.
                self.at_end = !matches!(why, CloseReason::Tls(_));
                self.end(why, now_ns);
            }
        }
        self.send(now_ns);
        self.after(Progress::Busy)
    }

    /// Receives into a command's buffer if much of its data is expected, else into `buffer`.
    fn receive(&mut self, buffer: &mut [u8]) -> Received {
        if let Some(room) = self.session.direct_room() {
            return match self.channel.receive(room, buffer) {
                Ok(0) => Received::Nothing,
                Ok(bytes) => {
                    self.moved.received_bytes += bytes as u64;
                    Received::Directly(bytes)
                }
                Err(why) => Received::End(why),
            };
        }
        let bytes = match self.session.awaits_large() {
            true => BUFFER_BYTES_FOR_LARGE,
            false => buffer.len(),
        };
        let (into, sealed) = self.channel.divide(buffer, bytes);
        match self.channel.receive(into, sealed) {
            Ok(0) => Received::Nothing,
            Ok(bytes) => {
                self.moved.received_bytes += bytes as u64;
                Received::Bytes(bytes)
            }
            Err(why) => Received::End(why),
        }
    }

    /// Consumes received bytes, sending responses in between. The rest is stashed until the host takes responses.
    fn take_all(&mut self, received: &[u8], now_ns: u64) {
        let mut left = received;
        loop {
            let taken = self.take(left, now_ns);
            left = &left[taken..];
            if left.is_empty() {
                return;
            }
            self.send(now_ns);
            if taken == 0 || self.session.out().is_full() {
                return self.stash.extend_from_slice(left);
            }
        }
    }

    /// Consumes stashed bytes; whether any were consumed.
    fn take_stash(&mut self, now_ns: u64) -> bool {
        let stash = std::mem::take(&mut self.stash);
        let left = stash.get(self.stash_at..).unwrap_or_default();
        let taken = self.take(left, now_ns);
        self.stash_at += taken;
        if self.stash_at < stash.len() && self.over.is_none() {
            self.stash = stash;
        } else {
            self.stash_at = 0;
        }
        taken > 0
    }

    /// Passes received bytes to the session; returns how many it consumed.
    fn take(&mut self, received: &[u8], now_ns: u64) -> usize {
        let mut input = received;
        if self.session.is_opening() {
            let tls = self.channel.psk().map(TlsIdentity::of);
            if let Err(why) = self.session.begin(&mut input, tls) {
                self.end(why, now_ns);
            }
            if input.is_empty() || self.over.is_some() {
                return received.len();
            }
        }
        let taken = self.execute(&mut input, now_ns);
        let taken = taken.and_then(|()| self.session.authenticate(now_ns));
        match (taken, self.session.requested_subsystem()) {
            (Err(why), _) => self.end(why, now_ns),
            (Ok(()), Some(subsystem)) => self.connect(subsystem, now_ns),
            (Ok(()), None) => {}
        }
        if self.over.is_some() { received.len() } else { received.len() - input.len() }
    }

    /// Executes commands, under the run lock of its subsystem's device from the first on that needs it.
    fn execute(&mut self, input: &mut &[u8], now_ns: u64) -> Result<(), CloseReason> {
        if self.fast.is_none() {
            self.ask_for_rights();
        }
        let Self { session, subsystem, fast, .. } = self;
        let Some(subsystem) = subsystem else { return session.receive(input, None, now_ns) };
        if let Some(fast) = fast.as_deref_mut().filter(|fast| fast.is_granted())
            && !session.receive_fast(input, (&**subsystem, fast), now_ns)?
        {
            return Ok(());
        }
        if !session.needs_all() {
            let taken = subsystem.work(Entry::Recalled, |device| {
                let taken = session.receive(input, Some(&mut *device), now_ns);
                fast.as_deref_mut().into_iter().for_each(|fast| session.grant(device, fast));
                taken
            });
            taken.unwrap_or_else(|| session.receive_of_failed(input, now_ns))?;
        }
        if session.needs_all() {
            let taken = subsystem.work(Entry::Alone, |device| session.receive(input, Some(device), now_ns));
            // The command may have caused events for other connections.
            subsystem.device().notify();
            taken.unwrap_or_else(|| session.receive_of_failed(input, now_ns))?;
        }
        Ok(())
    }

    /// Asks for rights of an I/O queue that was refused any, once in some batches.
    #[cold]
    fn ask_for_rights(&mut self) {
        let Some(subsystem) = self.subsystem.as_ref().filter(|_| self.session.is_io()) else { return };
        match self.batches_until_retry.checked_sub(1) {
            Some(left) => self.batches_until_retry = left,
            None => {
                self.batches_until_retry = RETRY_AFTER_BATCHES;
                self.fast = subsystem.fast_queue(self.thread);
            }
        }
    }

    /// Has the requested subsystem answer the Connect.
    fn connect(&mut self, subsystem: Arc<Subsystem>, now_ns: u64) {
        let session = &mut self.session;
        match subsystem.device().run_alone(|device| session.admit(&subsystem, device, now_ns)) {
            Ok(true) => {
                self.fast = self.session.is_io().then(|| subsystem.fast_queue(self.thread)).flatten();
                subsystem.device().notify();
                self.subsystem = Some(subsystem);
            }
            Ok(false) => {}
            Err(_) => self.end(CloseReason::DeviceFailed, now_ns),
        }
    }

    /// Sends asynchronous completions; whether anything was sent.
    pub fn poll_completions(&mut self, now_ns: u64) -> bool {
        if self.over.is_some() {
            return false;
        }
        let (mut any, was_owed) = (false, self.session.is_owed());
        loop {
            let Self { session, subsystem, .. } = self;
            let polled = match subsystem {
                Some(subsystem) => {
                    match subsystem.work(Entry::AsItIs, |device| session.poll_completions(Some(device))) {
                        Some(polled) => polled,
                        None if session.is_admin() => Ok(()),
                        None => Err(CloseReason::DeviceFailed),
                    }
                }
                None => session.poll_completions(None),
            };
            if let Err(why) = polled {
                self.end(why, now_ns);
            }
            if !was_owed && self.session.is_owed() {
                // The timeout for solicited data starts now.
                self.came_ns = now_ns;
            }
            let was_full = self.session.out().is_full();
            any |= self.send(now_ns);
            // Completions that did not fit fit now if the host took some.
            if !was_full || self.session.out().is_full() || self.over.is_some() {
                return any;
            }
        }
    }

    /// Sends as much as the socket takes; whether anything was sent.
    pub(super) fn send(&mut self, now_ns: u64) -> bool {
        let mut any = false;
        while self.has_more() {
            match self.channel.send(self.session.out().pending()) {
                Ok(bytes) => {
                    self.session.out_mut().sent(bytes);
                    self.moved.sent_bytes += bytes as u64;
                    any = true;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    // The receive path finds the same error; pending bytes are of no use.
                    self.at_end = true;
                    let unsent = self.session.out().pending().len();
                    self.session.out_mut().sent(unsent);
                    self.channel.forget_unsent();
                }
            }
        }
        if any || !self.has_more() {
            self.sent_ns = now_ns;
        }
        any
    }
}
