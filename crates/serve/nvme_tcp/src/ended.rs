//! Why a connection ends.

use std::io::ErrorKind;

use byway_fabrics::Nqn;
use byway_fabrics::authentication::AuthenticationError;
use byway_nvme_tcp::{TermReq, Violation};
use byway_tls::TlsError;

/// Why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The host is done with it.
    #[error("the host left")]
    Left,
    /// The host broke a rule.
    #[error("{0}")]
    Violation(Violation),
    /// The host gave it up.
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
    /// The host may not be here any more, or what it came to is not served any more.
    #[error("the host is not served here any more")]
    Dismissed,
    /// Nothing came in time.
    #[error("the host did not connect in time")]
    Silent,
    /// The host did not show who it is.
    #[error("{host} is not authenticated: {why}")]
    NotAuthenticated {
        /// The name that it gave.
        host: Nqn,
        /// Why.
        why: AuthenticationError,
    },
    /// The host did not begin with TLS, which is required here.
    #[error("the host begins in the clear, and TLS is required")]
    Clear,
    /// There is no TLS connection, or none any more.
    #[error("{0}")]
    Tls(TlsError),
    /// No command came in time.
    #[error("nothing came within the keep alive time")]
    KeepAlive,
    /// The host does not take what it asked for.
    #[error("the host takes nothing of what is sent to it")]
    Stuck,
    /// The host does not send what it has.
    #[error("the host does not send the data that it was asked for")]
    Stalled,
    /// The host was connected to nothing, and others came after it.
    #[error("too many came after it, and it was connected to nothing")]
    Crowded,
    /// The system's answer.
    #[error("the connection failed: {0}")]
    System(ErrorKind),
}

impl Ended {
    /// A host that closes its connection with something unread leaves as any other does.
    pub fn of_system(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Left,
            other => Self::System(other),
        }
    }
}

impl From<TlsError> for Ended {
    fn from(error: TlsError) -> Self {
        if error == TlsError::Closed { Self::Left } else { Self::Tls(error) }
    }
}
