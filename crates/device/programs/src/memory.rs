//! The bytes of one local memory namespace.

use byway_spec::memory::MEMORY_ALIGN_BYTES;

use crate::refusal::Refusal;

/// Largest memory, in bytes.
pub const MEMORY_MAX_BYTES: u64 = 1 << 30;

/// Volatile memory of a fixed size, all zeroes at first.
///
/// Nothing is allocated before the first write, and the kernel gives pages of it only as they are written.
#[derive(Debug)]
pub struct Memory {
    size_bytes: usize,
    /// Empty before the first write, `size_bytes` after it.
    bytes: Vec<u8>,
}

impl Memory {
    /// A memory of `size_bytes` zeroes.
    ///
    /// # Errors
    /// [`Refusal::InvalidField`] for a size of 0, [`Refusal::Misaligned`] for one that is no multiple of 4 bytes,
    /// [`Refusal::InsufficientResources`] above [`MEMORY_MAX_BYTES`].
    pub const fn new(size_bytes: u64) -> Result<Self, Refusal> {
        match size_bytes {
            0 => Err(Refusal::InvalidField),
            size if !size.is_multiple_of(MEMORY_ALIGN_BYTES) => Err(Refusal::Misaligned),
            size if size > MEMORY_MAX_BYTES => Err(Refusal::InsufficientResources),
            size => Ok(Self { size_bytes: size as usize, bytes: Vec::new() }),
        }
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes as u64
    }

    /// The bytes of an access of a host, to read them.
    ///
    /// # Errors
    /// [`Refusal::Misaligned`], [`Refusal::OutOfRange`].
    pub fn get(&mut self, start: u64, length_bytes: u64) -> Result<&[u8], Refusal> {
        self.get_mut(start, length_bytes).map(|bytes| &*bytes)
    }

    /// The bytes of an access of a host, to change them.
    ///
    /// # Errors
    /// [`Refusal::Misaligned`], [`Refusal::OutOfRange`].
    pub fn get_mut(&mut self, start: u64, length_bytes: u64) -> Result<&mut [u8], Refusal> {
        let range = self.aligned(start, length_bytes)?;
        Ok(&mut self.bytes_mut()[range])
    }

    /// Reads `into.len()` bytes from `start` on.
    ///
    /// # Errors
    /// [`Refusal::Misaligned`], [`Refusal::OutOfRange`].
    pub fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Refusal> {
        let range = self.aligned(start, into.len() as u64)?;
        self.copy_out(range.start, into);
        Ok(())
    }

