//! Pages in the image file: data by `pread` and `pwrite`, spare records in a mapped region.
//!
//! Data is not mapped, so that a short file or a failing disk is an error value.

use std::sync::Arc;

use byway_sys::ImageFile;

use super::Media;
use crate::error::FlashError;
use crate::geometry::{BlockId, Geometry, PageId};
use crate::image::layout::{Layout, Range};
use crate::protected::{Backing, Protected};

/// Data taken room for at once, so that a block that stays nearly empty takes little.
const ROOM_BYTES: u64 = 256 << 10;

pub(crate) struct FileMedia {
    file: Arc<ImageFile>,
    geometry: Geometry,
    pages: Range,
    spare_range: Range,
    spare: Protected,
}

impl FileMedia {
    pub(crate) fn open(
        file: Arc<ImageFile>,
        geometry: Geometry,
        layout: &Layout,
    ) -> Result<Self, FlashError> {
        let spare = Backing::File(Arc::clone(&file)).map(layout.spare)?;
        Ok(Self { file, geometry, pages: layout.pages, spare_range: layout.spare, spare })
    }

    fn data_at(&self, page: PageId) -> u64 {
        self.pages.at + page.0 * u64::from(self.geometry.page_bytes)
    }

    /// Where the spare records of a block are, in their region.
    fn block_spare(&self, block: BlockId) -> (usize, usize) {
        let len = self.geometry.pages_per_block as usize * self.geometry.spare_record_bytes();
        (block.0 as usize * len, len)
    }
}

impl Media for FileMedia {
    fn keeps_data(&self) -> bool {
        true
    }

    fn prepare(&mut self, block: BlockId, page: u32) -> Result<(), FlashError> {
        if page == 0 {
            let (at, len) = self.block_spare(block);
            let range = self.spare_range.part(at as u64, len as u64);
            self.file.allocate(range.at, range.len)?;
        }
        let page_bytes = u64::from(self.geometry.page_bytes);
        let offset = u64::from(page) * page_bytes;
        if offset.is_multiple_of(ROOM_BYTES) {
            let len = ROOM_BYTES.min(self.geometry.block_bytes() - offset);
            self.file.allocate(self.data_at(self.geometry.page(block, page)), len)?;
        }
        Ok(())
    }

    fn program(&mut self, page: PageId, data: &[u8], spare: &[u8]) -> Result<(), FlashError> {
        self.file.write_at(self.data_at(page), data)?;
        let at = page.0 as usize * spare.len();
        self.spare[at..at + spare.len()].copy_from_slice(spare);
        Ok(())
    }

    fn read(&self, page: PageId, at: usize, into: &mut [u8]) -> Result<(), FlashError> {
        Ok(self.file.read_at(self.data_at(page) + at as u64, into)?)
    }

    fn spare(&self, page: PageId) -> &[u8] {
        let len = self.geometry.spare_record_bytes();
        &self.spare[page.0 as usize * len..][..len]
    }

    fn erase(&mut self, block: BlockId) -> Result<(), FlashError> {
        let (at, len) = self.block_spare(block);
        self.spare[at..at + len].fill(0);
        Ok(())
    }

    fn forget(&mut self, block: BlockId) -> Result<(), FlashError> {
        self.erase(block)?;
        let data = self.data_at(self.geometry.page(block, 0));
        Ok(self.file.punch(data, self.geometry.block_bytes())?)
    }
}
