//! A command as the kernel takes it: without identifier and data pointer, which are the kernel's to write.

use super::abi::{Passthrough, UringPassthrough};

/// Which queue of the device a command goes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NvmeQueue {
    /// A queue for I/O.
    #[default]
    Io,
    /// The admin queue.
    Admin,
}

/// A command as the kernel takes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NvmeCommand {
    /// Admin or I/O queue.
    pub queue: NvmeQueue,
    /// Opcode. The kernel sends data to the device where its lowest bit is set, and else receives it.
    pub opcode: u8,
    /// Namespace.
    pub nsid: u32,
    /// Command dword 2.
    pub cdw2: u32,
    /// Command dword 3.
    pub cdw3: u32,
    /// Command dwords 10 to 15.
    pub cdw10_15: [u32; 6],
    /// Whether the memory that is held for it stays the host's own and is not passed on.
    pub keeps_data: bool,
    /// After how many milliseconds the kernel gives it up, by the device's Abort and at last by a reset; 0 for the
    /// kernel's own measure.
    pub timeout_ms: u32,
}

/// What the device answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NvmeAnswer {
    /// The completion's status without the phase bit: 0 is success.
    pub status: u16,
    /// The completion's dwords 0 and 1.
    pub result: u64,
}

impl NvmeCommand {
    /// For `ioctl`, with data of `data_len` bytes, or pieces, at `addr`.
    pub(super) fn passthrough(&self, addr: u64, data_len: u32) -> Passthrough {
        Passthrough {
            opcode: self.opcode,
            nsid: self.nsid,
            cdw2: self.cdw2,
            cdw3: self.cdw3,
            addr,
            data_len,
            cdw10_15: self.cdw10_15,
            timeout_ms: self.timeout_ms,
            ..Passthrough::default()
        }
    }

    /// For an io_uring, with data of `data_len` bytes, or pieces, at `addr`.
    pub(crate) fn uring_passthrough(&self, addr: u64, data_len: u32) -> UringPassthrough {
        UringPassthrough {
            opcode: self.opcode,
            nsid: self.nsid,
            cdw2: self.cdw2,
            cdw3: self.cdw3,
            addr,
            data_len,
            cdw10_15: self.cdw10_15,
            timeout_ms: self.timeout_ms,
            ..UringPassthrough::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dword_goes_to_its_place() {
        let command = NvmeCommand {
            queue: NvmeQueue::Io,
            opcode: 0x81,
            nsid: 7,
            cdw2: 2,
            cdw3: 3,
            cdw10_15: [10, 11, 12, 13, 14, 15],
            keeps_data: false,
            timeout_ms: 1500,
        };
        let passed = command.passthrough(0x1000, 512);
        assert_eq!((passed.opcode, passed.nsid, passed.cdw2, passed.cdw3), (0x81, 7, 2, 3));
        assert_eq!((passed.addr, passed.data_len, passed.timeout_ms), (0x1000, 512, 1500));
        assert_eq!((passed.cdw10_15, passed.flags, passed.metadata), ([10, 11, 12, 13, 14, 15], 0, 0));
        let passed = command.uring_passthrough(0x2000, 4);
        assert_eq!((passed.addr, passed.data_len, passed.cdw10_15[5]), (0x2000, 4, 15));
    }
}
