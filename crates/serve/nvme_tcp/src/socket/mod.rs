//! A connection with its socket: what is received goes to the session, what that has to say is sent.

mod ending;
mod time;

use std::net::TcpStream;
use std::sync::Arc;

use rustix::io::Errno;

use crate::channel::Channel;
use crate::counters::{ConnectionState, Moved};
use crate::ended::Ended;
use crate::premises::{Place, Premises};
use crate::session::{Secured, Session};
use crate::site::Site;
use crate::wire::Wire;

/// What is received at once with what else comes while large data is awaited, which would be copied from there.
const BUFFER_BYTES_FOR_LARGE: usize = 4 << 10;

/// What was received.
enum Received {
    Nothing,
    /// So many bytes, into the thread's buffer.
    Bytes(usize),
    /// So many bytes of a command's data, where they belong.
    There(usize),
    /// The last that there will be.
    End(Ended),
}

/// What a turn of a connection came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Something came or went.
    Busy,
    /// Nothing.
    Idle,
    /// It is to be closed.
    Closed,
}

/// A connection.
#[derive(Debug)]
pub struct Connection<W = TcpStream> {
    channel: Channel<W>,
    session: Session,
    /// The subsystem that its host is connected to.
    site: Option<Arc<Site>>,
    /// What was received before answers had to be sent first.
    stash: Vec<u8>,
    /// So much of it was read since.
    stash_at: usize,
    /// Why nothing is read any more, and since when.
    over: Option<(Ended, u64)>,
    /// The host has sent all it will.
    at_end: bool,
    /// When something was sent last, or nothing was to be.
    sent_ns: u64,
    /// When something came last.
    came_ns: u64,
    /// What there is was looked at as it was then.
    generation: u64,
    /// The device is known to have failed since.
    failed_ns: Option<u64>,
    /// The host was told that nothing more comes.
    is_closed: bool,
    lingered_bytes: usize,
    /// What it moved since somebody asked.
    moved: Moved,
}

impl<W: Wire> Connection<W> {
    /// One that came.
    pub fn new(wire: W, premises: Arc<Premises>, place: Place, now_ns: u64) -> Self {
        let tls = premises.directory.listing().tls.clone();
        Self {
            channel: Channel::new(wire, tls),
            session: Session::new(premises, place, now_ns),
            site: None,
            stash: Vec::new(),
            stash_at: 0,
            over: None,
            at_end: false,
            sent_ns: now_ns,
            came_ns: now_ns,
            generation: 0,
            failed_ns: None,
            is_closed: false,
            lingered_bytes: 0,
            moved: Moved::default(),
        }
    }

    /// What it is over.
    pub fn wire(&self) -> &W {
        self.channel.wire()
    }

    /// Where its host is.
    pub fn from(&self) -> std::net::SocketAddr {
        self.session.place.from
    }

    /// What it is, for figures.
    pub fn state(&self) -> ConnectionState {
        if self.is_over() { ConnectionState::Ending } else { self.session.state() }
    }

    /// What it moved since this was asked last.
    pub fn take_moved(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }

    /// Why it was ended, whoever's affair that is.
    pub fn ended(&self) -> Option<&Ended> {
        self.over.as_ref().map(|(why, _)| why)
    }

    /// Whether more of its host is wanted.
    pub fn wants_more(&self) -> bool {
        let is_wanted = self.stash.is_empty() && !self.session.out.is_full();
        !self.at_end && (self.over.is_some() || is_wanted)
    }

    /// Whether something is left to be sent.
    pub fn has_more(&self) -> bool {
        !self.session.out.is_empty() || self.channel.has_unsent()
    }

    /// Whether something of it was received that waits for others to be done.
    pub fn has_stash(&self) -> bool {
        !self.stash.is_empty()
    }

    /// Bytes that it holds for its host: received and not executed, or not sent.
    pub fn held_bytes(&self) -> usize {
        self.stash.len() + self.session.held_bytes()
    }

    /// Whether completions may come by themselves.
    pub fn waits(&self) -> bool {
        self.over.is_none() && (self.session.waits() || self.session.awaits())
    }

    /// Whether what comes over it comes soon enough to be looked for at length: commands of an I/O queue.
    pub fn is_worth_looking_at(&self) -> bool {
        self.over.is_none() && !self.session.needs_all()
    }

    /// Whether its host is connected to nothing.
    pub fn is_stranger(&self) -> bool {
        self.site.is_none() && self.session.state() != ConnectionState::Discovery
    }

    /// Whether nothing more is read of it.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Why it was ended, where that is this connection's own affair.
    pub fn why(&self) -> Option<&Ended> {
        let of_others = |why: &Ended| {
            matches!(why, Ended::Left | Ended::ControllerGone | Ended::KeepAlive | Ended::Dismissed)
        };
        self.over.as_ref().map(|(why, _)| why).filter(|why| !of_others(why))
    }

