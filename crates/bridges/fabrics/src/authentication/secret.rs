//! Secrets as administrators write them: `DHHC-1:01:…:` (Base 2.1, section 8.3.5.5.7).

use core::fmt;
use core::str::FromStr;

use base64ct::{Base64, Encoding};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::AuthHash;
use crate::Nqn;

const PREFIX: &str = "DHHC-1:";

/// Behind a name, it makes the key of a secret.
const LABEL: &[u8] = b"NVMe-over-Fabrics";

/// Bytes of the CRC-32 behind a secret.
const CHECK_BYTES: usize = 4;

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
    /// What stands behind the hash is no base64.
    #[error("the secret is not base64")]
    Base64,
    /// The secret has another length than its hash asks for.
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

    /// The text, which is to be kept as what it is.
    pub fn reveal(&self) -> String {
        let checked = Zeroizing::new([self.bytes.as_slice(), &check(&self.bytes)].concat());
        let transform = self.transform.map_or(0, |hash| hash.id().0);
        format!("{PREFIX}{transform:02x}:{}:", Base64::encode_string(&checked))
    }

    /// The key with which its owner answers.
    pub(super) fn key(&self, owner: &Nqn) -> Zeroizing<Vec<u8>> {
        match self.transform {
            None => Zeroizing::new(self.bytes.clone()),
            Some(hash) => hash.hmac(&self.bytes, &[owner.as_str().as_bytes(), LABEL]),
        }
    }
}

fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    crc32fast::hash(bytes).to_le_bytes()
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
        let mut bytes = Zeroizing::new(Base64::decode_vec(text).map_err(|_| SecretError::Base64)?);
        let secret_bytes = bytes.len().checked_sub(CHECK_BYTES).ok_or(SecretError::Length)?;
        if !matches!(secret_bytes, 32 | 48 | 64) || transform.is_some_and(|hash| hash.bytes() != secret_bytes)
        {
            return Err(SecretError::Length);
        }
        let found = bytes.split_off(secret_bytes);
        if found != check(&bytes) {
            return Err(SecretError::Checksum);
        }
        Ok(Self { bytes: std::mem::take(&mut *bytes), transform })
    }
}

impl fmt::Debug for DhchapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DhchapSecret(..)")
    }
}
