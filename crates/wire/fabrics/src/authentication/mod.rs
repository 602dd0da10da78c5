//! In-band authentication by DH-HMAC-CHAP (Base 2.1, section 8.3.5), for a host and for a controller.
//!
//! | message | from | content |
//! |---|---|---|
//! | Negotiate | host | the hashes and groups it supports |
//! | Challenge | controller | the selected hash and group, a challenge, its DH value |
//! | Reply | host | the response, its own DH value, and a challenge if it authenticates the controller |
//! | Success1 | controller | the response to that challenge |
//! | Success2 | host | confirms that response |
//!
//! No secret is sent: each side proves by the HMAC of a challenge that it knows the host's secret, and likewise the
//! controller's. [`HostNegotiation`] is the host's side, each step of which is a type. [`ControllerAuthentication`]
//! is the controller's, which accepts messages in any order. With a [`Concatenation`] both also derive the same TLS
//! key.

mod concatenation;
mod controller;
mod entropy;
mod failure;
mod group;
mod hash;
mod host;
mod message;
mod primes;
mod response;
mod secret;

pub use concatenation::Concatenation;
pub use controller::{ControllerAuthentication, Verdict};
pub use entropy::Entropy;
pub use failure::AuthenticationError;
pub use group::DhGroup;
pub use hash::AuthHash;
pub use host::{HostChallenged, HostFailure, HostNegotiation};
pub use message::{AuthMessage, Challenge, MessageError, Negotiate, Reply, Success1};
pub use secret::{DhchapSecret, SecretError, SecretHash};

use crate::Nqn;

/// Most bytes of a message: a reply in the largest group, with room to spare.
pub const AUTH_MESSAGE_BYTES_MAX: usize = 4096;

/// Names of host and subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parties {
    /// The host's name.
    pub host: Nqn,
    /// The subsystem's name.
    pub subsystem: Nqn,
}

/// Secrets of both sides. Clones copy the secrets; each is wiped when dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSecrets {
    /// The host's, by which it is known.
    pub host: DhchapSecret,
    /// The controller's, where it is to be known too, or can be.
    pub controller: Option<DhchapSecret>,
}

/// Hashes and groups that one side would use, the preferred first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSuites {
    /// Hashes.
    pub hashes: Vec<AuthHash>,
    /// Groups.
    pub groups: Vec<DhGroup>,
}

impl Default for AuthSuites {
    /// All. The strongest hash first, as it costs nothing. Of the groups first those as strong as the secrets need and no more
    /// (128 bits), as an exchange in the largest takes a hundred times as long as one in the smallest; then the others, and none last.
    fn default() -> Self {
        let groups = [
            DhGroup::Ffdhe3072,
            DhGroup::Ffdhe4096,
            DhGroup::Ffdhe2048,
            DhGroup::Ffdhe6144,
            DhGroup::Ffdhe8192,
            DhGroup::Null,
        ];
        let hashes = [AuthHash::Sha512, AuthHash::Sha384, AuthHash::Sha256];
        Self { hashes: hashes.to_vec(), groups: groups.to_vec() }
    }
}
