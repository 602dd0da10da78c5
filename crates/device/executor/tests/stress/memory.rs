//! Host memory of one life of a queue pair: rings and buffers between guard pages, and what is left of it after that life.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use byway_dma::{BusAddr, DmaMemory};

use crate::host::Host;

/// Bytes of a memory page.
pub const PAGE: usize = 4096;

/// What host memory holds where nothing is to be written.
pub const GUARD: u8 = 0xa5;

/// What memory is filled with that the device has no right to any more.
const DEAD: u8 = 0x5a;

/// Mapped host memory.
#[derive(Debug)]
pub struct Region {
    pub memory: HostMemory,
    is_mapped: AtomicBool,
}

/// Memory and its bus address.
#[derive(Debug)]
pub struct HostMemory {
    memory: Arc<DmaMemory>,
    at: BusAddr,
}

impl Region {
    /// Maps `pages` pages filled with the guard byte.
    pub fn map(host: &Host, pages: usize) -> Self {
        let memory = Arc::new(DmaMemory::new(pages * PAGE).unwrap());
        memory.write_at(0, &vec![GUARD; pages * PAGE]).unwrap();
        let at = host.map(&memory);
        Self { memory: HostMemory { memory, at }, is_mapped: AtomicBool::new(true) }
    }

    /// Unmaps it, once.
    pub fn unmap(&self, host: &Host) {
        if self.is_mapped.swap(false, SeqCst) {
            host.unmap(self.memory.at);
        }
    }

    /// Marks all of it as dead: the device must not write there again.
    pub fn bury(&self) {
        self.memory.fill(0, self.memory.len(), DEAD);
    }

    /// Checks that nothing was written since [`Self::bury`].
    pub fn check_buried(&self) {
        self.memory.check_filled(0, self.memory.len(), DEAD, "memory of an earlier life");
    }
}

impl HostMemory {
    fn len(&self) -> usize {
        self.memory.len()
    }

    /// Bus address of offset `at`.
    pub fn bus(&self, at: usize) -> u64 {
        self.at.0 + at as u64
    }

    /// Bytes from offset `at` on.
    pub fn read(&self, at: usize, len_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; len_bytes];
        self.memory.read_at(at, &mut bytes).unwrap();
        bytes
    }

    /// Stores bytes at offset `at`.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.memory.write_at(at, bytes).unwrap();
    }

    /// The completion queue entry at offset `at`.
    pub fn completion(&self, at: usize) -> [u8; 16] {
        self.memory.load_completion(at).unwrap()
    }

    /// Fills `len_bytes` from offset `at` on.
    pub fn fill(&self, at: usize, len_bytes: usize, byte: u8) {
        self.write(at, &vec![byte; len_bytes]);
    }

    /// Checks that `len_bytes` from offset `at` on are all `byte`.
    pub fn check_filled(&self, at: usize, len_bytes: usize, byte: u8, what: &str) {
        let bytes = self.read(at, len_bytes);
        let written = bytes.iter().position(|found| *found != byte);
        assert!(written.is_none(), "{what} was written at offset {}", at + written.unwrap_or_default());
    }
}
