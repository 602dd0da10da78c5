//! A connection's socket, and TLS over it where there is any: which of both it is, the first byte says.

use byway_fabrics::tls::TlsPsk;
use byway_tls::{FIRST_BYTE, TlsError, TlsSession, TlsSubsystem};
use rustix::io::Errno;

use crate::ended::Ended;
use crate::wire::Wire;

/// A socket that never blocks, and what is between it and the session.
#[derive(Debug)]
pub struct Channel<W> {
    wire: W,
    security: Security,
}

#[derive(Debug)]
enum Security {
    /// None.
    Clear,
    /// As the host begins.
    Undecided(TlsSubsystem),
    /// TLS.
    Secure(Box<TlsSession>),
}

impl<W: Wire> Channel<W> {
    /// That of a connection that came; hosts may begin TLS where there is something to answer it by.
    pub fn new(wire: W, tls: Option<TlsSubsystem>) -> Self {
        let security = tls.map_or(Security::Clear, Security::Undecided);
        Self { wire, security }
    }

    /// What it is over.
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// The key by which the host came, where it came by TLS.
    pub fn psk(&self) -> Option<&TlsPsk> {
        if let Security::Secure(session) = &self.security { session.psk() } else { None }
    }

    /// Divides a buffer: where at most so much is received, and what is needed to receive it.
    pub fn divide<'b>(&self, buffer: &'b mut [u8], bytes: usize) -> (&'b mut [u8], &'b mut [u8]) {
        let most = if matches!(self.security, Security::Clear) { buffer.len() } else { buffer.len() / 2 };
        buffer.split_at_mut(bytes.min(most))
    }

    /// Receives what is there; 0 where nothing is.
    ///
    /// # Errors
    /// Why nothing more comes.
    #[inline]
    pub fn receive(&mut self, into: &mut [u8], sealed: &mut [u8]) -> Result<usize, Ended> {
        match &mut self.security {
            Security::Clear => received(self.wire.receive(into)),
            Security::Secure(session) => open(&self.wire, session, into, sealed),
            Security::Undecided(_) => match self.decide()? {
                true => self.receive(into, sealed),
                false => Ok(0),
            },
        }
    }

    /// Whether the first byte has come, and with it what there is between the socket and the session.
    #[cold]
    fn decide(&mut self) -> Result<bool, Ended> {
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

    /// Sends what there is room for; of `bytes` so many need not be kept any more.
    ///
    /// # Errors
    /// The system's answer; that there is no room at all.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match &mut self.security {
            Security::Secure(session) => seal(&self.wire, session, bytes),
            _ => self.wire.send(bytes),
        }
    }

    /// Whether something is left to be sent that the session does not have any more.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        matches!(&self.security, Security::Secure(session) if !session.unsent().is_empty())
    }

    /// Nobody takes it any more.
    pub fn forget_unsent(&mut self) {
        if let Security::Secure(session) = &mut self.security {
            session.sent(session.unsent().len());
        }
    }

    /// Nothing more is sent: the host can tell that from a connection that was cut.
    pub fn close(&mut self) {
        if let Security::Secure(session) = &mut self.security {
            session.close();
        }
    }
}

/// Nothing yet is no end; nothing more is.
fn received(result: Result<usize, Errno>) -> Result<usize, Ended> {
    match result {
        Ok(0) => Err(Ended::Left),
        Ok(bytes) => Ok(bytes),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(Ended::of_system(std::io::Error::from(error).kind())),
    }
}

/// So often more is taken of the socket for what TLS has to say to itself, before others have their turn.
const ROUNDS_MAX: u32 = 8;

/// What has come and can be read; what the socket has by and by, while that is nothing.
fn open(
    wire: &impl Wire,
    session: &mut TlsSession,
    into: &mut [u8],
    sealed: &mut [u8],
) -> Result<usize, Ended> {
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
    // What was put is not left there: nothing would tell of it.
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
