//! DH-HMAC-CHAP: both sides, against an independent implementation, and against a peer that breaks the protocol.
#![allow(clippy::unwrap_used)]

mod concatenation;
mod known;
mod messages;
mod sides;

use byway_fabrics::Nqn;
use byway_fabrics::authentication::{
    AuthHash, AuthSecrets, AuthSuites, ControllerAuthentication, DhGroup, DhchapSecret, Entropy,
    HostNegotiation, Parties,
};

/// Digest of an exchange: SHA-256 of Challenge, Reply and Success1.
pub(crate) struct Known {
    pub(crate) hash: AuthHash,
    pub(crate) group: DhGroup,
    /// The hash by which both secrets are transformed; 0 for none.
    pub(crate) transform: usize,
    pub(crate) host_entropy: &'static str,
    pub(crate) messages: [&'static str; 3],
}

pub(crate) const TRANSACTION: u16 = 0x1234;

pub(crate) fn parties() -> Parties {
    let name = |name| Nqn::new(name).unwrap();
    let host = name("nqn.2014-08.org.nvmexpress:uuid:host");
    Parties { host, subsystem: name("nqn.2026-11.example:disk") }
}

pub(crate) fn secret(text: &str) -> DhchapSecret {
    text.parse().unwrap()
}

/// The secrets of both sides, with which each knows the other.
pub(crate) fn secrets() -> AuthSecrets {
    let [host, controller] = known::SECRETS[1];
    AuthSecrets { host: secret(host), controller: Some(secret(controller)) }
}

pub(crate) fn suites(hash: AuthHash, group: DhGroup) -> AuthSuites {
    AuthSuites { hashes: vec![hash], groups: vec![group] }
}

/// A suite that costs nothing.
pub(crate) fn plain() -> AuthSuites {
    suites(AuthHash::Sha256, DhGroup::Null)
}

pub(crate) fn entropy(of: &str) -> Entropy {
    let (_, digits) = known::ENTROPY.iter().find(|(name, _)| *name == of).unwrap();
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
    Entropy::of_bytes(std::array::from_fn(byte))
}

/// A host that has begun, and its first message.
pub(crate) fn host(secrets: AuthSecrets, suites: AuthSuites, entropy_of: &str) -> (HostNegotiation, Vec<u8>) {
    HostNegotiation::begin(parties(), secrets, suites, TRANSACTION, entropy(entropy_of))
}

pub(crate) fn controller(secrets: AuthSecrets, suites: AuthSuites) -> ControllerAuthentication {
    ControllerAuthentication::new(parties(), secrets, suites)
}
