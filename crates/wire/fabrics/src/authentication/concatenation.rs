//! Secure channel concatenation (Base 2.1, section 8.3.5.5.8): an authentication that also makes the pre-shared key by which
//! TLS is begun on the connections that follow.

use super::response::Agreed;
use super::{AuthHash, AuthSuites, DhGroup, Parties};
use crate::tls::{PskHash, TlsPsk};

/// What an authentication makes a key for (SC_C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Concatenation {
    /// The first TLS connection of host and controller, requested over an unencrypted one.
    New,
    /// A new TLS key, requested over an existing TLS connection.
    Replacement,
}

impl Concatenation {
    /// Its number in messages; 0 is for none.
    pub const fn id(self) -> u8 {
        match self {
            Self::New => 2,
            Self::Replacement => 3,
        }
    }

    /// The suites of `suites` that can produce a TLS key. TLS has no cipher suite with SHA-512, and without a
    /// Diffie-Hellman group the only secret is the long-lived one. SHA-256 comes first if it is among them: GnuTLS
    /// before 3.8.11, which Linux hosts use, binds every key by it.
    #[must_use]
    pub fn suites(suites: &AuthSuites) -> AuthSuites {
        let mut hashes: Vec<_> =
            suites.hashes.iter().copied().filter(|hash| psk_hash(*hash).is_some()).collect();
        hashes.sort_by_key(|hash| *hash != AuthHash::Sha256);
        let groups = suites.groups.iter().copied().filter(|group| *group != DhGroup::Null).collect();
        AuthSuites { hashes, groups }
    }

    /// The SC_C value of a request; 0 for none.
    pub(super) fn id_of(asked: Option<Self>) -> u8 {
        asked.map_or(0, Self::id)
    }
}

const fn psk_hash(hash: AuthHash) -> Option<PskHash> {
    match hash {
        AuthHash::Sha256 => Some(PskHash::Sha256),
        AuthHash::Sha384 => Some(PskHash::Sha384),
        AuthHash::Sha512 => None,
    }
}

/// The TLS key derived from the exchange's secret and both challenges; `None` if none was requested.
pub(super) fn psk(agreed: &Agreed, parties: &Parties, c1: &[u8], c2: &[u8]) -> Option<TlsPsk> {
    agreed.concatenation?;
    let key = agreed.hash.hmac(&agreed.hash.digest(&agreed.shared), &[c1, c2]);
    Some(TlsPsk::generated(&key, psk_hash(agreed.hash)?, parties))
}
