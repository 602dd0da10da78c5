//! Configured keys as administrators write them: `NVMeTLSkey-1:01:…:` (section 3.6.1.5).

use core::fmt;
use core::str::FromStr;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::PskHash;
use crate::checked::{self, Unreadable};

const PREFIX: &str = "NVMeTLSkey-1:";

/// Lengths that keys have.
const LENGTHS_BYTES: [usize; 2] = [32, 48];

/// A TLS key configured on a host and a subsystem. `Debug` does not show it, and it is wiped when dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct TlsKey {
    bytes: Vec<u8>,
    #[zeroize(skip)]
    transform: Option<PskHash>,
}

/// Why a text is no key. Nothing of it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsKeyError {
    /// It does not have the form.
    #[error("a TLS key is written NVMeTLSkey-1:hh:base64:, hh being 00, 01 or 02")]
    Form,
    /// The hash is not known.
    #[error("the hash of a TLS key is 00 (none), 01 (SHA-256) or 02 (SHA-384)")]
    Hash,
    /// The text behind the hash is not base64.
    #[error("the TLS key is not base64")]
    Base64,
    /// The key's length does not fit its hash.
    #[error("a TLS key has 32 or 48 bytes and a checksum, as many as its hash where it has one")]
    Length,
    /// The checksum is wrong: it was copied wrongly.
    #[error("the checksum of the TLS key is wrong")]
    Checksum,
    /// There is nothing to make one of.
    #[error("the system has no random bytes")]
    NoEntropy,
}

impl TlsKey {
    /// A new key, as long as its hash makes digests; 32 bytes without one.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn generate(transform: Option<PskHash>) -> Result<Self, TlsKeyError> {
        let mut bytes = vec![0; transform.map_or(32, PskHash::bytes)];
        getrandom::fill(&mut bytes).map_err(|_| TlsKeyError::NoEntropy)?;
        Ok(Self { bytes, transform })
    }

    /// The key as text. The caller must protect it.
    pub fn reveal(&self) -> String {
        let transform = self.transform.map_or(0, PskHash::number);
        format!("{PREFIX}{transform:02}:{}:", *checked::encode(&self.bytes))
    }

    /// The hash of the pre-shared keys that are made of it, and so of the cipher suite.
    pub fn hash(&self) -> PskHash {
        let by_length = if self.bytes.len() == 48 { PskHash::Sha384 } else { PskHash::Sha256 };
        self.transform.unwrap_or(by_length)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How the retained key is made of it; as it is with none.
    pub(super) fn transform(&self) -> Option<PskHash> {
        self.transform
    }
}

impl From<Unreadable> for TlsKeyError {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Base64 => Self::Base64,
            Unreadable::Length => Self::Length,
            Unreadable::Checksum => Self::Checksum,
        }
    }
}

impl FromStr for TlsKey {
    type Err = TlsKeyError;

    fn from_str(text: &str) -> Result<Self, TlsKeyError> {
        let rest = text.strip_prefix(PREFIX).ok_or(TlsKeyError::Form)?;
        let (transform, rest) = rest.split_once(':').ok_or(TlsKeyError::Form)?;
        let transform = match transform {
            "00" => None,
            "01" => Some(PskHash::Sha256),
            "02" => Some(PskHash::Sha384),
            _ => return Err(TlsKeyError::Hash),
        };
        let text = rest.strip_suffix(':').ok_or(TlsKeyError::Form)?;
        let mut bytes = checked::decode(text, &LENGTHS_BYTES)?;
        if transform.is_some_and(|hash| hash.bytes() != bytes.len()) {
            return Err(TlsKeyError::Length);
        }
        Ok(Self { bytes: std::mem::take(&mut *bytes), transform })
    }
}

impl fmt::Debug for TlsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsKey(..)")
    }
}
