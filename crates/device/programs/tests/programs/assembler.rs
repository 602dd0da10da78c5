//! eBPF instructions by their fields.

/// One instruction: opcode, destination, source, offset, immediate.
pub const fn slot(opcode: u8, to: u8, source: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let [o0, o1] = offset.to_le_bytes();
    let [i0, i1, i2, i3] = immediate.to_le_bytes();
    [opcode, to | source << 4, o0, o1, i0, i1, i2, i3]
}

/// `to = immediate`, its sign extended.
pub const fn set(to: u8, immediate: i32) -> [u8; 8] {
    slot(0xb7, to, 0, 0, immediate)
}

/// `to = source`.
pub const fn copy(to: u8, source: u8) -> [u8; 8] {
    slot(0xbf, to, source, 0, 0)
}

/// `to = *(u64 *)(base + offset)`.
pub const fn load(to: u8, base: u8, offset: i16) -> [u8; 8] {
    slot(0x79, to, base, offset, 0)
}

/// `exit`.
pub const EXIT: [u8; 8] = slot(0x95, 0, 0, 0, 0);
