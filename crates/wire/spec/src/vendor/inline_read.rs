//! Inline reads: a short result in the entries of the completion queue behind its completion.
//!
//! | field | where | who writes it |
//! |---|---|---|
//! | most bytes that the host takes so, 0 for none | CDW11 bits 31:16 of Retrieve, List, Query Results and Exec | host |
//! | the result stands behind this completion | DW1 bit 30 ([`INLINE_RESULT`]) | device |
//! | bytes of it | the smaller of DW0 (value length, list length, bytes given, output length) and of what the host takes: CDW12 of Exec, CDW10 of the others ([`result_buffer_bytes`]) | device |
//! | the result, [`RESULT_ENTRY_BYTES`] an entry | the [`result_entries`] entries behind the completion, around the ring's end | device |
//!
//! Byte 14 of each entry holds the phase tag of its slot in bit 0 and zeroes, as a completion in that slot would: so a host that
//! has come to a slot once more never takes what it held before for a completion. Bytes 0 to 13 and 15 hold the result; those of the
//! last entry beyond the result are zeroes.
//!
//! A host frees the entries with the completion, by one head doorbell. It takes an entry once the tag in it is new, as it takes
//! completions: the device may write completion and entries by one burst.
//!
//! What a host that asks owes: it has no more commands outstanding than the queue has entries, less those that it has taken and not
//! freed, or it moves its head over what it has taken before it waits. A command for whose completion no entry is free waits for the
//! head, and results fill entries that a host would otherwise count as free.
//!
//! A device that has no room behind the completion, or a result longer than the host takes so, moves it by the data pointer and leaves
//! DW1 bit 30 clear. So a command always names a buffer for all that its host takes. Exec has its request there too, which the device
//! reads in any case.

use bitfield_struct::bitfield;

use crate::base::completion::COMPLETION_BYTES;
use crate::base::status::Status;
use crate::kv::KvOpcode;
use crate::vendor::VendorOpcode;
use crate::{Command, Completion};

/// Bytes of a result in one entry.
pub const RESULT_ENTRY_BYTES: usize = COMPLETION_BYTES - 1;

/// DW1 of a completion whose result stands behind it.
pub const INLINE_RESULT: u32 = 1 << 30;

/// Byte of an entry that holds the phase tag.
const PHASE_BYTE: usize = 14;

/// CDW11 of Query Results.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ResultsCdw11 {
    /// The query.
    pub id: u16,
    /// Most bytes that may stand behind the completion; 0 for none.
    pub inline_max_bytes: u16,
}

/// Entries that hold a result of so many bytes.
#[inline]
pub const fn result_entries(bytes: usize) -> usize {
    bytes.div_ceil(RESULT_ENTRY_BYTES)
}

/// Whether an opcode may be that of a command whose result can stand behind its completion. In namespaces of blocks 02h is another.
#[inline]
pub const fn has_inline_result(opcode: u8) -> bool {
    opcode == KvOpcode::RETRIEVE.0
        || opcode == KvOpcode::LIST.0
        || opcode == VendorOpcode::QUERY_RESULTS.0
        || opcode == VendorOpcode::KV_EXEC.0
}

/// Most bytes of its result that a command lets stand behind its completion, if it is Retrieve, List, Query Results or Exec.
#[inline]
pub const fn inline_result_max_bytes(command: &Command) -> usize {
    if has_inline_result(command.opcode()) { (command.cdw11 >> 16) as usize } else { 0 }
}

/// Bytes of its result that the host of such a command takes.
#[inline]
pub const fn result_buffer_bytes(command: &Command) -> u32 {
    if command.opcode() == VendorOpcode::KV_EXEC.0 { command.cdw12 } else { command.cdw10 }
}

/// Lets a result of at most so many bytes stand behind the completion of a Retrieve, a List, a Query Results or an Exec.
#[inline]
pub const fn set_inline_result_max_bytes(command: &mut Command, max_bytes: u16) {
    command.cdw11 = command.cdw11 & 0xffff | (max_bytes as u32) << 16;
}

