//! Media errors on demand: a medium before the medium, that fails by rule.

use std::sync::{Arc, Mutex};

use byway_sys::locked;

use super::Media;
use crate::error::FlashError;
use crate::geometry::{BlockId, Geometry, PageId};
use crate::injection::{Injection, MediaOperation, Outcome, Triggers};
use crate::snapshot::Snapshot;

pub(crate) struct InjectedMedia {
    inner: Box<dyn Media>,
    geometry: Geometry,
    /// Reads take the medium shared, and count as rules do.
    triggers: Mutex<Triggers>,
}

impl InjectedMedia {
    pub(crate) fn new(inner: Box<dyn Media>, geometry: Geometry, injection: &Injection) -> Self {
        Self { inner, geometry, triggers: Mutex::new(Triggers::new(injection)) }
    }

    fn outcome(&self, operation: MediaOperation, block: BlockId, page: Option<u32>) -> Outcome {
        locked(&self.triggers).outcome(operation, block.0, page)
    }

    fn place(&self, page: PageId) -> (BlockId, u32) {
        (self.geometry.block_of(page), (page.0 % u64::from(self.geometry.pages_per_block)) as u32)
    }

    fn erasing(&self, block: BlockId) -> Result<(), FlashError> {
        match self.outcome(MediaOperation::Erase, block, None) {
            Outcome::Failed => Err(FlashError::MediumFailed { doing: "erase", block: block.0 }),
            Outcome::Corrected | Outcome::Good => Ok(()),
        }
    }
}

impl Media for InjectedMedia {
    fn keeps_data(&self) -> bool {
        self.inner.keeps_data()
    }

    fn prepare(&mut self, block: BlockId, page: u32) -> Result<(), FlashError> {
        self.inner.prepare(block, page)
    }

    fn give_up_room(&mut self, is_free: &dyn Fn(BlockId) -> bool) -> Result<bool, FlashError> {
        self.inner.give_up_room(is_free)
    }

    fn program(&mut self, page: PageId, data: &[u8], spare: &[u8]) -> Result<(), FlashError> {
        let (block, page_in_block) = self.place(page);
        match self.outcome(MediaOperation::Program, block, Some(page_in_block)) {
            Outcome::Failed => Err(FlashError::MediumFailed { doing: "program", block: block.0 }),
            Outcome::Corrected | Outcome::Good => self.inner.program(page, data, spare),
        }
    }

    fn read(&self, page: PageId, at: usize, into: &mut [u8]) -> Result<(), FlashError> {
        let (block, page_in_block) = self.place(page);
        match self.outcome(MediaOperation::Read, block, Some(page_in_block)) {
            Outcome::Failed => Err(FlashError::Media {
                block: block.0,
                page: page_in_block,
                why: "more bits are wrong than can be corrected",
            }),
            Outcome::Corrected | Outcome::Good => self.inner.read(page, at, into),
        }
    }

    fn corrected_reads(&self) -> u64 {
        locked(&self.triggers).corrected()
    }

    fn spare(&self, page: PageId) -> &[u8] {
        self.inner.spare(page)
    }

    fn write_spare(&mut self, page: PageId, at: usize, bytes: &[u8]) {
        self.inner.write_spare(page, at, bytes);
    }

    fn void(&mut self, page: PageId) {
        self.inner.void(page);
    }

    fn erase(&mut self, block: BlockId) -> Result<(), FlashError> {
        self.erasing(block)?;
        self.inner.erase(block)
    }

    fn set_copying(&mut self, copying: Option<Arc<Snapshot>>) {
        self.inner.set_copying(copying);
    }

    fn is_being_copied(&self) -> bool {
        self.inner.is_being_copied()
    }

    fn overwrite(&mut self, page: PageId, at: usize, len: usize, pattern: u32) -> Result<(), FlashError> {
        self.inner.overwrite(page, at, len, pattern)
    }

    fn wipe(&mut self, page: PageId, at: usize, len: usize) -> Result<(), FlashError> {
        self.inner.wipe(page, at, len)
    }

    fn erase_and_free(&mut self, block: BlockId) -> Result<(), FlashError> {
        self.erasing(block)?;
        self.inner.erase_and_free(block)
    }
}
