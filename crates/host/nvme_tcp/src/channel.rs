//! What is between a connection and its socket: nothing, or TLS.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use byway_core::{Deadline, Error, ErrorKind, Result};
use byway_tls::{TlsError, TlsSession};

use crate::peer::Peer;
use crate::result::{NotAttached, ended};
use crate::stream::{Stream, WaitFor};

/// What is received of the socket at a time: four records.
const SEALED_BYTES: usize = 64 << 10;

/// A socket, as a connection has it.
#[derive(Debug)]
pub(crate) enum Channel {
    /// In the clear.
    Clear(Arc<Stream>),
    /// By TLS.
    Secure(Box<Secure>),
}

/// A socket with TLS over it.
#[derive(Debug)]
pub(crate) struct Secure {
    stream: Arc<Stream>,
    session: TlsSession,
    /// Where the socket's bytes are received.
    sealed: Box<[u8]>,
}

impl Channel {
    /// Connects, and begins TLS where there is a key for it.
    ///
    /// # Errors
    /// One sentence says why not; a key that is not taken would not be another time.
    pub fn connect(peer: &Peer, deadline: Deadline) -> Result<Self, NotAttached> {
        let stream = Arc::new(Stream::connect(&peer.place.host, peer.place.port, deadline)?);
        let Some(tls) = peer.security.tls() else { return Ok(Self::Clear(stream)) };
        let session = tls.session().map_err(|why| refused(peer, why.into()))?;
        let sealed = vec![0; SEALED_BYTES].into();
        let mut secure = Box::new(Secure { stream, session, sealed });
        secure.shake(peer, deadline)?;
        Ok(Self::Secure(secure))
    }

    /// The socket.
    #[inline]
    pub fn stream(&self) -> &Arc<Stream> {
        match self {
            Self::Clear(stream) => stream,
            Self::Secure(secure) => &secure.stream,
        }
    }

    /// Whether something waits to be sent that the connection does not have any more.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        matches!(self, Self::Secure(secure) if !secure.session.unsent().is_empty())
    }

    /// Sends that, as much as there is room for.
    ///
    /// # Errors
    /// When the connection has ended.
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        if let Self::Secure(secure) = self { secure.flush() } else { Ok(()) }
    }

    /// Sends contiguous bytes without blocking; returns how many were taken.
    ///
    /// # Errors
    /// When the connection has ended.
    #[inline]
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.send_bytes(bytes),
            Self::Secure(secure) => secure.send(bytes),
        }
    }

    /// Sends what is gathered, as much as there is room for now; nothing where there is none.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.send(pieces),
            Self::Secure(secure) => secure.send_all(pieces),
        }
    }

    /// Receives the available bytes, without blocking; 0 if there are none.
    ///
    /// # Errors
    /// When the connection has ended.
    #[inline]
    pub fn receive(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.receive(into),
            Self::Secure(secure) => secure.receive(into),
        }
    }

    /// Whether received bytes may be buffered here, where no poll of the socket shows them.
    #[inline]
    pub fn holds_received(&self) -> bool {
        matches!(self, Self::Secure(_))
    }
}

impl Secure {
    fn shake(&mut self, peer: &Peer, deadline: Deadline) -> Result<(), NotAttached> {
        let doing = |error: Error| error.doing(format!("begin TLS with {}", peer.shown()));
        loop {
            let shaken = self.session.shake();
            // The TLS alert goes to the subsystem too.
            let flushed = self.flush();
            if shaken.map_err(|why| refused(peer, why))? {
                flushed.map_err(|cause| doing(ended(cause)))?;
                return Ok(());
            }
            let received = flushed.and_then(|()| self.fill()).map_err(|cause| match tls_error(&cause) {
                Some(why) => refused(peer, why),
                None => doing(ended(cause)).into(),
            })?;
            if received == 0 {
                self.wait(deadline).map_err(doing)?;
            }
        }
    }

    fn wait(&self, deadline: Deadline) -> Result<()> {
        let left = deadline.left_or_max();
        if left.is_zero() {
            // The listener may not be a device at all.
            return Err(Error::host(ErrorKind::TimedOut, "the listener there does not answer"));
        }
        let wait = if self.session.unsent().is_empty() { WaitFor::Bytes } else { WaitFor::BytesOrRoom };
        let waited = self.stream.wait(wait, None, left);
        waited.map(drop).map_err(|cause| Error::kernel("waiting for the connection failed", cause))
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.session.unsent().is_empty() {
            match self.stream.send_bytes(self.session.unsent())? {
                0 => return Ok(()),
                bytes => self.session.sent(bytes),
            }
        }
        Ok(())
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            let written = self.session.write(bytes).map_err(of_tls)?;
            taken += written;
            match self.flush() {
                // A part may have left: it counts as sent, and the next attempt fails.
                Err(_) if taken > 0 => return Ok(taken),
                flushed => flushed?,
            }
            if written == 0 {
                return Ok(taken);
            }
            bytes = bytes.get(written..).unwrap_or_default();
        }
    }

    fn send_all(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for piece in pieces {
            let sent = match self.send(piece) {
                Err(_) if taken > 0 => return Ok(taken),
                sent => sent?,
            };
            taken += sent;
            if sent < piece.len() {
                break;
            }
        }
        Ok(taken)
    }

    /// Gives the session what the socket has; how much that was.
    fn fill(&mut self) -> io::Result<usize> {
        let received =
            self.stream.receive(&mut [IoSliceMut::new(&mut []), IoSliceMut::new(&mut self.sealed)])?;
        self.session.put(self.sealed.get(..received).unwrap_or_default()).map_err(of_tls)?;
        Ok(received)
    }

    fn receive(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(room) = into.iter_mut().find(|room| !room.is_empty()) else { return Ok(0) };
        loop {
            let read = self.session.read(room).map_err(of_tls)?;
            if read > 0 || self.fill()? == 0 {
                return Ok(read);
            }
        }
    }
}

/// An end of TLS as one of the connection.
#[cold]
fn of_tls(error: TlsError) -> io::Error {
    match error {
        TlsError::Closed => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the controller closed the connection")
        }
        other => io::Error::other(other),
    }
}

/// The TLS error behind an I/O error.
fn tls_error(cause: &io::Error) -> Option<TlsError> {
    cause.get_ref()?.downcast_ref::<TlsError>().cloned()
}

/// Why TLS was not begun, in a sentence.
#[cold]
fn refused(peer: &Peer, why: TlsError) -> NotAttached {
    let (subsystem, host) = (&peer.place.subsystem, &peer.host);
    let error = match why {
        TlsError::Alert(number) => {
            let said = format!("{subsystem} does not accept the TLS key of {host} (alert {number})");
            Error::device(ErrorKind::Denied, said)
        }
        TlsError::NotTls => {
            let said = format!("the listener at {} does not speak TLS", peer.shown());
            Error::device(ErrorKind::Denied, said)
        }
        TlsError::Unavailable(why) => Error::host(ErrorKind::Unsupported, why.to_string()),
        other => {
            Error::device(ErrorKind::Protocol, format!("{host} cannot begin TLS with {subsystem}: {other}"))
        }
    };
    // A configured key stays the same on a retry; a key made by authentication does not.
    NotAttached { error, is_final: !peer.options.concatenate }
}
