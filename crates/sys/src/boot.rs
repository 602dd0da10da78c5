//! Which boot of the kernel this is: whether memory shared with a file can have survived since someone wrote it down.

/// Identifier of the running kernel's boot; `None` where the system does not report it.
#[must_use]
pub fn boot_id() -> Option<[u8; 16]> {
    parse(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
}

/// Reads a UUID as the kernel writes it.
fn parse(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| char::from(byte).to_digit(16)).map(|digit| digit as u8).collect();
    let mut id = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_boot_has_one_identifier() {
        assert_eq!(boot_id(), boot_id());
    }

    #[test]
    fn only_an_identifier_is_read_as_one() {
        let read = parse("0123abcd-0000-0000-0000-0000000000ff\n");
        assert_eq!(read, Some([1, 0x23, 0xab, 0xcd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff]));
        assert_eq!(parse("0123"), None);
    }
}
