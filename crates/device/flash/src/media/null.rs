//! Pages accepted and forgotten: what is left is the cost of everything else.

use super::Media;
use crate::error::FlashError;
use crate::geometry::{BlockId, PageId};

pub(crate) struct NullMedia;

impl Media for NullMedia {
    fn keeps_data(&self) -> bool {
        false
    }

    fn prepare(&mut self, _block: BlockId, _page: u32) -> Result<(), FlashError> {
        Ok(())
    }

    fn program(&mut self, _page: PageId, _data: &[u8], _spare: &[u8]) -> Result<(), FlashError> {
        Ok(())
    }

    fn read(&self, _page: PageId, _at: usize, into: &mut [u8]) -> Result<(), FlashError> {
        into.fill(0);
        Ok(())
    }

    fn spare(&self, _page: PageId) -> &[u8] {
        &[]
    }

    fn write_spare(&mut self, _page: PageId, _at: usize, _bytes: &[u8]) {}

    fn void(&mut self, _page: PageId) {}

    fn erase(&mut self, _block: BlockId) -> Result<(), FlashError> {
        Ok(())
    }

    fn wipe(&mut self, _: PageId, _: usize, _: usize) -> Result<(), FlashError> {
        Ok(())
    }

    fn erase_and_free(&mut self, _block: BlockId) -> Result<(), FlashError> {
        Ok(())
    }
}
