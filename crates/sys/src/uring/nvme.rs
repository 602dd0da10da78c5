//! NVMe commands passed through by a ring: entries of twice the size, which a command fits, and completions with room for
//! the device's own result.

use io_uring::cqueue::Entry32;
use io_uring::squeue::{Entry128, Flags};
use io_uring::{opcode, types};

use super::operation::{Asked, RingFile};
use crate::inflight::Extent;
use crate::nvme::{NvmeCommand, NvmeQueue, UringPassthrough, uring};

/// Bytes of a command in an entry.
const COMMAND_BYTES: usize = 80;

impl Asked for NvmeCommand {
    type Entry = Entry128;
    type Completion = Entry32;

    const MAY_BE_READ_AGAIN: bool = true;

    /// A device does a command whole or not.
    #[inline]
    fn transfers(self) -> bool {
        false
    }

    #[inline]
    fn can_be_polled(self) -> bool {
        self.queue == NvmeQueue::Io
    }

    #[inline]
    fn entry(self, file: RingFile, memory: Extent, _: usize, buffer: Option<u16>) -> Entry128 {
        let (passed, number) = match (memory, self.queue) {
            (_, queue) if self.keeps_data => (self.uring_passthrough(0, 0), number(queue, false)),
            (Extent::Piece(_, 0), queue) => (self.uring_passthrough(0, 0), number(queue, false)),
            (Extent::Piece(start, len), queue) => {
                (self.uring_passthrough(start.as_ptr().addr() as u64, len), number(queue, false))
            }
            (Extent::Pieces(first, count), queue) => {
                (self.uring_passthrough(first.as_ptr().addr() as u64, count), number(queue, true))
            }
        };
        let command = bytes_of(&passed);
        let fixed = buffer.filter(|_| passed.data_len > 0 && matches!(memory, Extent::Piece(..)));
        if file.registered {
            let fd = types::Fixed(file.number.cast_unsigned());
            opcode::UringCmd80::new(fd, number).cmd(command).buf_index(fixed).build()
        } else {
            let fd = types::Fd(file.number);
            opcode::UringCmd80::new(fd, number).cmd(command).buf_index(fixed).build()
        }
    }

    #[inline]
    fn linked(entry: Entry128) -> Entry128 {
        entry.flags(Flags::IO_LINK)
    }

    #[inline]
    fn answer(completion: &Entry32) -> u64 {
        completion.big_cqe()[0]
    }

    /// What the driver took back from a device may have been done.
    fn is_undone_by(errno: i32) -> bool {
        matches!(errno, libc::EAGAIN | libc::ECANCELED)
    }
}

fn number(queue: NvmeQueue, vectored: bool) -> u32 {
    match (queue, vectored) {
        (NvmeQueue::Io, false) => uring::IO,
        (NvmeQueue::Io, true) => uring::IO_VECTORED,
        (NvmeQueue::Admin, false) => uring::ADMIN,
        (NvmeQueue::Admin, true) => uring::ADMIN_VECTORED,
    }
}

/// The structure as laid out in an entry.
fn bytes_of(passed: &UringPassthrough) -> [u8; COMMAND_BYTES] {
    let mut bytes = [0; COMMAND_BYTES];
    // SAFETY: a structure of plain numbers without padding, as its size says, and room for more than it.
    unsafe { bytes.as_mut_ptr().cast::<UringPassthrough>().write_unaligned(*passed) };
    bytes
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use super::*;

    const FILE: RingFile = RingFile { number: 0, registered: true };

    const COMMAND: NvmeCommand = NvmeCommand {
        queue: NvmeQueue::Io,
        opcode: 0x02,
        nsid: 1,
        cdw2: 0x2222_2222,
        cdw3: 0,
        cdw10_15: [0x1010_1010, 0, 7, 0, 0, 0x1515_1515],
        keeps_data: false,
        timeout_ms: 3000,
    };

    /// The bytes of the command's entry.
    fn entry(memory: Extent, buffer: Option<u16>) -> Vec<u8> {
        entry_of(COMMAND, memory, buffer)
    }

    fn entry_of(command: NvmeCommand, memory: Extent, buffer: Option<u16>) -> Vec<u8> {
        let entry = command.entry(FILE, memory, 0, buffer);
        // SAFETY: an entry of 128 bytes, all of them written.
        unsafe { std::slice::from_raw_parts((&raw const entry).cast::<u8>(), 128) }.to_vec()
    }

    fn word(entry: &[u8], at: usize) -> u32 {
        entry.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    #[test]
    fn a_command_stands_in_the_second_half_of_an_entry() {
        let memory = Extent::Piece(NonNull::<u8>::dangling(), 4096);
        let entry = entry(memory, None);
        assert_eq!(word(&entry, 8), uring::IO, "cmd_op");
        assert_eq!((entry[48], word(&entry, 52), word(&entry, 56)), (0x02, 1, 0x2222_2222));
        assert_eq!((word(&entry, 48 + 24), word(&entry, 48 + 36)), (1, 4096), "address and length");
        assert_eq!((word(&entry, 48 + 40), word(&entry, 48 + 60)), (0x1010_1010, 0x1515_1515));
        assert_eq!(word(&entry, 48 + 64), 3000, "milliseconds");
    }

    #[test]
    fn several_pieces_are_another_command_and_buffers_that_are_known_a_flag() {
        let several = entry(Extent::Pieces(NonNull::dangling(), 3), None);
        assert_eq!((word(&several, 8), word(&several, 48 + 36)), (uring::IO_VECTORED, 3));
        let known = entry(Extent::Piece(NonNull::<u8>::dangling(), 512), Some(9));
        assert_eq!((word(&known, 28), known[40]), (1, 9), "IORING_URING_CMD_FIXED, buf_index");
        let nothing = entry(Extent::Piece(NonNull::<u8>::dangling(), 0), Some(9));
        assert_eq!((word(&nothing, 28), word(&nothing, 48 + 24)), (0, 0));
    }

    #[test]
    fn memory_that_a_command_keeps_is_not_named_however_it_stands() {
        let command = NvmeCommand { keeps_data: true, ..COMMAND };
        for memory in [Extent::Piece(NonNull::<u8>::dangling(), 4096), Extent::Pieces(NonNull::dangling(), 3)]
        {
            let entry = entry_of(command, memory, Some(9));
            assert_eq!((word(&entry, 8), word(&entry, 28)), (uring::IO, 0));
            assert_eq!(entry[48 + 24..48 + 40], [0; 16], "address, metadata's length, length");
        }
    }
}