    /// Sends, receives into `buffer`, executes and sends.
    pub fn turn(&mut self, buffer: &mut [u8], now_ns: u64) -> Turn {
        let sent = self.send(now_ns);
        if self.at_end {
            // Found by sending: nobody is there any more.
            self.end(Ended::Left, now_ns);
        }
        if self.over.is_some() {
            return self.linger(buffer, now_ns);
        }
        if sent && self.session.waits() {
            // What had no room before may have some now.
            self.look(now_ns);
        }
        if !self.stash.is_empty() && !self.session.out.is_full() {
            let any = self.take_stash(now_ns) | self.send(now_ns) | sent;
            return self.after(if any { Turn::Busy } else { Turn::Idle });
        }
        if !self.wants_more() {
            return self.after(if sent { Turn::Busy } else { Turn::Idle });
        }
        match self.receive(buffer) {
            Received::Nothing => {
                // What a handshake says.
                let sent = (self.channel.has_unsent() && self.send(now_ns)) || sent;
                return self.after(if sent { Turn::Busy } else { Turn::Idle });
            }
            Received::Bytes(bytes) => {
                self.came_ns = now_ns;
                self.take_all(&buffer[..bytes], now_ns);
            }
            Received::There(bytes) => {
                self.came_ns = now_ns;
                match self.session.received_there(bytes) {
                    Ok(()) => self.take_all(&[], now_ns),
                    Err(why) => self.end(why, now_ns),
                }
            }
            Received::End(why) => {
                // Whose bytes were no TLS still sends, and reads why it should not.
                self.at_end = !matches!(why, Ended::Tls(_));
                self.end(why, now_ns);
            }
        }
        self.send(now_ns);
        self.after(Turn::Busy)
    }

    /// Receives what is there: where it belongs, if it is a lot of one command's, or into `buffer`.
    fn receive(&mut self, buffer: &mut [u8]) -> Received {
        if let Some(room) = self.session.direct_room() {
            return match self.channel.receive(room, buffer) {
                Ok(0) => Received::Nothing,
                Ok(bytes) => {
                    self.moved.received_bytes += bytes as u64;
                    Received::There(bytes)
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

    /// Takes what was received, and sends answers as soon as they are worth it. What is left waits for the host to take some.
    fn take_all(&mut self, received: &[u8], now_ns: u64) {
        let mut left = received;
        loop {
            let taken = self.take(left, now_ns);
            left = &left[taken..];
            if left.is_empty() {
                return;
            }
            self.send(now_ns);
            if taken == 0 || self.session.out.is_full() {
                return self.stash.extend_from_slice(left);
            }
        }
    }

    /// Goes on with what was received before; whether any of it was taken.
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

    /// Hands what was received to the session; how much of it was read.
    fn take(&mut self, received: &[u8], now_ns: u64) -> usize {
        let mut input = received;
        if self.session.is_opening() {
            self.session.secured = self.channel.psk().map(Secured::by);
            if let Err(why) = self.session.begin(&mut input) {
                self.end(why, now_ns);
            }
            if input.is_empty() || self.over.is_some() {
                return received.len();
            }
        }
        let needs_all = self.session.needs_all();
        let taken = self.execute(&mut input, needs_all, now_ns);
        let taken = taken.and_then(|()| self.session.authenticate(now_ns));
        match (taken, self.session.asked_site()) {
            (Err(why), _) => self.end(why, now_ns),
            (Ok(()), Some(site)) => self.connect(site, now_ns),
            (Ok(()), None) => {}
        }
        if needs_all && let Some(site) = &self.site {
            // Other connections of the host, and other hosts, may have something to hear of.
            site.device.ring();
        }
        if self.over.is_some() { received.len() } else { received.len() - input.len() }
    }

    /// With the device of its subsystem in hand, where it is connected to one.
    fn execute(&mut self, input: &mut &[u8], needs_all: bool, now_ns: u64) -> Result<(), Ended> {
        let Self { session, site, .. } = self;
        let Some(site) = site else { return session.receive(input, None, now_ns) };
        let taken = site.work(needs_all, |device| session.receive(input, Some(device), now_ns));
        taken.unwrap_or_else(|| session.receive_of_failed(input, now_ns))
    }

    /// Has the subsystem that was asked for answer.
    fn connect(&mut self, site: Arc<Site>, now_ns: u64) {
        let session = &mut self.session;
        match site.device.run_alone(|device| session.admit(&site, device, now_ns)) {
            Ok(true) => self.site = Some(site),
            Ok(false) => {}
            Err(_) => self.end(Ended::DeviceFailed, now_ns),
        }
    }

    /// Sends what came of commands by itself; whether that was anything.
    pub fn look(&mut self, now_ns: u64) -> bool {
        if self.over.is_some() {
            return false;
        }
        let (mut any, was_owed) = (false, self.session.is_owed());
        loop {
            let Self { session, site, .. } = self;
            let looked = match site {
                Some(site) => match site.work(false, |device| session.look(Some(device))) {
                    Some(looked) => looked,
                    None if session.is_admin() => Ok(()),
                    None => Err(Ended::DeviceFailed),
                },
                None => session.look(None),
            };
            if let Err(why) = looked {
                self.end(why, now_ns);
            }
            if !was_owed && self.session.is_owed() {
                // The host has from now on to send what it is asked for.
                self.came_ns = now_ns;
            }
            let was_full = self.session.out.is_full();
            any |= self.send(now_ns);
            // What had no room has some where the host took what was to be sent.
            if !was_full || self.session.out.is_full() || self.over.is_some() {
                return any;
            }
        }
    }

    /// Sends as much as the host takes; whether that was anything.
    pub(super) fn send(&mut self, now_ns: u64) -> bool {
        let mut any = false;
        while self.has_more() {
            match self.channel.send(self.session.out.pending()) {
                Ok(bytes) => {
                    self.session.out.sent(bytes);
                    self.moved.sent_bytes += bytes as u64;
                    any = true;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    // Whoever receives finds the same; what was to be sent is of no use.
                    self.at_end = true;
                    let unsent = self.session.out.pending().len();
                    self.session.out.sent(unsent);
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
