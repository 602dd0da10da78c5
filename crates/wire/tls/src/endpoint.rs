//! The two endpoints of a TLS connection and their keys.

use std::fmt;
use std::sync::Arc;

use byway_fabrics::tls::TlsPsk;

use crate::error::TlsUnavailable;
use crate::library::Context;
use crate::session::{Keys, TlsSession};

/// A host with its key for one subsystem. It begins the handshake.
#[derive(Clone)]
pub struct TlsHost {
    context: Arc<Context>,
    psk: TlsPsk,
}

/// A subsystem or discovery service, with the keys of its hosts. It answers the handshake.
#[derive(Clone)]
pub struct TlsSubsystem {
    context: Arc<Context>,
    psks: Arc<[TlsPsk]>,
}

impl TlsHost {
    /// One that begins by `psk`.
    ///
    /// # Errors
    /// If OpenSSL cannot be loaded.
    pub fn new(psk: TlsPsk) -> Result<Self, TlsUnavailable> {
        Ok(Self { context: Arc::new(Context::new()?), psk })
    }

    /// A connection that begins: it has something to send.
    ///
    /// # Errors
    /// Where OpenSSL has no memory.
    pub fn session(&self) -> Result<TlsSession, TlsUnavailable> {
        TlsSession::new(&self.context, Keys::Host(self.psk.clone()))
    }
}

impl TlsSubsystem {
    /// A subsystem that accepts hosts with one of `psks`.
    ///
    /// # Errors
    /// If OpenSSL cannot be loaded.
    pub fn new(psks: impl IntoIterator<Item = TlsPsk>) -> Result<Self, TlsUnavailable> {
        Ok(Self { context: Arc::new(Context::new()?), psks: psks.into_iter().collect() })
    }

    /// The same subsystem with other keys.
    #[must_use]
    pub fn with(&self, psks: impl IntoIterator<Item = TlsPsk>) -> Self {
        Self { context: self.context.clone(), psks: psks.into_iter().collect() }
    }

    /// A connection that a host begins.
    ///
    /// # Errors
    /// Where OpenSSL has no memory.
    pub fn session(&self) -> Result<TlsSession, TlsUnavailable> {
        TlsSession::new(&self.context, Keys::Subsystem(self.psks.clone()))
    }
}

impl fmt::Debug for TlsHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsHost").field("psk", &self.psk).finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsSubsystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSubsystem").field("psks", &self.psks).finish_non_exhaustive()
    }
}
