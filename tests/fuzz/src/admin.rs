//! Bytes of a peer at a control socket.

use byway_admin::{Fields, Frame, HEADER_BYTES, REQUEST_BYTES_MAX, Text};

/// Reads `bytes` as frames: each encodes to the bytes that it was read from, and its fields are read as they are written again.
pub fn admin(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let before = rest;
        let Ok(Some(frame)) = Frame::read(&mut rest, REQUEST_BYTES_MAX) else { return };
        let read_bytes = before.len() - rest.len();
        assert_eq!(read_bytes, HEADER_BYTES + frame.text.len());
        assert_eq!(frame.encode().ok().as_deref(), before.get(..read_bytes));
        let (word, mut fields) = Fields::of(&frame.text);
        let fields = fields.rest();
        let again = Text::of(word).with_all(&fields).finish();
        assert_eq!(Fields::of(&again).1.rest(), fields);
    }
}
