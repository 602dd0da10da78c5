//! Header and data digests: CRC-32C, updated as bytes are received or sent.

use byway_spec::tcp::{DIGEST_BYTES, DigestFlags};
use byway_sys::checksum::crc32c_append;

/// Block size of a combined copy and digest: source and copy stay in the first-level cache.
const BLOCK_BYTES: usize = 8 << 10;

/// Which digests a connection has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Each header has one.
    pub header: bool,
    /// Data has one.
    pub data: bool,
}

impl Digests {
    /// Neither.
    pub const NONE: Self = Self { header: false, data: false };
    /// Both.
    pub const BOTH: Self = Self { header: true, data: true };

    pub(crate) const fn from_flags(flags: DigestFlags) -> Self {
        Self { header: flags.header(), data: flags.data() }
    }

    pub(crate) const fn flags(self) -> DigestFlags {
        DigestFlags::new().with_header(self.header).with_data(self.data)
    }

    /// Those that both sides have.
    pub const fn and(self, other: Self) -> Self {
        Self { header: self.header && other.header, data: self.data && other.data }
    }
}

/// A digest of the bytes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u32);

impl Digest {
    /// Of no bytes.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(crc32c_append(0, bytes))
    }

    /// Goes on with `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = crc32c_append(self.0, bytes);
    }

    /// Goes on with `bytes` while it appends them to `out`: memory is read once.
    pub fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.reserve(bytes.len());
        for block in bytes.chunks(BLOCK_BYTES) {
            // Digest first: copying what was just read is faster than reading a fresh copy.
            self.update(block);
            out.extend_from_slice(block);
        }
    }

    /// A known digest, of bytes whose CRC-32C is `crc`.
    pub const fn known(crc: u32) -> Self {
        Self(crc)
    }

    /// The value, as a fatal error's information has it.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The bytes on the wire.
    pub const fn to_bytes(self) -> [u8; DIGEST_BYTES] {
        self.0.to_le_bytes()
    }

    /// A digest that was received.
    pub const fn from_bytes(bytes: [u8; DIGEST_BYTES]) -> Self {
        Self(u32::from_le_bytes(bytes))
    }
}
