//! Buffers that are used again: their memory is prepared for a device once, not for each command.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use byway_dma::DmaMemory;

use crate::buffer::{Buffer, PAGE_BYTES, allocate};
use crate::error::Result;

/// What a backend does to memory before its device, or the kernel, can use it without further preparation: mapping it
/// for DMA, registering it.
pub trait Registrar: Send + Sync {
    /// Prepares `memory`. The token is the backend's own word for it: a bus address, an index.
    ///
    /// # Errors
    /// When the memory cannot be prepared.
    fn register(&self, memory: &Arc<DmaMemory>) -> Result<u64>;

    /// Undoes it. Nothing uses the memory any more.
    fn unregister(&self, memory: &Arc<DmaMemory>, token: u64);
}

/// A pool of buffers whose memory one backend has prepared. A buffer of the pool goes back to it when it is dropped.
#[derive(Clone)]
pub struct BufferPool {
    shelf: Arc<Shelf>,
}

/// Where a pool's unused memory lies, by size: `free[n]` holds memory of 2ⁿ pages.
struct Shelf {
    registrar: Box<dyn Registrar>,
    keep_bytes: usize,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    bytes: usize,
    by_size: Vec<Vec<Prepared>>,
}

struct Prepared {
    memory: Arc<DmaMemory>,
    token: u64,
}

/// What ties a buffer to the pool that it goes back to.
pub(crate) struct Lease {
    shelf: Arc<Shelf>,
    token: u64,
}

impl BufferPool {
    /// A pool that keeps at most `keep_bytes` of memory that nobody uses.
    #[must_use]
    pub fn new(registrar: impl Registrar + 'static, keep_bytes: usize) -> Self {
        let free = Mutex::new(Free::default());
        Self { shelf: Arc::new(Shelf { registrar: Box::new(registrar), keep_bytes, free }) }
    }

    /// A buffer of `len` bytes. What it holds is left from its last use, or zeroes.
    ///
    /// # Errors
    /// When there is no memory, or it cannot be prepared.
    pub fn take(&self, len: usize) -> Result<Buffer> {
        let size = size_class(len);
        let Prepared { memory, token } = match self.shelf.take(size) {
            Some(prepared) => prepared,
            None => self.shelf.prepare(PAGE_BYTES << size)?,
        };
        Ok(Buffer::leased(memory, len, Lease { shelf: Arc::clone(&self.shelf), token }))
    }
}

impl Shelf {
    fn take(&self, size: usize) -> Option<Prepared> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = free.by_size.get_mut(size)?.pop()?;
        free.bytes -= PAGE_BYTES << size;
        Some(prepared)
    }

    fn prepare(&self, bytes: usize) -> Result<Prepared> {
        let memory = allocate(bytes)?;
        let token = self.registrar.register(&memory)?;
        Ok(Prepared { memory, token })
    }

    fn give_back(&self, prepared: Prepared) {
        let bytes = prepared.memory.len();
        let size = size_class(bytes);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + bytes > self.keep_bytes {
            drop(free);
            return self.registrar.unregister(&prepared.memory, prepared.token);
        }
        if free.by_size.len() <= size {
            free.by_size.resize_with(size + 1, Vec::new);
        }
        free.bytes += bytes;
        if let Some(same_size) = free.by_size.get_mut(size) {
            same_size.push(prepared);
        }
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let free = std::mem::take(self.free.get_mut().unwrap_or_else(PoisonError::into_inner));
        for prepared in free.by_size.into_iter().flatten() {
            self.registrar.unregister(&prepared.memory, prepared.token);
        }
    }
}

impl Lease {
    /// The token of the memory, if `pool` is where it came from.
    #[inline]
    pub(crate) fn token_of(&self, pool: &BufferPool) -> Option<u64> {
        Arc::ptr_eq(&self.shelf, &pool.shelf).then_some(self.token)
    }

    pub(crate) fn end(self, memory: Arc<DmaMemory>) {
        self.shelf.give_back(Prepared { memory, token: self.token });
    }
}

/// The power of two of pages that holds `len` bytes.
fn size_class(len: usize) -> usize {
    len.div_ceil(PAGE_BYTES).max(1).next_power_of_two().trailing_zeros() as usize
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("BufferPool").field("keep_bytes", &self.shelf.keep_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Clone, Default)]
    struct Counting(Arc<[AtomicU64; 2]>);

    impl Registrar for Counting {
        fn register(&self, _: &Arc<DmaMemory>) -> Result<u64> {
            Ok(self.0[0].fetch_add(1, Ordering::Relaxed))
        }

        fn unregister(&self, _: &Arc<DmaMemory>, _: u64) {
            self.0[1].fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Counting {
        fn counts(&self) -> [u64; 2] {
            [0, 1].map(|n: usize| self.0[n].load(Ordering::Relaxed))
        }
    }

    #[test]
    fn memory_is_prepared_once_and_used_again() {
        let counting = Counting::default();
        let pool = BufferPool::new(counting.clone(), 1 << 20);
        for _ in 0..10 {
            let buffer = pool.take(5000).unwrap();
            assert_eq!((buffer.len(), buffer.capacity()), (5000, 8192));
            assert_eq!(buffer.token(&pool), Some(0));
        }
        assert_eq!(counting.counts(), [1, 0]);
        drop(pool);
        assert_eq!(counting.counts(), [1, 1]);
    }

    #[test]
    fn a_pool_keeps_no_more_than_it_was_told() {
        let counting = Counting::default();
        let pool = BufferPool::new(counting.clone(), 4096);
        drop([1, 1, 1].map(|len| pool.take(len).unwrap()));
        assert_eq!(counting.counts(), [3, 2]);
    }

    #[test]
    fn a_buffer_outlives_its_pool_and_belongs_to_no_other() {
        let counting = Counting::default();
        let pool = BufferPool::new(counting.clone(), 1 << 20);
        let buffer = pool.take(1).unwrap();
        assert_eq!(buffer.token(&BufferPool::new(counting.clone(), 0)), None);
        drop(pool);
        assert_eq!(counting.counts(), [1, 0]);
        drop(buffer);
        assert_eq!(counting.counts(), [1, 1]);
    }
}
