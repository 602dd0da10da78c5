//! Pages of a queue's own that small payloads are copied through, as a kernel bounces them.
//!
//! A borrowed payload cannot be given to a device, which may read it after the borrow has ended. Its bytes go into a
//! page that stays with the operation until the device has answered.

use std::sync::Arc;

use byway_core::{Buffer, BufferPool, PAGE_BYTES, Result};
use byway_dma::{BusAddr, DmaMemory};
use byway_sys::FreeList;

use crate::mapped::{pages_of, prepared_at};

/// Pages that are mapped once, handed out last in, first out: a queue used synchronously stays on one warm page.
#[derive(Debug)]
pub(crate) struct BouncePages {
    memory: Arc<DmaMemory>,
    at: BusAddr,
    free: FreeList<u16>,
    /// Gives the memory back to its pool when the queue is gone.
    lease: Option<Buffer>,
}

impl BouncePages {
    /// `pages` pages from the device's pool.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn new(pool: &BufferPool, pages: u16) -> Result<Self> {
        let buffer = pool.take(usize::from(pages) * PAGE_BYTES)?;
        let at = prepared_at(&buffer, pool).unwrap_or_default();
        let memory = Arc::clone(pages_of(&buffer)?);
        Ok(Self { memory, at, free: FreeList::new(0..pages), lease: Some(buffer) })
    }

    /// Takes a free page.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u16> {
        self.free.take()
    }

    /// Whether a page is free.
    #[inline]
    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Gives a page back.
    #[inline]
    pub(crate) fn give_back(&mut self, page: u16) {
        self.free.free(page);
    }

    /// Where the device sees a page.
    #[inline]
    pub(crate) fn bus_addr(&self, page: u16) -> BusAddr {
        BusAddr(self.at.0 + Self::offset(page) as u64)
    }

    /// Copies at most a page of bytes into a page.
    #[inline]
    pub(crate) fn fill(&self, page: u16, from: &[u8]) {
        // A page of ours, and no more than a page of bytes: it cannot be outside.
        let _ = self.memory.write_at(Self::offset(page), from);
    }

    /// Copies bytes into a page from byte `at` on, as a device would; `None` if they do not end in the page.
    pub(crate) fn fill_from(&self, page: u16, at: usize, from: &[u8]) -> Option<()> {
        let fits = at + from.len() <= PAGE_BYTES;
        fits.then(|| self.memory.write_at(Self::offset(page) + at, from).ok()).flatten()
    }

    /// Copies the beginning of a page out.
    #[inline]
    pub(crate) fn copy_out(&self, page: u16, into: &mut [u8]) {
        // As in `fill`.
        let _ = self.memory.read_at(Self::offset(page), into);
    }

    /// Keeps the memory for ever: a device that does not answer may still write it.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(self.lease.take());
    }

    #[inline]
    fn offset(page: u16) -> usize {
        usize::from(page) * PAGE_BYTES
    }
}
