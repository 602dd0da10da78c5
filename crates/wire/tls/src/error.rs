//! Errors of TLS connections.

/// OpenSSL cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsUnavailable {
    /// It is not there, or is another one.
    #[error("TLS needs OpenSSL 3 (libssl.so.3), which cannot be loaded: {0}")]
    NotLoaded(String),
    /// OpenSSL is out of memory, or its configuration refuses the request.
    #[error("OpenSSL does not do what TLS needs: {0}")]
    Refused(String),
}

/// Why a connection is over, or never began.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The peer has ended it, as TLS has it.
    #[error("the peer ended the connection")]
    Closed,
    /// The peer sent an alert.
    #[error("the peer refuses the TLS connection: alert {0}")]
    Alert(u8),
    /// A host names no pre-shared key.
    #[error("the host has no TLS key for this subsystem")]
    NoIdentity,
    /// A host names one that is not known.
    #[error("no host has the TLS identity {0:?}")]
    UnknownIdentity(String),
    /// A host names one, and has another.
    #[error("the TLS key of {0:?} is another here")]
    WrongKey(String),
    /// A host names one, and shows by another hash than the key's that it has it.
    #[error(
        "the TLS key of {identity:?} is bound by a hash of {bytes} bytes, which is not its own (GnuTLS before 3.8.11 binds keys of SHA-384 so)"
    )]
    OtherHash {
        /// The identity that the host sent.
        identity: String,
        /// Bytes of the hash that it took.
        bytes: usize,
    },
    /// The peer does not speak TLS.
    #[error("the peer does not speak TLS")]
    NotTls,
    /// The peer sent something unexpected; OpenSSL's reason.
    #[error("the TLS connection failed: {0}")]
    Broken(String),
    /// OpenSSL fails.
    #[error(transparent)]
    Unavailable(#[from] TlsUnavailable),
}
