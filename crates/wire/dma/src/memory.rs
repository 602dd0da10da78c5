//! Host memory that a device may read and write at any time.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::completion::COMPLETION_BYTES;
use byway_spec::base::prp::PAGE_BYTES;
use byway_sys::Mapping;
use byway_sys::racing::{from_shared, to_shared};

use crate::{BusAddr, DmaFault, Why};

/// Page-aligned host memory that a device may access while the host does.
///
/// It hands out no references to its bytes. Offsets are in bytes, and every access is bounds-checked.
///
/// Copies carry no memory order; `load_*` is an Acquire and `store_*` a Release. Bytes copied in before a `store` are
/// visible to a device that sees the stored value, or a later doorbell.
#[derive(Debug)]
pub struct DmaMemory {
    mapping: Mapping,
}

impl DmaMemory {
    /// Zeroed memory of at least `len_bytes`, rounded up to whole pages.
    ///
    /// # Errors
    /// The error of the operating system, or `InvalidInput` for a length that is zero or cannot be rounded up.
    pub fn new(len_bytes: usize) -> io::Result<Self> {
        let len_bytes = len_bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        Mapping::anonymous(len_bytes).map(Self::from_mapping)
    }

    /// Memory that is already mapped: a shared file, or a guest's memory.
    #[must_use]
    pub const fn from_mapping(mapping: Mapping) -> Self {
        Self { mapping }
    }

    /// The mapping itself, for callers that need its address: cache-line write-back, system calls.
    #[must_use]
    pub const fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Length in bytes, never zero.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    pub const fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Copies out of the memory.
    ///
    /// # Errors
    /// Outside the memory.
    #[inline]
    pub fn read_at(&self, at: usize, into: &mut [u8]) -> Result<(), DmaFault> {
        let from = self.check(at, into.len(), 1)?;
        // SAFETY: checked to be inside the mapping, which lives as long as `self`; `into` is another allocation.
        unsafe { from_shared(from, into) };
        Ok(())
    }

    /// Copies into the memory.
    ///
    /// # Errors
    /// Outside the memory.
    #[inline]
    pub fn write_at(&self, at: usize, from: &[u8]) -> Result<(), DmaFault> {
        let to = self.check(at, from.len(), 1)?;
        // SAFETY: checked to be inside the mapping, which lives as long as `self`; `from` is another allocation.
        unsafe { to_shared(to, from) };
        Ok(())
    }

    /// Copies a 64-byte ring slot out.
    ///
    /// # Errors
    /// Outside the memory, or not aligned to 8 bytes.
    #[inline]
    pub fn read_slot64(&self, at: usize) -> Result<[u8; COMMAND_BYTES], DmaFault> {
        let from = self.check(at, COMMAND_BYTES, size_of::<u64>())?;
        let mut slot = [0; COMMAND_BYTES];
        // SAFETY: checked to be inside the mapping and aligned.
        unsafe { load_slot(from, &mut slot) };
        Ok(slot)
    }

    /// Copies a 64-byte ring slot in.
    ///
    /// # Errors
    /// Outside the memory, or not aligned to 8 bytes.
    #[inline]
    pub fn write_slot64(&self, at: usize, slot: &[u8; COMMAND_BYTES]) -> Result<(), DmaFault> {
        let to = self.check(at, COMMAND_BYTES, size_of::<u64>())?;
        // SAFETY: checked to be inside the mapping and aligned.
        unsafe { store_slot(to, slot) };
        Ok(())
    }

    /// Loads an aligned little-endian dword with acquire order.
    ///
    /// # Errors
    /// Outside the memory, or not aligned.
    #[inline]
    pub fn load_u32(&self, at: usize) -> Result<u32, DmaFault> {
        let word = self.check(at, 4, 4)?;
        // SAFETY: checked to be inside the mapping and aligned.
        Ok(unsafe { load_u32(word) })
    }

    /// Stores an aligned little-endian dword with release order.
    ///
    /// # Errors
    /// Outside the memory, or not aligned.
    #[inline]
    pub fn store_u32(&self, at: usize, value: u32) -> Result<(), DmaFault> {
        let word = self.check(at, 4, 4)?;
        // SAFETY: checked to be inside the mapping and aligned.
        unsafe { store_u32(word, value) };
        Ok(())
    }