    /// Writes `bytes` from `start` on.
    ///
    /// # Errors
    /// [`Refusal::Misaligned`], [`Refusal::OutOfRange`].
    pub fn write(&mut self, start: u64, bytes: &[u8]) -> Result<(), Refusal> {
        self.get_mut(start, bytes.len() as u64)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Sets `length_bytes` bytes from `start` on to zero.
    ///
    /// # Errors
    /// [`Refusal::Misaligned`], [`Refusal::OutOfRange`].
    pub fn fill(&mut self, start: u64, length_bytes: u64) -> Result<(), Refusal> {
        let range = self.aligned(start, length_bytes)?;
        if range.len() == self.size_bytes {
            self.clear();
        } else if !self.bytes.is_empty() {
            self.bytes[range].fill(0);
        }
        Ok(())
    }

    /// Copies `length_bytes` bytes from `source` to `destination`.
    ///
    /// # Errors
    /// [`Refusal::Misaligned`], [`Refusal::OutOfRange`], and [`Refusal::OverlappingCopy`] if the two overlap.
    pub fn copy_within(&mut self, source: u64, destination: u64, length_bytes: u64) -> Result<(), Refusal> {
        let from = self.aligned(source, length_bytes)?;
        let to = self.aligned(destination, length_bytes)?;
        if from.start < to.end && to.start < from.end {
            return Err(Refusal::OverlappingCopy);
        }
        if !self.bytes.is_empty() {
            self.bytes.copy_within(from, to.start);
        }
        Ok(())
    }

    /// Copies `length_bytes` bytes from `source` of another memory to `destination` of this one.
    ///
    /// # Errors
    /// [`Refusal::Misaligned`], [`Refusal::OutOfRange`].
    pub fn copy_from(
        &mut self,
        destination: u64,
        from: &Self,
        source: u64,
        length_bytes: u64,
    ) -> Result<(), Refusal> {
        let source = from.aligned(source, length_bytes)?;
        let to = self.aligned(destination, length_bytes)?;
        from.copy_out(source.start, &mut self.bytes_mut()[to]);
        Ok(())
    }

    /// Sets all bytes to zero and releases the memory that held them: what power-on does.
    pub fn clear(&mut self) {
        self.bytes = Vec::new();
    }

    /// All bytes, allocated.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            // Zeroed by the allocator: pages of a large memory are taken as they are written.
            self.bytes = vec![0; self.size_bytes];
        }
        &mut self.bytes
    }

    /// Copies bytes that lie inside.
    fn copy_out(&self, start: usize, into: &mut [u8]) {
        match self.bytes.get(start..start + into.len()) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => into.fill(0),
        }
    }

    /// The positions that a host's access names.
    fn aligned(&self, start: u64, length_bytes: u64) -> Result<std::ops::Range<usize>, Refusal> {
        if !start.is_multiple_of(MEMORY_ALIGN_BYTES) || !length_bytes.is_multiple_of(MEMORY_ALIGN_BYTES) {
            return Err(Refusal::Misaligned);
        }
        let end = start.checked_add(length_bytes).filter(|end| *end <= self.size_bytes());
        end.map(|end| start as usize..end as usize).ok_or(Refusal::OutOfRange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Memory {
        let mut memory = Memory::new(64).expect("a small memory");
        memory.write(8, b"abcdefgh").expect("inside");
        memory
    }

    fn read(memory: &Memory, start: u64) -> [u8; 8] {
        let mut bytes = [0xff; 8];
        memory.read(start, &mut bytes).expect("inside");
        bytes
    }

    #[test]
    fn memory_that_was_never_written_reads_as_zeroes_and_is_not_allocated() {
        let memory = Memory::new(MEMORY_MAX_BYTES).expect("the largest");
        assert_eq!(read(&memory, MEMORY_MAX_BYTES - 8), [0; 8]);
        assert_eq!(memory.bytes.capacity(), 0);
    }

    #[test]
    fn sizes_outside_the_limits_are_refused() {
        assert_eq!(Memory::new(0).err(), Some(Refusal::InvalidField));
        assert_eq!(Memory::new(6).err(), Some(Refusal::Misaligned));
        assert_eq!(Memory::new(MEMORY_MAX_BYTES + 4).err(), Some(Refusal::InsufficientResources));
    }

    #[test]
    fn accesses_of_a_host_are_dwords_inside_the_memory() {
        let mut memory = written();
        assert_eq!(memory.write(2, &[0; 4]), Err(Refusal::Misaligned));
        assert_eq!(memory.read(0, &mut [0; 3]), Err(Refusal::Misaligned));
        assert_eq!(memory.fill(60, 8), Err(Refusal::OutOfRange));
        assert_eq!(memory.fill(u64::MAX - 3, 8), Err(Refusal::OutOfRange));
        assert_eq!(memory.write(64, &[]), Ok(()));
        assert_eq!(read(&memory, 8), *b"abcdefgh");
    }

    #[test]
    fn fill_zeroes_what_it_names_alone() {
        let mut memory = written();
        memory.fill(8, 4).expect("inside");
        assert_eq!(read(&memory, 8), *b"\0\0\0\0efgh");
        memory.fill(0, 64).expect("inside");
        assert_eq!((read(&memory, 8), memory.bytes.capacity()), ([0; 8], 0));
    }

    #[test]
    fn copies_overlap_neither_within_nor_between_memories() {
        let mut memory = written();
        assert_eq!(memory.copy_within(8, 12, 8), Err(Refusal::OverlappingCopy));
        memory.copy_within(8, 16, 8).expect("no overlap");
        assert_eq!(read(&memory, 16), *b"abcdefgh");
        let mut other = Memory::new(16).expect("a small memory");
        assert_eq!(other.copy_from(12, &memory, 8, 8), Err(Refusal::OutOfRange));
        other.copy_from(4, &memory, 8, 8).expect("inside");
        assert_eq!(read(&other, 4), *b"abcdefgh");
    }
}
