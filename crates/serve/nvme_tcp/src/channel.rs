//! A connection's socket, with or without TLS. The first received byte decides which.

use byway_fabrics::tls::TlsPsk;
use byway_tls::{FIRST_BYTE, TlsError, TlsSession, TlsSubsystem};
use rustix::io::Errno;

use crate::close_reason::CloseReason;
use crate::wire::Wire;

/// A non-blocking socket and its transport security.
#[derive(Debug)]
pub struct Channel<W> {
    wire: W,
    security: Security,
}

#[derive(Debug)]
enum Security {
    /// Clear text.
    Clear,
    /// Until the first byte arrives.
    Undecided(TlsSubsystem),
    /// TLS.
    Secure(Box<TlsSession>),
}

impl<W: Wire> Channel<W> {
    /// A new connection; with `tls`, a handshake is accepted.
    pub fn new(wire: W, tls: Option<TlsSubsystem>) -> Self {
        let security = tls.map_or(Security::Clear, Security::Undecided);
        Self { wire, security }
    }

    /// The socket.
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// The host's key, if the connection uses TLS.
    pub fn psk(&self) -> Option<&TlsPsk> {
        if let Security::Secure(session) = &self.security { session.psk() } else { None }
    }

    /// Divides a buffer into room for at most `bytes` of plain text, and for the records they come in.
    pub fn divide<'b>(&self, buffer: &'b mut [u8], bytes: usize) -> (&'b mut [u8], &'b mut [u8]) {
        let most = if matches!(self.security, Security::Clear) { buffer.len() } else { buffer.len() / 2 };
        buffer.split_at_mut(bytes.min(most))
    }

    /// Receives available bytes; 0 if there are none.
    ///
    /// # Errors
    /// Why the connection ends.
    #[inline]
    pub fn receive(&mut self, into: &mut [u8], sealed: &mut [u8]) -> Result<usize, CloseReason> {
        match &mut self.security {
            Security::Clear => received(self.wire.receive(into)),
            Security::Secure(session) => open(&self.wire, session, into, sealed),
            Security::Undecided(_) => match self.decide()? {
                true => self.receive(into, sealed),
                false => Ok(0),
            },
        }
    }

    /// Decides between clear text and TLS by the first byte; whether it has arrived.
    #[cold]
    fn decide(&mut self) -> Result<bool, CloseReason> {
        let Security::Undecided(tls) = &self.security else { return Ok(true) };
        let mut first = [0; 1];
        if received(self.wire.peek(&mut first))? == 0 {
            return Ok(false);
        }
        self.security = match first {
            [FIRST_BYTE] => Security::Secure(Box::new(tls.session().map_err(TlsError::from)?)),
            _ => Security::Clear,
        };
        Ok(true)
    }

    /// Sends as much as there is room for. Returns how many of `bytes` the caller may drop.
    ///
    /// # Errors
    /// The system's error; [`Errno::AGAIN`] without any room.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match &mut self.security {
            Security::Secure(session) => seal(&self.wire, session, bytes),
            _ => self.wire.send(bytes),
        }
    }

    /// Whether encrypted records are left to send.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        matches!(&self.security, Security::Secure(session) if !session.unsent().is_empty())
    }

    /// Drops unsent records: the peer is gone.
    pub fn forget_unsent(&mut self) {
        if let Security::Secure(session) = &mut self.security {
            session.sent(session.unsent().len());
        }
    }

    /// Queues TLS close_notify, which distinguishes an orderly end from truncation.
    pub fn close(&mut self) {
        if let Security::Secure(session) = &mut self.security {
            session.close();
        }
    }
}

/// Maps "no data yet" to 0 and the end of the stream to [`CloseReason::Left`].
fn received(result: Result<usize, Errno>) -> Result<usize, CloseReason> {
    match result {
        Ok(0) => Err(CloseReason::Left),
        Ok(bytes) => Ok(bytes),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(CloseReason::of_system(std::io::Error::from(error).kind())),
    }
}

/// Reads of the socket in a row that yield no plain text, before other connections are served.
const ROUNDS_MAX: u32 = 8;

/// Reads plain text, receiving records as long as there is none.
fn open(
    wire: &impl Wire,
    session: &mut TlsSession,
    into: &mut [u8],
    sealed: &mut [u8],
) -> Result<usize, CloseReason> {
    for _ in 0..ROUNDS_MAX {
        match session.read(into)? {
            0 => {}
            bytes => return Ok(bytes),
        }
        match received(wire.receive(sealed))? {
            0 => return Ok(0),
            bytes => session.put(sealed.get(..bytes).unwrap_or_default())?,
        }
    }
    // Read what was put: epoll does not report bytes buffered in the session.
    Ok(session.read(into)?)
}

fn seal(wire: &impl Wire, session: &mut TlsSession, bytes: &[u8]) -> Result<usize, Errno> {
    let taken = session.write(bytes).map_err(|_| Errno::PIPE)?;
    let mut any = taken > 0;
    while !session.unsent().is_empty() {
        match wire.send(session.unsent()) {
            Ok(sent) => {
                session.sent(sent);
                any = true;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if taken > 0 => break,
            Err(error) => return Err(error),
        }
    }
    if any { Ok(taken) } else { Err(Errno::AGAIN) }
}
