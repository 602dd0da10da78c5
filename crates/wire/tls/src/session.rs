//! One connection: bytes of a socket in, bytes of NVMe/TCP out, and back. It has no socket, and waits for nothing.

use std::fmt;
use std::sync::Arc;

use byway_fabrics::tls::{PskHash, TlsPsk};

use crate::FIRST_BYTE;
use crate::error::{TlsError, TlsUnavailable};
use crate::hello;
use crate::library::{Context, Handle};

/// Most bytes encrypted per write: four records.
const WRITTEN_BYTES_MAX: usize = 64 << 10;

/// Writing stops while this many bytes are unsent.
const UNSENT_BYTES_MAX: usize = 128 << 10;

/// Longer identities are truncated in error messages.
const SHOWN_BYTES_MAX: usize = 600;

/// The first byte of an alert.
const ALERT_BYTE: u8 = 0x15;

/// One TLS connection, sans-I/O. Received bytes go in by [`Self::put`] and decrypted ones come out of [`Self::read`].
/// Bytes written by [`Self::write`], and handshake messages that [`Self::read`] produced, are sent from
/// [`Self::unsent`].
pub struct TlsSession {
    handle: Handle,
    unsent: Vec<u8>,
    sent: usize,
    is_open: bool,
    /// Bytes were received.
    is_begun: bool,
}

/// By which keys a connection is made.
pub(crate) enum Keys {
    /// This one.
    Host(TlsPsk),
    /// The one that the host names.
    Subsystem(Arc<[TlsPsk]>),
}

/// The identity that a host sent, and the key found for it.
#[derive(Default)]
pub(crate) struct Used {
    /// The first identity that the host sent, or the one that was found.
    pub asked: Option<String>,
    /// Nothing of it was known.
    pub is_refused: bool,
    /// The binder of the found identity has this length in bytes, not that of the key's hash.
    pub other_hash_bytes: Option<usize>,
    psk: Option<TlsPsk>,
}

impl Keys {
    /// The key of this identity.
    pub fn find(&self, identity: &[u8]) -> Option<&TlsPsk> {
        let Self::Subsystem(psks) = self else { return None };
        psks.iter().find(|psk| psk.identity().as_bytes() == identity)
    }

    /// The hash of a host's one key.
    pub fn hash_of_host(&self) -> Option<PskHash> {
        if let Self::Host(psk) = self { Some(psk.hash()) } else { None }
    }
}

impl Used {
    /// The hash of the first key that is named and known.
    pub fn choose(&mut self, keys: &Keys, extension: &[u8]) -> Option<PskHash> {
        let mut named = hello::identities(extension).enumerate();
        let known = named.find_map(|(place, identity)| Some((place, keys.find(identity)?)));
        self.is_refused = known.is_none();
        let Some((place, psk)) = known else {
            self.asked = hello::identities(extension).next().map(shown);
            return None;
        };
        self.asked = Some(psk.identity().to_owned());
        let bound_by = hello::binder_bytes(extension, place);
        self.other_hash_bytes = bound_by.filter(|bytes| *bytes != psk.hash().bytes());
        Some(psk.hash())
    }

    /// Sets the pre-shared key that the handshake agreed on.
    pub fn set_psk(&mut self, psk: &TlsPsk) {
        self.psk = Some(psk.clone());
    }
}

fn shown(identity: &[u8]) -> String {
    String::from_utf8_lossy(identity.get(..SHOWN_BYTES_MAX).unwrap_or(identity)).into_owned()
}

impl TlsSession {
    pub(crate) fn new(context: &Context, keys: Keys) -> Result<Self, TlsUnavailable> {
        let handle = Handle::new(context, keys)?;
        Ok(Self { handle, unsent: Vec::new(), sent: 0, is_open: false, is_begun: false })
    }

    /// Adds received bytes.
    ///
    /// # Errors
    /// To a host, that the peer does not speak TLS.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        let Some(first) = bytes.first() else { return Ok(()) };
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if is_first && ![FIRST_BYTE, ALERT_BYTE].contains(first) {
            return Err(TlsError::NotTls);
        }
        self.handle.put(bytes)
    }

    /// Goes on with the handshake; whether it is done.
    ///
    /// # Errors
    /// If the handshake failed. [`Self::unsent`] then has the alert for the peer.
    pub fn shake(&mut self) -> Result<bool, TlsError> {
        if !self.is_open {
            let shaken = self.handle.shake();
            self.collect();
            self.is_open = shaken?;
        }
        Ok(self.is_open)
    }

    /// Reads decrypted bytes, after continuing the handshake if needed; 0 if there are none yet.
    ///
    /// # Errors
    /// If the connection has ended. [`Self::unsent`] then has the alert for the peer.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, TlsError> {
        if into.is_empty() || !self.shake()? {
            return Ok(0);
        }
        let read = self.handle.read(into);
        // A peer's key update needs a reply.
        self.collect();
        read
    }

    /// Encrypts as many bytes as there is room for; none before the handshake is done. Returns how many were taken.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, TlsError> {
        if bytes.is_empty() || !self.is_open || self.unsent().len() >= UNSENT_BYTES_MAX {
            return Ok(0);
        }
        let written = self.handle.write(bytes.get(..WRITTEN_BYTES_MAX).unwrap_or(bytes));
        self.collect();
        written
    }

    /// Bytes to send.
    pub fn unsent(&self) -> &[u8] {
        self.unsent.get(self.sent..).unwrap_or_default()
    }

    /// Removes `bytes` of [`Self::unsent`], which were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.unsent.len() {
            self.unsent.clear();
            self.sent = 0;
        }
    }

    /// Whether the handshake is done.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The key of a connection that is open. It is a host's that has no other name, for one subsystem.
    pub fn psk(&self) -> Option<&TlsPsk> {
        match self.handle.keys() {
            _ if !self.is_open => None,
            Keys::Host(psk) => Some(psk),
            Keys::Subsystem(_) => self.handle.used().psk.as_ref(),
        }
    }

    /// Queues close_notify in [`Self::unsent`]: no more data follows.
    pub fn close(&mut self) {
        if self.is_open {
            self.handle.close();
            self.collect();
        }
    }

    fn collect(&mut self) {
        self.handle.take(&mut self.unsent);
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unsent = self.unsent().len();
        f.debug_struct("TlsSession")
            .field("is_open", &self.is_open)
            .field("unsent", &unsent)
            .finish_non_exhaustive()
    }
}
