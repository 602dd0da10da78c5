//! Device memory for the loom models.

use loom::sync::atomic::{AtomicU64, Ordering};

use crate::memory::{Memory, MemoryError, Point};

/// Memory whose words are the model checker's, ordered as a [`Window`](crate::Window)'s are, and whose power never goes. It is accessed by whole words.
#[derive(Debug)]
pub struct Interleaved {
    words: Vec<AtomicU64>,
}

impl Interleaved {
    /// Zeroed memory of `len_bytes`.
    #[must_use]
    pub fn new(len_bytes: u64) -> Self {
        Self { words: (0..len_bytes / 8).map(|_| AtomicU64::new(0)).collect() }
    }

    fn range(&self, at: u64, len: usize) -> Result<&[AtomicU64], MemoryError> {
        let is_aligned = at.is_multiple_of(8) && len.is_multiple_of(8);
        let (first, words) = (at as usize / 8, len / 8);
        self.words.get(first..first + words).filter(|_| is_aligned).ok_or(MemoryError::Outside {
            at,
            len_bytes: len as u64,
            memory_bytes: self.len_bytes(),
        })
    }

    fn word(&self, at: u64) -> Result<&AtomicU64, MemoryError> {
        Ok(&self.range(at, 8)?[0])
    }
}

impl Memory for Interleaved {
    fn len_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        let words = self.range(at, into.len())?;
        for (word, bytes) in words.iter().zip(into.as_chunks_mut().0) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        let words = self.range(at, from.len())?;
        for (word, bytes) in words.iter().zip(from.as_chunks().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        Ok(())
    }

    fn stream(&self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.write(at, from)
    }

    fn streams(&self) -> bool {
        false
    }

    fn drain(&self, _: Point) {}

    fn load(&self, at: u64) -> Result<u64, MemoryError> {
        Ok(self.word(at)?.load(Ordering::Acquire))
    }

    fn store(&self, at: u64, value: u64) -> Result<(), MemoryError> {
        // The checker would not know which of a store and an exchange came last.
        self.word(at)?.swap(value, Ordering::Release);
        Ok(())
    }

    fn exchange(&self, at: u64, from: u64, to: u64) -> Result<bool, MemoryError> {
        Ok(self.word(at)?.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok())
    }

    fn flush(&self, _: u64, _: u64, _: Point) -> Result<(), MemoryError> {
        Ok(())
    }

    fn fence(&self, _: Point) {}
}
