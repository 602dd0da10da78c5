//! Why a connection ends.

use std::io::ErrorKind;

use byway_fabrics::Nqn;
use byway_fabrics::authentication::AuthenticationError;
use byway_nvme_tcp::{TermReq, Violation};
use byway_tls::TlsError;

/// Why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The host disconnected.
    #[error("the host left")]
    Left,
    /// A protocol violation of the host.
    #[error("{0}")]
    Violation(Violation),
    /// The host sent a termination request.
    #[error("the host gave the connection up ({}, {})", .0.status, .0.information)]
    Terminated(TermReq),
    /// More commands than the queue has entries for.
    #[error("more commands are outstanding than the queue has entries for")]
    Overrun,
    /// The controller was reset, or is gone.
    #[error("the controller of this queue was reset or is gone")]
    ControllerGone,
    /// The subsystem's code panicked.
    #[error("the subsystem's device failed")]
    DeviceFailed,
    /// The host is not allowed any more, or its port or subsystem was removed.
    #[error("the host is not served here any more")]
    Dismissed,
    /// No Connect within 10 s.
    #[error("the host did not connect in time")]
    Silent,
    /// The host did not authenticate.
    #[error("{host} is not authenticated: {why}")]
    NotAuthenticated {
        /// Its HOSTNQN.
        host: Nqn,
        /// The reason.
        why: AuthenticationError,
    },
    /// Clear text where TLS is required.
    #[error("the host begins in the clear, and TLS is required")]
    Clear,
    /// A TLS error.
    #[error("{0}")]
    Tls(TlsError),
    /// Keep Alive timeout.
    #[error("nothing came within the keep alive time")]
    KeepAlive,
    /// The host does not read responses.
    #[error("the host takes nothing of what is sent to it")]
    Stuck,
    /// The host does not send solicited data.
    #[error("the host does not send the data that it was asked for")]
    Stalled,
    /// Evicted: too many half-open connections.
    #[error("too many came after it, and it was connected to nothing")]
    Crowded,
    /// A socket error.
    #[error("the connection failed: {0}")]
    System(ErrorKind),
}

impl CloseReason {
    /// Maps a socket error. A reset by the host counts as an ordinary disconnect.
    pub fn of_system(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Left,
            other => Self::System(other),
        }
    }
}

impl From<TlsError> for CloseReason {
    fn from(error: TlsError) -> Self {
        if error == TlsError::Closed { Self::Left } else { Self::Tls(error) }
    }
}
