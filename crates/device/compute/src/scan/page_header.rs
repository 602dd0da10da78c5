//! The size that a page says it has without compression, read before the Parquet library makes room for it.
//!
//! A page's header is a struct of Thrift's compact protocol. Its first three fields are 32-bit integers: type, size without
//! compression, size in the file (Parquet format, `PageHeader`).

/// Type of a 32-bit integer, and the distance 1 to the field before it.
const NEXT_FIELD_I32: u8 = 0x15;

/// Size of the page without compression in bytes; `None` if `head` begins no page.
pub(super) fn uncompressed_bytes(head: &[u8]) -> Option<usize> {
    let (_type, rest) = integer(head)?;
    let (uncompressed, rest) = integer(rest)?;
    integer(rest)?;
    usize::try_from(uncompressed).ok()
}

/// The next field, if it is an integer, and what stands behind it.
fn integer(head: &[u8]) -> Option<(i32, &[u8])> {
    let (&field, mut rest) = head.split_first()?;
    if field != NEXT_FIELD_I32 {
        return None;
    }
    let mut value = 0_u32;
    for shift in (0..35).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            let zigzag = (value >> 1) as i32 ^ -((value & 1) as i32);
            return Some((zigzag, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_with_three_integers_gives_the_size_without_compression() {
        assert_eq!(uncompressed_bytes(&[0x15, 0x04, 0x15, 0x80, 0x80, 0x01, 0x15, 0x10]), Some(8192));
    }

    #[test]
    fn header_that_is_cut_negative_or_of_other_fields_gives_no_size() {
        assert_eq!(uncompressed_bytes(&[]), None);
        assert_eq!(uncompressed_bytes(&[0x15, 0x04, 0x15, 0x80]), None);
        assert_eq!(uncompressed_bytes(&[0x15, 0x04, 0x15, 0x01, 0x15, 0x10]), None);
        assert_eq!(uncompressed_bytes(&[0x16, 0x04, 0x15, 0x02, 0x15, 0x10]), None);
        assert_eq!(uncompressed_bytes(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]), None);
    }
}
