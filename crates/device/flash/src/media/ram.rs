//! Pages in memory of this process, taken from the system when first programmed, or all at once.

use byway_sys::cacheline::prefetch_all;
use byway_sys::huge::prefer_huge_pages;

use super::{Media, PageReader, Reads};
use crate::error::FlashError;
use crate::geometry::{BlockId, Geometry, PageId};
use crate::image::layout::Layout;
use crate::options::RunOptions;
use crate::protected::{Backing, Published};
use crate::spare::VOID;

/// A medium of at least so many bytes takes huge pages. Each is filled with zeroes at once, and more of them are begun than a
/// small one would ever need.
const HUGE_FROM_BYTES: usize = 512 << 20;

pub(crate) struct RamMedia {
    geometry: Geometry,
    /// `None` where an external engine has the bytes: they read as zeroes.
    data: Option<Published>,
    spare: Published,
    reads: Reads,
}

impl RamMedia {
    pub(crate) fn new(geometry: Geometry, layout: &Layout, run: &RunOptions) -> Result<Self, FlashError> {
        let backing = Backing::Memory;
        let (mut data, mut spare) =
            (backing.map_published(layout.pages)?, backing.map_published(layout.spare)?);
        if data.len() >= HUGE_FROM_BYTES {
            // A page of 4 KiB costs as much to get as twenty small puts.
            prefer_huge_pages(&data);
        }
        if run.prefault {
            data.take_now()?;
            spare.take_now()?;
        }
        Ok(Self { geometry, data: Some(data), spare, reads: run.reads })
    }

    /// For pages whose bytes an external engine has: only their spare records are kept.
    pub(crate) fn without_data(geometry: Geometry, layout: &Layout) -> Result<Self, FlashError> {
        let spare = Backing::Memory.map_published(layout.spare)?;
        Ok(Self { geometry, data: None, spare, reads: Reads::Mapped })
    }

    fn data_at(&self, page: PageId) -> usize {
        page.0 as usize * self.geometry.page_bytes as usize
    }
}

impl Media for RamMedia {
    fn keeps_data(&self) -> bool {
        true
    }

    fn is_exact(&self) -> bool {
        self.reads == Reads::Mapped
    }

    fn prepare(&mut self, _block: BlockId, _page: u32) -> Result<(), FlashError> {
        Ok(())
    }

    fn program(&mut self, page: PageId, data: &[u8], spare: &[u8]) -> Result<(), FlashError> {
        let at = self.data_at(page);
        if let Some(kept) = &mut self.data {
            kept.write(at, data);
        }
        let at = page.0 as usize * spare.len();
        // As in a file: the first word is stored last.
        self.spare.write(at + 8, &spare[8..]);
        self.spare.set_word(at, u64::from_le_bytes(*spare.first_chunk().unwrap_or(&[0; 8])));
        Ok(())
    }

    fn read(&self, page: PageId, at: usize, into: &mut [u8]) -> Result<(), FlashError> {
        let at = self.data_at(page) + at;
        match &self.data {
            Some(data) => into.copy_from_slice(&data[at..at + into.len()]),
            None => into.fill(0),
        }
        Ok(())
    }

    fn lend(&self, page: PageId, at: usize, len: usize) -> Option<&[u8]> {
        let at = self.data_at(page) + at;
        self.data.as_ref()?.get(at..at + len)
    }

    fn lend_all(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }

    fn prefetch(&self, page: PageId, at: usize, len: usize) {
        self.lend(page, at, len).into_iter().for_each(prefetch_all);
    }

    fn spare(&self, page: PageId) -> &[u8] {
        let len = self.geometry.spare_record_bytes();
        &self.spare[page.0 as usize * len..][..len]
    }

    fn write_spare(&mut self, page: PageId, at: usize, bytes: &[u8]) {
        let len = self.geometry.spare_record_bytes();
        self.spare.write(page.0 as usize * len + at, bytes);
    }

    fn reader(&self) -> Option<PageReader> {
        let data = self.data.as_ref()?;
        Some(PageReader::of_memory(&self.geometry, self.spare.reader(), data.reader(), self.is_exact()))
    }

    fn void(&mut self, page: PageId) {
        let at = page.0 as usize * self.geometry.spare_record_bytes();
        self.spare.set_word(at, VOID);
    }

    fn erase(&mut self, block: BlockId) -> Result<(), FlashError> {
        let len = self.geometry.pages_per_block as usize * self.geometry.spare_record_bytes();
        self.spare.clear(block.0 as usize * len, len);
        Ok(())
    }

    fn wipe(&mut self, page: PageId, at: usize, len: usize) -> Result<(), FlashError> {
        let at = self.data_at(page) + at;
        if let Some(data) = &mut self.data {
            data.clear(at, len);
        }
        Ok(())
    }

    fn erase_and_free(&mut self, block: BlockId) -> Result<(), FlashError> {
        self.erase(block)?;
        let at = self.data_at(self.geometry.page(block, 0));
        let len = self.geometry.block_bytes() as usize;
        self.data.as_mut().map_or(Ok(()), |data| data.discard(at, len))
    }
}
