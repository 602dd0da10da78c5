//! Copies of an image that is in use: prepared, begun at one instant, ended.

use std::sync::Arc;

use byway_sys::{Access, CopyFile};

use crate::error::FlashError;
use crate::flash::Flash;
use crate::geometry::BlockId;
use crate::image::superblock::{Incompatible, Superblock};
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

    /// Makes the copy at once by sharing all blocks of the file system; whether that could be done. Where not, it is
    /// [begun](Self::begin_snapshot) and goes on.
    ///
    /// # Errors
    /// What the file says.
    pub fn share_snapshot(&mut self, snapshot: &Snapshot) -> Result<bool, FlashError> {
        self.end_slots_of_leases();
        Ok(snapshot.share_blocks() && self.unmark_copy(snapshot).map(|()| true)?)
    }

    /// Writes the superblock of a copy, in which no units wait: older versions open it.
    fn unmark_copy(&self, snapshot: &Snapshot) -> Result<(), FlashError> {
        let superblock = Superblock { incompatible: Incompatible::NONE, ..self.superblock.clone() };
        superblock.write_by(|at, bytes| snapshot.write_protected(at, bytes)).map_err(FlashError::Memory)
    }

    /// The instant: what the image is now, it will be in the copy. Until [`end_snapshot`](Self::end_snapshot), blocks are
    /// copied before they are erased.
    ///
    /// # Errors
    /// What the file says.
    pub fn begin_snapshot(&mut self, snapshot: &Arc<Snapshot>) -> Result<(), FlashError> {
        self.end_slots_of_leases();
        snapshot.copy_protected().map_err(FlashError::Memory)?;
        self.unmark_copy(snapshot)?;
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
