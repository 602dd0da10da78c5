//! Identities of pre-shared keys that a ClientHello names, and what binds each to it (RFC 8446, section 4.2.11).

/// The extension's number.
pub const EXTENSION: u32 = 41;

/// Bytes of the age behind each identity.
const AGE_BYTES: usize = 4;

/// The identities of the extension `pre_shared_key` as a client sends it, in order; none behind one that is cut.
pub fn identities(extension: &[u8]) -> impl Iterator<Item = &[u8]> {
    let list = prefixed(extension).map_or(&[][..], |(list, _)| list);
    let mut left = list;
    std::iter::from_fn(move || {
        let (identity, behind) = prefixed(left)?;
        left = behind.get(AGE_BYTES..)?;
        Some(identity)
    })
}

/// How long the binder of the identity at `place` is: as long as digests of the hash that it was made by.
pub fn binder_bytes(extension: &[u8], place: usize) -> Option<usize> {
    let (_, behind) = prefixed(extension)?;
    let (mut left, _) = prefixed(behind)?;
    for _ in 0..place {
        left = left.get(1 + usize::from(*left.first()?)..)?;
    }
    left.first().map(|bytes| usize::from(*bytes))
}

/// Bytes behind their length in 16 bits, and what follows.
fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(extension: &[u8]) -> Vec<&[u8]> {
        identities(extension).collect()
    }

    #[test]
    fn identities_are_listed_in_order_without_binders() {
        let extension = [0, 16, 0, 3, b'o', b'n', b'e', 0, 0, 0, 0, 0, 1, b'2', 9, 9, 9, 9, 0, 1, 0];
        assert_eq!(all(&extension), [&b"one"[..], b"2"]);
    }

    #[test]
    fn binders_are_measured_each_at_its_place() {
        let extension = [0, 7, 0, 1, b'a', 0, 0, 0, 0, 0, 5, 2, 7, 7, 1, 7];
        assert_eq!([0, 1, 2].map(|place| binder_bytes(&extension, place)), [Some(2), Some(1), None]);
        for cut in 0..extension.len() {
            assert_eq!(binder_bytes(&extension[..cut], 0), None);
        }
        assert_eq!(binder_bytes(&[0, 0, 0, 1, 9], 1), None);
    }

    #[test]
    fn truncated_hello_yields_only_complete_identities() {
        let extension = [0, 16, 0, 3, b'o', b'n', b'e', 0, 0, 0, 0, 0, 1, b'2', 9, 9, 9, 9];
        for cut in 0..extension.len() {
            assert_eq!(all(&extension[..cut]), [&[] as &[u8]; 0]);
        }
        assert_eq!(all(&[0, 5, 0, 9, 1, 2, 3]), [&[] as &[u8]; 0]);
        assert_eq!(all(&[0, 6, 0, 1, 7, 0, 0, 0]), [&[] as &[u8]; 0]);
        assert_eq!(all(&[0, 6, 0, 0, 0, 0, 0, 0]), [&b""[..]]);
    }
}
