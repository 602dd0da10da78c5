//! Buffers that are used again: their memory is prepared for a device once, not for each command.

use std::fmt;
use std::sync::Arc;

use byway_dma::DmaMemory;
use byway_sys::ProcessLocal;
use parking_lot::Mutex;

use crate::buffer::{Buffer, Inner, PAGE_BYTES, allocate};
use crate::error::{Result, check_owner};

/// What a backend does to memory before its device, or the kernel, can use it without further preparation: mapping it
/// for DMA, registering it.
pub trait Registrar: Send + Sync {
    /// Memory that can be prepared: zeroed pages, at least `len_bytes` of them.
    ///
    /// # Errors
    /// When there is none.
    fn memory(&self, len_bytes: usize) -> Result<Arc<DmaMemory>> {
        allocate(len_bytes)
    }

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
pub(crate) struct Shelf {
    registrar: ProcessLocal<Box<dyn Registrar>>,
    keep_bytes: usize,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    bytes: usize,
    #[expect(clippy::vec_box, reason = "what a buffer is made of moves as the one pointer that a buffer is")]
    by_size: Vec<Vec<Box<Inner>>>,
}

/// Pages that a buffer stands in, with what a pool's backend called them when it prepared them.
pub(crate) struct Pages {
    pub(crate) memory: Arc<DmaMemory>,
    token: u64,
    /// The pool that they go back to, while a buffer has them.
    shelf: Option<Arc<Shelf>>,
}

impl BufferPool {
    /// A pool that keeps at most `keep_bytes` of unused memory.
    #[must_use]
    pub fn new(registrar: impl Registrar + 'static, keep_bytes: usize) -> Self {
        let free = Mutex::new(Free::default());
        let registrar = ProcessLocal::<Box<dyn Registrar>>::new(Box::new(registrar));
        Self { shelf: Arc::new(Shelf { registrar, keep_bytes, free }) }
    }

    /// A buffer of `len` bytes. What it holds is left from its last use, or zeroes.
    ///
    /// # Errors
    /// When there is no memory, or it cannot be prepared.
    pub fn take(&self, len: usize) -> Result<Buffer> {
        check_owner(self.shelf.registrar.owner())?;
        let size = size_class(len);
        let mut inner = match self.shelf.take(size) {
            Some(inner) => inner,
            None => self.shelf.prepare(PAGE_BYTES << size)?,
        };
        if let Some(pages) = inner.pages_mut() {
            pages.shelf = Some(Arc::clone(&self.shelf));
        }
        Ok(Buffer::new(inner, len))
    }

    /// Prepares memory that goes back to its owner.
    pub(crate) fn register(&self, memory: Arc<DmaMemory>) -> Result<Pages> {
        check_owner(self.shelf.registrar.owner())?;
        let token = self.shelf.registrar.register(&memory)?;
        Ok(Pages { memory, token, shelf: Some(Arc::clone(&self.shelf)) })
    }
}

impl Shelf {
    /// Whether the calling process made the pool; a forked child touches nothing of its parent's.
    fn is_here(&self) -> bool {
        self.registrar.owner().is_current()
    }

    fn take(&self, size: usize) -> Option<Box<Inner>> {
        let mut free = self.free.lock();
        let inner = free.by_size.get_mut(size)?.pop()?;
        free.bytes -= PAGE_BYTES << size;
        Some(inner)
    }

    fn prepare(&self, bytes: usize) -> Result<Box<Inner>> {
        let memory = self.registrar.memory(bytes)?;
        let token = self.registrar.register(&memory)?;
        Ok(Inner::of_pages(Pages { memory, token, shelf: None }))
    }

    /// Takes memory back that no buffer has any more. In a forked child it is the parent's, and left as it is.
    pub(crate) fn give_back(&self, inner: Box<Inner>) {
        if !self.is_here() {
            return std::mem::forget(inner);
        }
        let Some(pages) = inner.pages() else { return };
        let bytes = pages.memory.len();
        let size = size_class(bytes);
        let mut free = self.free.lock();
        if free.bytes + bytes > self.keep_bytes {
            drop(free);
            return self.registrar.unregister(&pages.memory, pages.token);
        }
        if free.by_size.len() <= size {
            free.by_size.resize_with(size + 1, Vec::new);
        }
        free.bytes += bytes;
        if let Some(same_size) = free.by_size.get_mut(size) {
            same_size.push(inner);
        }
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        let free = std::mem::take(self.free.get_mut());
        for inner in free.by_size.into_iter().flatten() {
            if let Some(pages) = inner.pages() {
                self.registrar.unregister(&pages.memory, pages.token);
            }
        }
    }
}

impl Pages {
    /// Pages of no pool.
    pub(crate) fn new(memory: Arc<DmaMemory>) -> Self {
        Self { memory, token: 0, shelf: None }
    }

    /// The token of the memory, if `pool` is where it came from.
    #[inline]
    pub(crate) fn token_of(&self, pool: &BufferPool) -> Option<u64> {
        let shelf = self.shelf.as_ref()?;
        Arc::ptr_eq(shelf, &pool.shelf).then_some(self.token)
    }

    /// The backend need not know them any more.
    pub(crate) fn forget_preparation(&mut self) {
        if let Some(shelf) = self.shelf.take().filter(|shelf| shelf.is_here()) {
            shelf.registrar.unregister(&self.memory, self.token);
        }
    }

    /// No buffer has them any more; the pool that they go back to.
    pub(crate) fn leave_pool(&mut self) -> Option<Arc<Shelf>> {
        self.shelf.take()
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
            assert_eq!(buffer.prepared(&pool).map(|at| at.token), Some(0));
        }
        assert_eq!(counting.counts(), [1, 0]);
        drop(pool);
        assert_eq!(counting.counts(), [1, 1]);
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_limit() {
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
        assert!(buffer.prepared(&BufferPool::new(counting.clone(), 0)).is_none());
        drop(pool);
        assert_eq!(counting.counts(), [1, 0]);
        drop(buffer);
        assert_eq!(counting.counts(), [1, 1]);
    }
}
