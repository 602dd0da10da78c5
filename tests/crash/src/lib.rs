//! What the crash tests share: puts that any process can tell from their number.

/// Keys that the writer puts to, over and over.
pub const KEYS: u64 = 500;

/// Key of step `step`. Any few steps in a row go to different keys.
pub fn key_of(step: u64) -> [u8; 8] {
    (step.wrapping_mul(211) % KEYS).to_be_bytes()
}

/// Value of step `step`: mostly short, some of a page and more, each byte from its step and place.
pub fn value_of(step: u64) -> Vec<u8> {
    let mixed = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17;
    let len = match mixed % 16 {
        0 => mixed / 16 % 8192,
        1 => 4096,
        2..=5 => mixed / 16 % 36,
        _ => mixed / 16 % 300,
    };
    let mut value = step.to_le_bytes().to_vec();
    value.extend(
        (8..8 + len).map(|i| (step ^ step >> 8).wrapping_mul(31).wrapping_add(i.wrapping_mul(7)) as u8),
    );
    value.truncate(len as usize);
    value
}
