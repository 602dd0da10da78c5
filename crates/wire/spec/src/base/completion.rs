//! The completion queue entry (Base 2.1, section 4.2).

use super::status::Status;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a completion queue entry.
pub const COMPLETION_BYTES: usize = 16;

/// A completion queue entry.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Completion {
    /// Command specific result.
    pub dw0: u32,
    /// Second result dword; reserved for most commands.
    pub dw1: u32,
    /// Submission queue head: slots before it are free again.
    pub sqhd: u16,
    /// Identifier of the command's submission queue.
    pub sqid: u16,
    /// Identifier of the command that completed.
    pub cid: u16,
    /// Phase tag in bit 0, status in bits 15:1.
    pub phase_and_status: u16,
}

assert_size! { Completion = COMPLETION_BYTES; }
assert_offset! { Completion { sqhd = 8, cid = 12, phase_and_status = 14, } }

impl Completion {
    /// A completion of command `cid` of queue `sqid`, result zero, phase 0.
    pub const fn new(sqid: u16, sqhd: u16, cid: u16, status: Status) -> Self {
        Self { dw0: 0, dw1: 0, sqhd, sqid, cid, phase_and_status: status.0 << 1 }
    }

    /// The same completion with this 64-bit result in DW0 (low) and DW1.
    #[must_use]
    pub const fn with_result(mut self, result: u64) -> Self {
        self.dw0 = result as u32;
        self.dw1 = (result >> 32) as u32;
        self
    }

    /// The same completion with this phase tag.
    #[must_use]
    pub const fn with_phase(mut self, phase: bool) -> Self {
        self.phase_and_status = self.phase_and_status & !1 | phase as u16;
        self
    }

    /// Reads the 16 bytes of a ring slot.
    #[inline]
    pub fn from_bytes(bytes: &[u8; COMPLETION_BYTES]) -> Self {
        zerocopy::transmute!(*bytes)
    }

    /// The 16 bytes of a ring slot.
    #[inline]
    pub fn to_bytes(&self) -> [u8; COMPLETION_BYTES] {
        zerocopy::transmute!(*self)
    }

    /// Status without the phase tag.
    #[inline]
    pub const fn status(&self) -> Status {
        Status(self.phase_and_status >> 1)
    }

    /// Phase tag: flips at every pass of the ring.
    #[inline]
    pub const fn phase(&self) -> bool {
        self.phase_and_status & 1 != 0
    }

    /// DW0 and DW1 as one value.
    #[inline]
    pub const fn result(&self) -> u64 {
        self.dw0 as u64 | (self.dw1 as u64) << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_and_status_share_a_halfword_without_touching() {
        let done = Completion::new(3, 9, 0xabcd, Status::INVALID_FIELD.with_dnr()).with_phase(true);
        assert!(done.phase());
        assert_eq!(done.status(), Status::INVALID_FIELD.with_dnr());
        assert_eq!(done.to_bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 3, 0, 0xcd, 0xab, 0x05, 0x80]);
        assert_eq!(Completion::from_bytes(&done.to_bytes()), done);
        assert!(!done.with_phase(false).phase());
    }
}
