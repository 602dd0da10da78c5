//! The blocks of the controller for tests, in memory.

use std::ops::Range;
use std::sync::Mutex;

use byway_spec::nvm::{NvmCdw12, NvmOpcode};
use byway_spec::{Command, Status};

pub const LBA_BYTES: usize = 512;
pub const BLOCKS: usize = 4096;

/// The blocks of a namespace.
pub struct Disk(Mutex<Vec<u8>>);

impl Default for Disk {
    fn default() -> Self {
        Self(Mutex::new(vec![0; Self::BYTES]))
    }
}

impl Disk {
    pub const BYTES: usize = LBA_BYTES * BLOCKS;

    /// The bytes that a command reads or writes.
    pub fn range_of(command: &Command) -> Range<usize> {
        if command.opcode() == NvmOpcode::FLUSH.0 {
            return 0..0;
        }
        let blocks = usize::from(NvmCdw12::from_bits(command.cdw12).nlb_z()) + 1;
        let start = command.cdw10_11() as usize * LBA_BYTES;
        start..start + blocks * LBA_BYTES
    }

    pub fn read(&self, range: Range<usize>) -> Vec<u8> {
        self.0.lock().unwrap()[range].to_vec()
    }

    /// Does a Write or a Compare.
    pub fn store(&self, command: &Command, data: &[u8]) -> Status {
        let mut disk = self.0.lock().unwrap();
        let place = &mut disk[Self::range_of(command)];
        assert_eq!(place.len(), data.len());
        match NvmOpcode(command.opcode()) {
            NvmOpcode::COMPARE if place != data => return Status::COMPARE_FAILURE,
            NvmOpcode::COMPARE => {}
            _ => place.copy_from_slice(data),
        }
        Status::SUCCESS
    }
}
