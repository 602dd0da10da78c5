//! Memory that a program brought and a backend has prepared, as it prepares its own.

use std::sync::Arc;

use byway_dma::DmaMemory;
use byway_sys::Mapping;

use crate::buffer::{Buffer, Inner, PAGE_BYTES};
use crate::error::{Error, ErrorKind, Result};
use crate::pool::{BufferPool, Pages};

/// Prepared until it is dropped; then the memory is unused, and goes back to its owner.
pub(crate) struct Prepared(Pages);

impl Prepared {
    /// The memory, with the backend's word for it.
    #[inline]
    pub(crate) fn pages(&self) -> &Pages {
        &self.0
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        self.0.forget_preparation();
    }
}

/// Memory that was not prepared, and why.
#[derive(Debug)]
pub struct Unprepared {
    /// As it was.
    pub buffer: Buffer,
    /// Why it was not prepared: no whole pages, or no mapping for the device.
    pub error: Error,
}

impl From<Unprepared> for Error {
    fn from(unprepared: Unprepared) -> Self {
        unprepared.error
    }
}

impl BufferPool {
    /// Prepares the memory of a buffer that a program brought, until that buffer and all that were cut from it are gone.
    /// One of this pool is prepared.
    ///
    /// # Errors
    /// For memory that is not whole pages, or cannot be prepared.
    pub fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        if brought.prepared(self).is_some() {
            return Ok(brought);
        }
        let (len, brought) = (brought.len(), Arc::new(brought));
        match shared(&brought).and_then(|memory| self.register(Arc::new(memory))) {
            Ok(pages) => Ok(Buffer::new(Inner::of_prepared(Prepared(pages)), len)),
            Err(error) => Err(Unprepared { buffer: alone(brought), error }),
        }
    }
}

/// The buffer's memory as what a device may touch while we do.
#[expect(unsafe_code, reason = "the buffer keeps the memory in place")]
fn shared(buffer: &Arc<Buffer>) -> Result<DmaMemory> {
    let (start, bytes) = (buffer.as_ptr(), buffer.capacity());
    // SAFETY: the buffer, which the mapping keeps, owns these bytes; no references are taken by it.
    let mapping = unsafe { Mapping::brought(start, bytes, Box::new(Arc::clone(buffer))) };
    mapping.map(DmaMemory::from_mapping).map_err(|_| {
        let at = start.addr();
        let said =
            format!("{bytes} bytes at {at:#x}: memory is prepared in whole pages of {PAGE_BYTES} bytes");
        Error::host(ErrorKind::InvalidArgument, said)
    })
}

/// The memory of the last sharer: no backend keeps memory that it could not prepare.
fn alone(brought: Arc<Buffer>) -> Buffer {
    Arc::into_inner(brought).unwrap_or_else(|| Buffer::from_bytes(Box::default()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;
    use crate::pool::Registrar;

    /// Counts what is prepared, and calls it 1000 and on.
    #[derive(Clone, Default)]
    struct Counting(Arc<AtomicI64>);

    impl Registrar for Counting {
        fn register(&self, _: &Arc<DmaMemory>) -> Result<u64> {
            Ok(1000 + self.0.fetch_add(1, Ordering::Relaxed) as u64)
        }

        fn unregister(&self, _: &Arc<DmaMemory>, _: u64) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn place(buffer: &Buffer, pool: &BufferPool) -> Option<(u64, u64)> {
        buffer.prepared(pool).map(|at| (at.token, at.offset_bytes))
    }

    #[test]
    fn memory_that_a_program_brought_is_prepared_until_its_last_part_is_gone() {
        let prepared = Counting::default();
        let pool = BufferPool::new(prepared.clone(), 1 << 20);
        let mut first = pool.prepare(Buffer::zeroed(3 * PAGE_BYTES).unwrap()).unwrap();
        assert_eq!((place(&first, &pool), prepared.0.load(Ordering::Relaxed)), (Some((1000, 0)), 1));
        let mut second = first.split_off(PAGE_BYTES);
        let third = second.split_off(512);
        drop((first, second));
        assert_eq!(place(&third, &pool), Some((1000, PAGE_BYTES as u64 + 512)));
        assert_eq!(prepared.0.load(Ordering::Relaxed), 1);
        drop(third);
        assert_eq!(prepared.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn part_split_from_a_pool_buffer_is_in_the_pools_memory() {
        let pool = BufferPool::new(Counting::default(), 1 << 20);
        let mut first = pool.take(2 * PAGE_BYTES).unwrap();
        let mut second = first.split_off(100);
        assert_eq!((place(&first, &pool), place(&second, &pool)), (Some((1000, 0)), Some((1000, 100))));
        assert_eq!(place(&second.split_off(1), &pool), None, "no device takes an odd address");
        assert_eq!(place(&first, &BufferPool::new(Counting::default(), 0)), None);
    }

    #[test]
    fn memory_that_is_not_whole_pages_is_refused_in_a_sentence() {
        let pool = BufferPool::new(Counting::default(), 0);
        let refused = pool.prepare(Buffer::from_bytes(vec![0; 100].into())).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::InvalidArgument);
        assert!(refused.error.to_string().contains("whole pages"), "{refused:?}");
        assert_eq!(refused.buffer.len(), 100);
    }
}
