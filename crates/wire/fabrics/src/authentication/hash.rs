//! The hashes, and HMAC with each.

use core::fmt;
use core::str::FromStr;

use byway_spec::authentication::HashId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

/// A hash that challenges are answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthHash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// A text names no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash is sha256, sha384 or sha512")]
pub struct HashNameError;

/// Runs `$made` with `$of` as the type of a hash.
macro_rules! with_hash {
    ($hash:expr, $of:ident => $made:expr) => {
        match $hash {
            AuthHash::Sha256 => {
                type $of = Sha256;
                $made
            }
            AuthHash::Sha384 => {
                type $of = Sha384;
                $made
            }
            AuthHash::Sha512 => {
                type $of = Sha512;
                $made
            }
        }
    };
}

impl AuthHash {
    /// Every hash.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// That of an identifier, if it is known.
    pub fn of(id: HashId) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// Hash identifier.
    pub const fn id(self) -> HashId {
        match self {
            Self::Sha256 => HashId::SHA256,
            Self::Sha384 => HashId::SHA384,
            Self::Sha512 => HashId::SHA512,
        }
    }

    /// Bytes of a digest, of a challenge and of a response.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Its name, as commands take it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// The digest of `data`.
    pub(super) fn digest(self, data: &[u8]) -> Zeroizing<Vec<u8>> {
        with_hash!(self, H => Zeroizing::new(H::digest(data).to_vec()))
    }

    /// The HMAC of `parts`, one behind the other.
    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        with_hash!(self, H => Zeroizing::new(keyed::<Hmac<H>>(key, parts).finalize().into_bytes().to_vec()))
    }

    /// Whether `found` is that HMAC; compares in constant time.
    pub(super) fn verify(self, key: &[u8], parts: &[&[u8]], found: &[u8]) -> bool {
        with_hash!(self, H => keyed::<Hmac<H>>(key, parts).verify_slice(found).is_ok())
    }
}

fn keyed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    // HMAC takes keys of any length.
    let mut mac = <M as KeyInit>::new_from_slice(key).unwrap_or_else(|_| M::new(&Default::default()));
    parts.iter().for_each(|part| mac.update(part));
    mac
}

impl fmt::Display for AuthHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AuthHash {
    type Err = HashNameError;

    fn from_str(name: &str) -> Result<Self, HashNameError> {
        Self::ALL.into_iter().find(|hash| hash.name() == name).ok_or(HashNameError)
    }
}
