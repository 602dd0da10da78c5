//! Leases by which threads write blocks beside each other (decision 0074).

use crate::durability::SyncPoint;
use crate::error::FlashError;
use crate::flash::{Flash, Phase};
use crate::image::superblock::Incompatible;
use crate::lease::BlockLease;

impl Flash {
    /// Whether there is no image file: what is stored ends with the process.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.image_file().is_none()
    }

    /// Gives a thread a lease, by which it writes units of blocks with [`BlockReader::write_by`](crate::BlockReader::write_by) once it is
    /// [renewed](Flash::renew_block_lease). `None` where writes have to come one after the other (modelled time, completions that wait for
    /// syncs, injected errors), and where no lease is left.
    #[must_use]
    pub fn open_block_lease(&mut self) -> Option<BlockLease> {
        if self.is_following() || self.phase != Phase::Open || !self.ftl.may_lease() {
            return None;
        }
        self.writable().ok()?;
        // A version that does not know of leases would lose what waits when the process dies.
        self.mark_leases().ok()?;
        self.ftl.open_lease(self.image_watch())
    }

    /// Takes in what waits in all leases, and leases more of the buffer to the thread that has this one. Others stay active.
    ///
    /// # Errors
    /// As [`Flash::write_units`].
    pub fn renew_block_lease(&mut self, lease: &BlockLease) -> Result<(), FlashError> {
        self.take_in(false);
        self.writable()?;
        self.ftl.renew_lease(lease.index, &mut 0)
    }

    /// Ends a lease. What was written by it stays.
    pub fn close_block_lease(&mut self, lease: &BlockLease) {
        self.take_in(true);
        self.ftl.close_lease(lease.index);
    }

    /// Recalls every lease and takes in what was written by them: from here on until one is renewed, no thread writes but by this
    /// reference, and the map names all that was written.
    #[inline]
    pub fn take_in_writes(&mut self) {
        if self.ftl.leases.are_active() {
            self.take_in(true);
        }
    }

    #[inline(never)]
    fn take_in(&mut self, recall: bool) {
        let Self { ftl, mapped, .. } = self;
        ftl.take_in(recall, |extent| mapped.add(extent, 1));
    }

    /// Ends every lease, as before an orderly close.
    pub(super) fn end_block_leases(&mut self) {
        self.take_in_writes();
        self.ftl.close_leases();
    }

    /// Takes in what waits, and takes the slots of all leases back: nothing but the superblock says that there are leases. They go on when
    /// they are renewed.
    pub(super) fn end_slots_of_leases(&mut self) {
        self.take_in_writes();
        self.ftl.end_all_slots();
    }

    /// Has older versions open the image. What leases left is on the medium.
    pub(super) fn unmark_leases(&mut self) -> Result<(), FlashError> {
        if self.backing.is_read_only() {
            return Ok(());
        }
        self.set_incompatible(Incompatible::NONE)
    }

    /// Has older versions refuse the image from here on, on the medium too: they would take the place of a waiting unit in the order for a
    /// number.
    fn mark_leases(&mut self) -> Result<(), FlashError> {
        if self.is_in_memory() || self.superblock.incompatible == Incompatible::BLOCK_LEASES {
            return Ok(());
        }
        // An older version, which had the image since, left these words as they were.
        self.ftl.buffer.unmark_all();
        self.set_incompatible(Incompatible::BLOCK_LEASES)?;
        // Older versions that follow would miss what waits: they look again, and refuse the image.
        self.ftl.state.note_change();
        self.ftl.syncs.note_store();
        self.ftl.order_now(SyncPoint::BlockLeases)
    }

    /// Notes in the superblock which features of the format an image uses that older versions would misread.
    fn set_incompatible(&mut self, features: Incompatible) -> Result<(), FlashError> {
        if self.superblock.incompatible == features {
            return Ok(());
        }
        let mut marked = self.superblock.clone();
        marked.incompatible = features;
        if let Some(file) = self.image_file() {
            marked.write(&file)?;
        }
        self.superblock = marked;
        Ok(())
    }
}
