//! Why an authentication fails.

use byway_spec::authentication::{AuthFailure, AuthId};

use super::MessageError;

/// Why an authentication fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthenticationError {
    /// The host's response is not what its secret makes.
    #[error("the host's response is not what its secret makes")]
    HostSecret,
    /// The controller's response is not what its secret makes.
    #[error("the controller's response is not what its secret makes")]
    ControllerSecret,
    /// The host challenges the controller, which has no secret to answer with.
    #[error("the host challenges the controller, for which there is no secret")]
    NoControllerSecret,
    /// The host challenges the controller, which does not answer.
    #[error("the controller was challenged and does not answer")]
    Unanswered,
    /// A TLS key was requested without the host's challenge, which it is derived from.
    #[error("the host asks for a secure channel and sends no challenge to make its key of")]
    Unchallenged,
    /// Both challenges are equal: the peer reflects the challenge it was sent.
    #[error("the peer repeats the challenge that it was sent")]
    Repeated,
    /// No hash is known to both sides, or allowed by both.
    #[error("no hash is allowed by both sides")]
    Hash,
    /// No group is.
    #[error("no DH group is allowed by both sides")]
    Group,
    /// DH-HMAC-CHAP is not offered.
    #[error("the host does not offer DH-HMAC-CHAP")]
    Protocol,
    /// A secure channel was requested where none is possible.
    #[error("the host asks for a secure channel made of the authentication, which is not to be had here")]
    SecureChannel,
    /// The peer's DH value is none.
    #[error("the peer's DH value is not in the group")]
    DhValue,
    /// A message cannot be read.
    #[error("{0}")]
    Message(#[from] MessageError),
    /// An unexpected message.
    #[error("{found} came where {expected} was to come")]
    Order {
        /// The message received.
        found: AuthId,
        /// The message expected.
        expected: &'static str,
    },
    /// A message was requested while one must be sent.
    #[error("a message is asked for where {expected} was to come")]
    Early {
        /// The message expected.
        expected: &'static str,
    },
    /// A message of another transaction.
    #[error("a message of transaction {found} came in transaction {expected}")]
    Transaction {
        /// The message's transaction identifier.
        found: u16,
        /// This one.
        expected: u16,
    },
    /// The peer says that it fails.
    #[error("the peer says: {0}")]
    Refused(AuthFailure),
    /// It takes too long.
    #[error("the authentication was not done in time")]
    Late,
    /// The system has no random bytes.
    #[error("the system has no random bytes")]
    NoEntropy,
}

impl AuthenticationError {
    /// The failure reason for the peer.
    pub fn explanation(&self) -> AuthFailure {
        match self {
            Self::HostSecret
            | Self::ControllerSecret
            | Self::NoControllerSecret
            | Self::Unanswered
            | Self::Repeated
            | Self::Unchallenged
            | Self::Refused(_)
            | Self::Late
            | Self::NoEntropy => AuthFailure::FAILED,
            Self::Hash => AuthFailure::HASH_NOT_USABLE,
            Self::Group => AuthFailure::GROUP_NOT_USABLE,
            Self::Protocol => AuthFailure::PROTOCOL_NOT_USABLE,
            Self::SecureChannel => AuthFailure::SECURE_CHANNEL_MISMATCH,
            Self::Message(MessageError::Unknown { .. }) | Self::Order { .. } | Self::Early { .. } => {
                AuthFailure::INCORRECT_MESSAGE
            }
            Self::DhValue | Self::Message(_) | Self::Transaction { .. } => AuthFailure::INCORRECT_PAYLOAD,
        }
    }
}
