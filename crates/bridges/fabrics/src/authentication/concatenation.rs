//! Secure channel concatenation (Base 2.1, section 8.3.5.5.8): an authentication that also makes the pre-shared key by which
//! TLS is begun on the connections that follow.

use super::response::Agreed;
use super::{AuthHash, AuthSuites, DhGroup, Parties};
use crate::tls::{PskHash, TlsPsk};

/// What an authentication makes a key for (SC_C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Concatenation {
    /// The first TLS between the two: asked for in the clear.
    New,
    /// TLS in place of the one that it is asked for over.
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

    /// Those of `suites` that a key can be made with: TLS has no cipher suite with SHA-512, and without a group there is no secret
    /// but the one that many connections share. SHA-256 comes first where it is among them: GnuTLS before 3.8.11, by which Linux
    /// hosts speak TLS, binds every key by it.
    #[must_use]
    pub fn suites(suites: &AuthSuites) -> AuthSuites {
        let mut hashes: Vec<_> =
            suites.hashes.iter().copied().filter(|hash| psk_hash(*hash).is_some()).collect();
        hashes.sort_by_key(|hash| *hash != AuthHash::Sha256);
        let groups = suites.groups.iter().copied().filter(|group| *group != DhGroup::Null).collect();
        AuthSuites { hashes, groups }
    }

    /// The number in messages of what is asked for, if anything is.
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

/// The key that both sides make of the secret of the exchange and both challenges; none where none was asked for.
pub(super) fn psk(agreed: &Agreed, parties: &Parties, c1: &[u8], c2: &[u8]) -> Option<TlsPsk> {
    agreed.concatenation?;
    let key = agreed.hash.hmac(&agreed.hash.digest(&agreed.shared), &[c1, c2]);
    Some(TlsPsk::generated(&key, psk_hash(agreed.hash)?, parties))
}
