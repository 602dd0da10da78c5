//! Pre-shared keys and their identities (section 3.6.1.3 and 3.6.1.4).

use core::fmt;
use core::str::FromStr;

use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

use super::TlsKey;
use crate::authentication::{AuthHash, Parties};

/// The text that is digested, after both names.
const SEED: &[u8] = b"NVMe-over-Fabrics";

/// The hash of a pre-shared key, which is that of the cipher suite it is used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PskHash {
    /// SHA-256, with TLS_AES_128_GCM_SHA256.
    Sha256,
    /// SHA-384, with TLS_AES_256_GCM_SHA384.
    Sha384,
}

/// The version of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PskVersion {
    /// The names only: two keys of the same names have the same identity.
    V0,
    /// A digest of the key as well.
    V1,
}

/// How HKDF's labels are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PskDerivation {
    /// As RFC 8446, section 7.1, has HKDF-Expand-Label, and the specification with it.
    #[default]
    Rfc8446,
    /// As libnvme laid them out until the summer of 2025, and lays them out with `--compat`: no lengths before label and context, and
    /// the first length in the order of the processor.
    Libnvme,
}

/// Which of the pre-shared keys that one key makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PskForm {
    /// Of the identity.
    pub version: PskVersion,
    /// Of the keys.
    pub derivation: PskDerivation,
}

/// An unknown form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an identity's version is 0 or 1, or 0-compat or 1-compat for keys as libnvme derived them until 2025"
)]
pub struct PskFormError;

/// A pre-shared key of TLS 1.3 and its identity, which is sent unencrypted. The key is wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPsk {
    identity: String,
    key: Zeroizing<Vec<u8>>,
    hash: PskHash,
    parties: Parties,
    is_generated: bool,
}

impl PskHash {
    /// Bytes of a digest, and of a pre-shared key.
    pub const fn bytes(self) -> usize {
        self.hash().bytes()
    }

    /// Its number in keys and identities.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha384 => 2,
        }
    }

    const fn hash(self) -> AuthHash {
        match self {
            Self::Sha256 => AuthHash::Sha256,
            Self::Sha384 => AuthHash::Sha384,
        }
    }

    /// HKDF-Extract without a salt, then one block of HKDF-Expand, which is as long as the hash.
    fn hkdf(self, secret: &[u8], info: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        let extracted = self.hash().hmac(&[], &[secret]);
        let first_block: &[u8] = &[1];
        let parts: Vec<&[u8]> = info.iter().copied().chain([first_block]).collect();
        self.hash().hmac(&extracted, &parts)
    }

    /// HKDF-Expand-Label of what HKDF-Extract makes of `secret`: as many bytes as the hash has.
    fn derive(self, secret: &[u8], how: PskDerivation, label: &str, context: &[u8]) -> Zeroizing<Vec<u8>> {
        const PREFIX: &[u8] = b"tls13 ";
        let bytes = self.bytes() as u16;
        // Of a context from 256 bytes on, an identity of version 0 with two long names, RFC 8446 has no length: its low byte is written.
        let label_bytes = [(PREFIX.len() + label.len()) as u8];
        let context_bytes = [context.len() as u8];
        match how {
            PskDerivation::Rfc8446 => {
                let length = bytes.to_be_bytes();
                self.hkdf(secret, &[&length, &label_bytes, PREFIX, label.as_bytes(), &context_bytes, context])
            }
            PskDerivation::Libnvme => {
                let length = bytes.to_ne_bytes();
                self.hkdf(secret, &[&length, PREFIX, label.as_bytes(), context])
            }
        }
    }
}

impl PskForm {
    /// Version 1, as the specification has it.
    pub const LATEST: Self = Self { version: PskVersion::V1, derivation: PskDerivation::Rfc8446 };

    /// Version 0, as the specification has it.
    pub const V0: Self = Self { version: PskVersion::V0, derivation: PskDerivation::Rfc8446 };

    /// The forms with different identities. Identities of version 0 do not name the derivation; nor do those of a key
    /// without a hash.
    pub const ALL_DISTINGUISHABLE: [Self; 3] =
        [Self::LATEST, Self::V0, Self { version: PskVersion::V1, derivation: PskDerivation::Libnvme }];
}

impl Default for PskForm {
    fn default() -> Self {
        Self::LATEST
    }
}

impl FromStr for PskForm {
    type Err = PskFormError;