    /// Loads a completion queue entry: first the dword with the phase tag, with Acquire, so that an entry with a new
    /// phase is complete.
    ///
    /// # Errors
    /// Outside the memory, or not aligned to 16 bytes.
    #[inline]
    pub fn load_completion(&self, at: usize) -> Result<[u8; COMPLETION_BYTES], DmaFault> {
        let entry = self.check(at, COMPLETION_BYTES, COMPLETION_BYTES)?;
        // SAFETY: checked to be inside the mapping and aligned.
        Ok(unsafe { load_completion(entry) })
    }

    /// Stores a completion queue entry: the dword with the phase tag last, with Release.
    ///
    /// # Errors
    /// Outside the memory, or not aligned to 16 bytes.
    #[inline]
    pub fn store_completion(&self, at: usize, entry: &[u8; COMPLETION_BYTES]) -> Result<(), DmaFault> {
        let to = self.check(at, COMPLETION_BYTES, COMPLETION_BYTES)?;
        // SAFETY: checked to be inside the mapping and aligned.
        unsafe { store_completion(to, entry) };
        Ok(())
    }

    #[inline]
    fn check(&self, at: usize, len: usize, align: usize) -> Result<*mut u8, DmaFault> {
        let fault = |why| DmaFault { at: BusAddr(at as u64), len, why };
        if len > self.len() || at > self.len() - len {
            return Err(fault(Why::Outside));
        }
        if !at.is_multiple_of(align) {
            return Err(fault(Why::Misaligned));
        }
        Ok(self.mapping.as_mut_ptr().wrapping_add(at))
    }
}

const SLOT_WORDS: usize = COMMAND_BYTES / size_of::<u64>();

/// Copies by 8-byte words. The host has just written a command field by field, and the device parses it field by
/// field: wider moves would fail store forwarding and stall.
///
/// # Safety
/// `from` is aligned to 8 bytes and 64 bytes are valid for as long as the call.
#[inline(always)]
pub(crate) unsafe fn load_slot(from: *mut u8, into: &mut [u8; COMMAND_BYTES]) {
    let (words, _) = into.as_chunks_mut::<{ size_of::<u64>() }>();
    for (at, word) in words.iter_mut().enumerate() {
        // SAFETY: the caller's promise; every word lies inside the slot.
        let loaded =
            unsafe { AtomicU64::from_ptr(from.add(at * size_of::<u64>()).cast()) }.load(Ordering::Relaxed);
        *word = loaded.to_ne_bytes();
    }
}

/// As [`load_slot`], the other way.
///
/// # Safety
/// As [`load_slot`].
#[inline(always)]
unsafe fn store_slot(to: *mut u8, slot: &[u8; COMMAND_BYTES]) {
    let words: [u64; SLOT_WORDS] = zerocopy::transmute!(*slot);
    for (at, word) in words.into_iter().enumerate() {
        // SAFETY: the caller's promise; every word lies inside the slot.
        unsafe { AtomicU64::from_ptr(to.add(at * size_of::<u64>()).cast()) }.store(word, Ordering::Relaxed);
    }
}

/// # Safety
/// `word` is aligned to 4 bytes and valid for as long as the call.
#[inline]
pub(crate) unsafe fn load_u32(word: *mut u8) -> u32 {
    // SAFETY: the caller's promise; other threads access the word atomically, a device or process from outside the
    // program.
    u32::from_le(unsafe { AtomicU32::from_ptr(word.cast()) }.load(Ordering::Acquire))
}

/// # Safety
/// As [`load_u32`].
#[inline]
pub(crate) unsafe fn store_u32(word: *mut u8, value: u32) {
    // SAFETY: the caller's promise, as in `load_u32`.
    unsafe { AtomicU32::from_ptr(word.cast()) }.store(value.to_le(), Ordering::Release);
}

/// # Safety
/// `entry` is aligned to 16 bytes and 16 bytes are valid for as long as the call.
#[inline]
unsafe fn load_completion(entry: *mut u8) -> [u8; COMPLETION_BYTES] {
    // SAFETY: the caller's promise; 8 and 12 are inside the entry and aligned for their words.
    unsafe {
        let phase = AtomicU32::from_ptr(entry.add(12).cast()).load(Ordering::Acquire);
        let queue = AtomicU32::from_ptr(entry.add(8).cast()).load(Ordering::Relaxed);
        let result = AtomicU64::from_ptr(entry.cast()).load(Ordering::Relaxed);
        join(result, queue, phase)
    }
}

