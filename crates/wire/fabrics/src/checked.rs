//! Secrets as text: base64 of the secret with its CRC-32 behind it, as DH-HMAC-CHAP and TLS both have them.

use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

/// Bytes of the CRC-32 behind a secret.
const CHECK_BYTES: usize = 4;

/// Why a text is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is no base64.
    Base64,
    /// The secret has none of the lengths that there are.
    Length,
    /// The checksum is wrong.
    Checksum,
}

/// The text of a secret.
pub(crate) fn encode(secret: &[u8]) -> Zeroizing<String> {
    let checked = Zeroizing::new([secret, &check(secret)].concat());
    Zeroizing::new(Base64::encode_string(&checked))
}

/// The secret of a text, which has one of these lengths in bytes.
pub(crate) fn decode(text: &str, lengths: &[usize]) -> Result<Zeroizing<Vec<u8>>, Unreadable> {
    let mut bytes = Zeroizing::new(Base64::decode_vec(text).map_err(|_| Unreadable::Base64)?);
    let length = bytes.len().checked_sub(CHECK_BYTES).filter(|length| lengths.contains(length));
    let found = bytes.split_off(length.ok_or(Unreadable::Length)?);
    if found != check(&bytes) {
        return Err(Unreadable::Checksum);
    }
    Ok(bytes)
}

fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    crc32fast::hash(bytes).to_le_bytes()
}
