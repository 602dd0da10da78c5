//! Fixed structures at the head of a payload, in the host's byte order.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::WireError;

/// The structure that `payload` begins with, and what follows it.
pub(crate) fn take<T: FromBytes>(payload: &[u8]) -> Result<(T, &[u8]), WireError> {
    T::read_from_prefix(payload)
        .map_err(|_| WireError::TooShort { needed_bytes: size_of::<T>(), payload_bytes: payload.len() })
}

/// Appends a structure.
pub(crate) fn put<T: IntoBytes + Immutable>(out: &mut Vec<u8>, value: &T) {
    out.extend_from_slice(value.as_bytes());
}

/// The data behind a structure that announced `count` bytes of it. More is padding.
pub(crate) fn data(rest: &[u8], count: u64) -> Result<&[u8], WireError> {
    let short = || WireError::ShortData { announced: count, bytes: rest.len() };
    rest.get(..usize::try_from(count).map_err(|_| short())?).ok_or_else(short)
}