/// # Safety
/// As [`load_completion`].
#[inline]
pub(crate) unsafe fn store_completion(to: *mut u8, entry: &[u8; COMPLETION_BYTES]) {
    let (result, queue, phase) = split(entry);
    // SAFETY: the caller's promise; 8 and 12 are inside the entry and aligned for their words.
    unsafe {
        AtomicU64::from_ptr(to.cast()).store(result, Ordering::Relaxed);
        AtomicU32::from_ptr(to.add(8).cast()).store(queue, Ordering::Relaxed);
        AtomicU32::from_ptr(to.add(12).cast()).store(phase, Ordering::Release);
    }
}

#[inline]
fn join(result: u64, queue: u32, phase: u32) -> [u8; COMPLETION_BYTES] {
    let words =
        u128::from(result.to_le()) | u128::from(queue.to_le()) << 64 | u128::from(phase.to_le()) << 96;
    words.to_le_bytes()
}

#[inline]
fn split(entry: &[u8; COMPLETION_BYTES]) -> (u64, u32, u32) {
    let words = u128::from_le_bytes(*entry);
    ((words as u64).to_le(), ((words >> 64) as u32).to_le(), ((words >> 96) as u32).to_le())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn memory_is_zeroed_whole_pages() {
        let memory = DmaMemory::new(1).unwrap();
        assert_eq!(memory.len(), PAGE_BYTES);
        assert_eq!(memory.read_slot64(PAGE_BYTES - 64).unwrap(), [0; 64]);
        assert!(DmaMemory::new(0).is_err());
        assert!(DmaMemory::new(usize::MAX).is_err());
    }

    #[test]
    fn slot_written_is_read_back_unchanged() {
        let memory = DmaMemory::new(PAGE_BYTES).unwrap();
        let slot = core::array::from_fn(|i| i as u8);
        memory.write_slot64(128, &slot).unwrap();
        assert_eq!(memory.read_slot64(128).unwrap(), slot);
    }

    #[test]
    fn an_access_outside_or_misaligned_is_refused() {
        let memory = DmaMemory::new(PAGE_BYTES).unwrap();
        let why = |result: Result<u32, DmaFault>| result.unwrap_err().why;
        assert_eq!(memory.write_at(PAGE_BYTES - 1, &[0; 2]).unwrap_err().why, Why::Outside);
        assert_eq!(memory.read_at(usize::MAX, &mut [0]).unwrap_err().why, Why::Outside);
        assert_eq!(why(memory.load_u32(PAGE_BYTES)), Why::Outside);
        assert_eq!(why(memory.load_u32(2)), Why::Misaligned);
        assert_eq!(memory.store_completion(8, &[0; 16]).unwrap_err().why, Why::Misaligned);
        assert!(memory.read_at(PAGE_BYTES, &mut []).is_ok());
    }

    #[test]
    fn a_completion_keeps_its_bytes_in_order() {
        let memory = DmaMemory::new(PAGE_BYTES).unwrap();
        let entry = core::array::from_fn(|i| i as u8 + 1);
        memory.store_completion(32, &entry).unwrap();
        let mut bytes = [0; 16];
        memory.read_at(32, &mut bytes).unwrap();
        assert_eq!((bytes, memory.load_completion(32).unwrap()), (entry, entry));
    }

    #[test]
    fn completion_with_a_new_phase_is_complete() {
        const ROUNDS: u32 = if cfg!(miri) { 200 } else { 20_000 };
        let memory = DmaMemory::new(PAGE_BYTES).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    let mut entry = [0; 16];
                    for word in entry.chunks_exact_mut(4) {
                        word.copy_from_slice(&round.to_le_bytes());
                    }
                    memory.store_completion(0, &entry).unwrap();
                }
            });
            let mut last = 0;
            while last < ROUNDS {
                let entry = memory.load_completion(0).unwrap();
                let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
                assert!(word(12) >= last && word(0) >= word(12) && word(8) >= word(12));
                last = word(12);
            }
        });
    }
}
