//! Copies of an image that is in use: prepared, begun at one instant, ended.

use std::sync::Arc;

use byway_sys::{Access, CopyFile};

use crate::error::FlashError;
use crate::flash::Flash;
use crate::geometry::BlockId;
use crate::snapshot::Snapshot;

impl Flash {
    /// Prepares a copy of the image into `to`, an empty file.
    ///
    /// # Errors
    /// [`FlashError::Misuse`] for a device without an image, or while another copy is made; what the file says.
    pub fn prepare_snapshot(&self, to: CopyFile) -> Result<Arc<Snapshot>, FlashError> {
        let Some(from) = self.image_file().filter(|_| !self.ftl.media.is_being_copied()) else {
            return Err(FlashError::Misuse("only an image can be copied, and once at a time"));
        };
        to.set_len(self.image_bytes()).map_err(FlashError::Memory)?;
        let geometry = self.ftl.geometry();
        let (block_bytes, block_count) = (geometry.block_bytes(), geometry.block_count());
        Ok(Arc::new(Snapshot::new(from, to, self.pages_range(), block_bytes, block_count)))
    }

    /// Access to the image: owner, mode and ACL of its file.
    ///
    /// # Errors
    /// [`FlashError::Misuse`] for a device without an image; what the file says.
    pub fn access(&self) -> Result<Access, FlashError> {
        let in_memory = FlashError::Misuse("a device in memory has no image file, and so no access rights");
        Ok(self.image_file().ok_or(in_memory)?.access()?)
    }

    /// The instant: what the image is now, it will be in the copy. Until [`end_snapshot`](Self::end_snapshot), blocks are
    /// copied before they are erased.
    ///
    /// # Errors
    /// What the file says.
    pub fn begin_snapshot(&mut self, snapshot: &Arc<Snapshot>) -> Result<(), FlashError> {
        snapshot.copy_protected().map_err(FlashError::Memory)?;
        for id in (0..self.ftl.geometry().block_count()).map(BlockId) {
            snapshot.begin_block(id.0, self.ftl.blocks.get(id).written > 0);
        }
        self.ftl.media.set_copying(Some(Arc::clone(snapshot)));
        Ok(())
    }

    /// Ends the copy: blocks are erased again.
    pub fn end_snapshot(&mut self) {
        self.ftl.media.set_copying(None);
    }
}
