//! Zeroes to be written to files.

use std::sync::LazyLock;

/// Length of [`zeroes`].
pub const ZEROES_BYTES: usize = 256 << 10;

/// [`ZEROES_BYTES`] zeroes, allocated at first use: a constant would be as long in each executable.
#[must_use]
pub fn zeroes() -> &'static [u8] {
    static ZEROES: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; ZEROES_BYTES].into());
    &ZEROES
}
