//! Exec: a program run over the value of a key, as Ceph's KV over RADOS names the command.
//!
//! | field | holds |
//! |---|---|
//! | opcode | 83h: its two low bits say that data goes both ways |
//! | CDW10 | bytes of the request, which the device reads from the buffer |
//! | CDW11 | bits 31:16: most bytes of the output that may stand behind the completion ([inline reads](super::INLINE_RESULT)); the rest is reserved |
//! | CDW12 | most bytes of the output, which the device writes to the buffer |
//! | CDW13 | the operation: which program |
//! | data pointer | one buffer of the larger of both lengths: the request at first, then the output |
//! | DW0 of the completion | length of the output in bytes, also where that is more than CDW12 |
//! | DW1 of the completion | bit 30: the output stands behind the completion |
//!
//! A request is the key's length (two bytes, least significant first), the key, and the input of the program.
//!
//! The command is in no specification. Opcode, fields and order of the buffer are those that the project's users describe; to confirm
//! with a host are the byte order of the key's length, and that CDW10 counts it and the key.

use crate::Command;

/// Bytes of the key's length at the begin of a request.
pub const EXEC_KEY_LEN_BYTES: usize = 2;

/// The fields of an Exec.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExecFields {
    /// Bytes of the request (CDW10).
    pub request_bytes: u32,
    /// Most bytes of the output that the host takes (CDW12).
    pub output_max_bytes: u32,
    /// Which program (CDW13).
    pub operation: u32,
}

impl ExecFields {
    /// The fields of a command.
    #[must_use]
    #[inline]
    pub const fn read_from(command: &Command) -> Self {
        Self { request_bytes: command.cdw10, output_max_bytes: command.cdw12, operation: command.cdw13 }
    }

    /// Writes the fields into a command.
    #[inline]
    pub const fn write_to(self, command: &mut Command) {
        command.cdw10 = self.request_bytes;
        command.cdw12 = self.output_max_bytes;
        command.cdw13 = self.operation;
    }

    /// Bytes of the buffer that the data pointer names.
    #[must_use]
    #[inline]
    pub const fn buffer_bytes(self) -> u32 {
        if self.request_bytes > self.output_max_bytes { self.request_bytes } else { self.output_max_bytes }
    }
}

/// The key and the input of a request; `None` for one that is shorter than its key says.
#[must_use]
pub fn read_exec_request(request: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = request.split_first_chunk::<EXEC_KEY_LEN_BYTES>()?;
    rest.split_at_checked(u16::from_le_bytes(*len).into())
}

/// What stands before the input in a request with this key: the key's length and the key. Its bytes, and how many of them count.
#[must_use]
pub fn exec_request_head(key: &crate::Key) -> ([u8; EXEC_KEY_LEN_BYTES + crate::Key::MAX_BYTES], usize) {
    let mut head = [0; EXEC_KEY_LEN_BYTES + crate::Key::MAX_BYTES];
    let (len, place) = head.split_at_mut(EXEC_KEY_LEN_BYTES);
    len.copy_from_slice(&(key.len() as u16).to_le_bytes());
    place.copy_from_slice(key.padded());
    (head, EXEC_KEY_LEN_BYTES + key.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::vendor::VendorOpcode;
    use crate::{Direction, Key};

    #[test]
    fn exec_fields_stand_in_their_dwords() {
        let mut command = Command::new(0x83, 5, 2);
        let fields = ExecFields { request_bytes: 7, output_max_bytes: 4096, operation: 0xdead_beef };
        fields.write_to(&mut command);
        let bytes = command.to_bytes();
        assert_eq!((bytes[0], &bytes[4..8]), (0x83, &[2, 0, 0, 0][..]));
        assert_eq!(bytes[40..44], [7, 0, 0, 0]);
        assert_eq!(bytes[48..56], [0, 16, 0, 0, 0xef, 0xbe, 0xad, 0xde]);
        assert_eq!((ExecFields::read_from(&command), fields.buffer_bytes()), (fields, 4096));
        assert_eq!(ExecFields { output_max_bytes: 3, ..fields }.buffer_bytes(), 7);
        assert_eq!(Direction::of(VendorOpcode::KV_EXEC.0), Direction::Both);
    }

    #[test]
    fn exec_request_is_a_length_a_key_and_the_input() {
        let (head, bytes) = exec_request_head(&Key::new(b"key").unwrap());
        assert_eq!(head[..bytes], *b"\x03\0key");
        assert_eq!(read_exec_request(b"\x03\0keyinput"), Some((&b"key"[..], &b"input"[..])));
        assert_eq!(read_exec_request(b"\x03\0key"), Some((&b"key"[..], &b""[..])));
        assert_eq!(read_exec_request(b"\0\0input"), Some((&b""[..], &b"input"[..])));
        for short in [&b""[..], b"\x01", b"\x01\0", b"\x03\0ke", b"\xff\xffkey"] {
            assert_eq!(read_exec_request(short), None, "{short:?}");
        }
    }
}