/// An entry with the next bytes of a result, at most [`RESULT_ENTRY_BYTES`].
#[inline]
pub fn result_entry(bytes: &[u8], phase: bool) -> [u8; COMPLETION_BYTES] {
    let mut entry = [0; COMPLETION_BYTES];
    for (to, from) in entry.iter_mut().zip(bytes) {
        *to = *from;
    }
    // What would have the place of the tag goes behind it.
    entry.swap(PHASE_BYTE, PHASE_BYTE + 1);
    entry[PHASE_BYTE] = u8::from(phase);
    entry
}

/// The bytes of a result in an entry; `None` if bits beside the phase tag are set, which only a completion has.
#[inline]
pub fn result_bytes(entry: &[u8; COMPLETION_BYTES]) -> Option<[u8; RESULT_ENTRY_BYTES]> {
    if entry[PHASE_BYTE] & !1 != 0 {
        return None;
    }
    let mut bytes = [0; RESULT_ENTRY_BYTES];
    for (to, from) in bytes.iter_mut().zip(entry) {
        *to = *from;
    }
    bytes[PHASE_BYTE] = entry[PHASE_BYTE + 1];
    Some(bytes)
}

/// Bytes of the result behind a completion of a command that takes [`buffer_bytes`](result_buffer_bytes); `None` if none stands there.
#[inline]
pub fn inline_result_bytes(completion: &Completion, buffer_bytes: u32) -> Option<usize> {
    let stands_there = completion.dw1 & INLINE_RESULT != 0 && completion.status() == Status::SUCCESS;
    stands_there.then(|| completion.dw0.min(buffer_bytes) as usize)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn result_entry_keeps_its_phase_tag_between_the_bytes() {
        let bytes: [u8; 15] = core::array::from_fn(|at| at as u8 + 0x81);
        let entry = result_entry(&bytes, true);
        assert_eq!(entry[..14], bytes[..14]);
        assert_eq!(entry[14..], [1, 0x8f]);
        assert!(Completion::from_bytes(&entry).phase());
        assert!(!Completion::from_bytes(&result_entry(&bytes, false)).phase());
        assert_eq!(result_bytes(&entry).unwrap(), bytes);
    }

    #[test]
    fn last_result_entry_is_padded_with_zeroes() {
        let entry = result_entry(&[7; 3], false);
        assert_eq!(entry, [7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn result_takes_an_entry_for_each_15_bytes() {
        assert_eq!([0, 1, 15, 16, 225].map(result_entries), [0, 1, 1, 2, 15]);
    }

    #[test]
    fn completion_in_place_of_an_entry_is_recognized_by_its_status() {
        let failed = Completion::new(1, 2, 3, Status::INVALID_FIELD).with_phase(true);
        assert_eq!(result_bytes(&failed.to_bytes()), None);
    }

    #[test]
    fn only_retrieve_list_query_results_and_exec_ask() {
        let mut command = Command::new(KvOpcode::RETRIEVE.0, 0, 1);
        (command.cdw10, command.cdw11, command.cdw12) = (40, 16, 50);
        set_inline_result_max_bytes(&mut command, 225);
        for (opcode, buffer_bytes) in [(0x02, 40), (0x06, 40), (0xb6, 40), (0x83, 50)] {
            command.cdw0.set_opcode(opcode);
            assert_eq!((command.cdw11, inline_result_max_bytes(&command)), (225 << 16 | 16, 225));
            assert_eq!(result_buffer_bytes(&command), buffer_bytes, "{opcode:#x}");
        }
        command.cdw0.set_opcode(KvOpcode::STORE.0);
        assert_eq!(inline_result_max_bytes(&command), 0);
    }

    #[test]
    fn result_behind_a_completion_is_as_long_as_the_buffer_at_most() {
        let done = Completion::new(1, 0, 0, Status::SUCCESS);
        let announced = done.with_result(u64::from(INLINE_RESULT) << 32 | 40);
        assert_eq!(inline_result_bytes(&announced, 64), Some(40));
        assert_eq!(inline_result_bytes(&announced, 32), Some(32));
        assert_eq!(inline_result_bytes(&done.with_result(40), 64), None);
    }
}