    fn from_str(text: &str) -> Result<Self, PskFormError> {
        let (version, derivation) = match text.strip_suffix("-compat") {
            Some(version) => (version, PskDerivation::Libnvme),
            None => (text, PskDerivation::Rfc8446),
        };
        let version = match version {
            "0" => PskVersion::V0,
            "1" => PskVersion::V1,
            _ => return Err(PskFormError),
        };
        Ok(Self { version, derivation })
    }
}

impl TlsPsk {
    /// The pre-shared key that a host and a subsystem derive from `key`.
    pub fn of(key: &TlsKey, parties: &Parties, form: PskForm) -> Self {
        let (hash, how) = (key.hash(), form.derivation);
        let (host, subsystem) = (parties.host.as_str(), parties.subsystem.as_str());
        let retained = match key.transform() {
            None => Zeroizing::new(key.bytes().to_vec()),
            Some(by) => by.derive(key.bytes(), how, "HostNQN", host.as_bytes()),
        };
        let number = hash.number();
        let (identity, context) = match form.version {
            PskVersion::V0 => {
                let identity = format!("NVMe0R{number:02} {host} {subsystem}");
                (identity.clone(), identity)
            }
            PskVersion::V1 => identified('R', &retained, hash, parties),
        };
        let key = hash.derive(&retained, how, "nvme-tls-psk", context.as_bytes());
        Self { identity, key, hash, parties: parties.clone(), is_generated: false }
    }

    /// What both sides begin TLS with once an authentication has made `secret` for it (Base 2.1, section 8.3.5.5.8).
    pub(crate) fn generated(secret: &[u8], hash: PskHash, parties: &Parties) -> Self {
        let (identity, context) = identified('G', secret, hash, parties);
        let key = hash.derive(secret, PskDerivation::Rfc8446, "nvme-tls-psk", context.as_bytes());
        Self { identity, key, hash, parties: parties.clone(), is_generated: true }
    }

    /// Its identity, sent unencrypted.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The key. The caller must protect it.
    pub fn reveal(&self) -> &[u8] {
        &self.key
    }

    /// Hash of the key.
    pub fn hash(&self) -> PskHash {
        self.hash
    }

    /// Whether an authentication derived it: its holder has been authenticated.
    pub fn is_generated(&self) -> bool {
        self.is_generated
    }

    /// The host and subsystem that share it.
    pub fn parties(&self) -> &Parties {
        &self.parties
    }
}

/// The identity of version 1 of a key that was retained or generated, and what its key is derived with.
fn identified(kind: char, secret: &[u8], hash: PskHash, parties: &Parties) -> (String, String) {
    let (host, subsystem, number) = (parties.host.as_str(), parties.subsystem.as_str(), hash.number());
    let names = [host.as_bytes(), b" ", subsystem.as_bytes(), b" ", SEED];
    let digest = Base64::encode_string(&hash.hash().hmac(secret, &names));
    (format!("NVMe1{kind}{number:02} {host} {subsystem} {digest}"), format!("{number:02} {digest}"))
}

impl fmt::Debug for TlsPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsPsk").field("identity", &self.identity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Nqn;

    fn bytes(digits: &str) -> Vec<u8> {
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    /// The values are those of Linux' own tests of its authentication.
    #[test]
    fn generated_keys_are_those_of_linux() {
        let parties =
            Parties { host: Nqn::new("hostnqn").unwrap(), subsystem: Nqn::new("subsysnqn").unwrap() };
        for (hash, secret, digest, key) in [
            (
                PskHash::Sha256,
                "1733c59fa7f48fcf37f5f26fc4ff0268ad4f78e030f4f3b0bfd1d47e7bb1447a",
                "OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=",
                "3c17da628474a04d2247c4cab47968c915388193f7c071bd9489cc3666cd7cc8",
            ),
            (
                PskHash::Sha384,
                "f14b2dd3234c459694d3bc63f8968bd6b37c2c6de849e22e118749001ce4bbe8640b9e3a748cb11ce4b1d71d359cce39",
                "cffMWk8TSS7HOQebjgYEIkrPrjWPV4JE5cdPB8WhEvY4JBW5YynKyv66XscN4A9n",
                "2774753233537b3fa50eb7d16a8e43457d85f4906c005b2236616c5d80939d0898fff15bb8b77119d2be0aac423e7590",
            ),
        ] {
            let psk = TlsPsk::generated(&bytes(secret), hash, &parties);
            let number = hash.number();
            assert_eq!(psk.identity(), format!("NVMe1G{number:02} hostnqn subsysnqn {digest}"));
            assert_eq!(psk.reveal(), bytes(key));
        }
    }
}
