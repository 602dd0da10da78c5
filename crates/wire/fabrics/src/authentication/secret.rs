//! Secrets as administrators write them: `DHHC-1:01:…:` (Base 2.1, section 8.3.5.5.7).

use core::fmt;
use core::str::FromStr;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::AuthHash;
use crate::Nqn;
use crate::checked::{self, Unreadable};

const PREFIX: &str = "DHHC-1:";

/// Behind a name, it makes the key of a secret.
const LABEL: &[u8] = b"NVMe-over-Fabrics";

/// Lengths that secrets have.
const LENGTHS_BYTES: [usize; 3] = [32, 48, 64];

/// A secret of a host or of a controller. It is not shown by `Debug`, and wiped when it is dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct DhchapSecret {
    bytes: Vec<u8>,
    #[zeroize(skip)]
    transform: Option<AuthHash>,
}

/// How a key is made of a secret: by this hash and its owner's name, or as it is.
pub type SecretHash = Option<AuthHash>;

/// Why a text is no secret. Nothing of it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It does not have the form.
    #[error("a secret is written DHHC-1:hh:base64:, hh being 00, 01, 02 or 03")]
    Form,
    /// The hash is not known.
    #[error("the hash of a secret is 00 (none), 01 (SHA-256), 02 (SHA-384) or 03 (SHA-512)")]
    Hash,
    /// The text behind the hash is not base64.
    #[error("the secret is not base64")]
    Base64,
    /// The secret's length does not fit its hash.
    #[error("a secret has 32, 48 or 64 bytes and a checksum, as many as its hash where it has one")]
    Length,
    /// The checksum is wrong: it was copied wrongly.
    #[error("the checksum of the secret is wrong")]
    Checksum,
    /// There is nothing to make one of.
    #[error("the system has no random bytes")]
    NoEntropy,
}

impl DhchapSecret {
    /// A new secret: as long as its hash makes digests; 32 bytes without one.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn generate(transform: SecretHash) -> Result<Self, SecretError> {
        let mut bytes = vec![0; transform.map_or(32, AuthHash::bytes)];
        getrandom::fill(&mut bytes).map_err(|_| SecretError::NoEntropy)?;
        Ok(Self { bytes, transform })
    }

    /// The secret as text. The caller must protect it.
    pub fn reveal(&self) -> String {
        let transform = self.transform.map_or(0, |hash| hash.id().0);
        format!("{PREFIX}{transform:02x}:{}:", *checked::encode(&self.bytes))
    }

    /// The key with which its owner answers.
    pub(super) fn key(&self, owner: &Nqn) -> Zeroizing<Vec<u8>> {
        match self.transform {
            None => Zeroizing::new(self.bytes.clone()),
            Some(hash) => hash.hmac(&self.bytes, &[owner.as_str().as_bytes(), LABEL]),
        }
    }
}

impl From<Unreadable> for SecretError {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Base64 => Self::Base64,
            Unreadable::Length => Self::Length,
            Unreadable::Checksum => Self::Checksum,
        }
    }
}

impl FromStr for DhchapSecret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let rest = text.strip_prefix(PREFIX).ok_or(SecretError::Form)?;
        let (transform, rest) = rest.split_once(':').ok_or(SecretError::Form)?;
        let transform = match transform {
            "00" => None,
            "01" => Some(AuthHash::Sha256),
            "02" => Some(AuthHash::Sha384),
            "03" => Some(AuthHash::Sha512),
            _ => return Err(SecretError::Hash),
        };
        let text = rest.strip_suffix(':').ok_or(SecretError::Form)?;
        let mut bytes = checked::decode(text, &LENGTHS_BYTES)?;
        if transform.is_some_and(|hash| hash.bytes() != bytes.len()) {
            return Err(SecretError::Length);
        }
        Ok(Self { bytes: std::mem::take(&mut *bytes), transform })
    }
}

impl fmt::Debug for DhchapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DhchapSecret(..)")
    }
}
