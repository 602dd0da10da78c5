//! Random bytes of one authentication.

use core::fmt;

use zeroize::Zeroize;

/// Bytes of the longest challenge.
const CHALLENGE_BYTES: usize = 64;
/// Bytes of the longest secret exponent.
const EXPONENT_BYTES: usize = 64;
const BYTES: usize = CHALLENGE_BYTES + EXPONENT_BYTES + 4;

/// Random bytes of one authentication: a challenge, a secret exponent, a sequence number. Never reuse them.
pub struct Entropy([u8; BYTES]);

impl Entropy {
    /// From the system's generator.
    ///
    /// # Errors
    /// If the system has none.
    pub fn of_system() -> std::io::Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(std::io::Error::from)?;
        Ok(Self(bytes))
    }

    /// From given bytes, for reproducible tests.
    pub fn of_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// A challenge of `bytes` bytes, 64 at most.
    pub(super) fn challenge(&self, bytes: usize) -> &[u8] {
        self.0.get(..bytes.min(CHALLENGE_BYTES)).unwrap_or_default()
    }

    /// A secret exponent of `bytes` bytes, 64 at most.
    pub(super) fn exponent(&self, bytes: usize) -> &[u8] {
        let end = CHALLENGE_BYTES + bytes.min(EXPONENT_BYTES);
        self.0.get(CHALLENGE_BYTES..end).unwrap_or_default()
    }

    /// A sequence number, which is not 0.
    pub(super) fn sequence(&self) -> u32 {
        let bytes = self.0.last_chunk::<4>().copied().unwrap_or_default();
        u32::from_le_bytes(bytes).max(1)
    }
}

impl Drop for Entropy {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy(..)")
    }
}
