//! Protected areas of a device: added, found, read and stored to.

use std::sync::Arc;

use byway_sys::Mapping;

use crate::areas::{AreaId, AreaRef};
use crate::error::FlashError;
use crate::flash::Flash;

impl Flash {
    /// Adds a protected area of zeroes to a namespace, or to the device as number 0. Its disk room is taken now.
    ///
    /// # Errors
    /// [`FlashError::AreaExists`], [`FlashError::TableFull`], [`FlashError::File`] when the disk is full,
    /// [`FlashError::ReadOnly`].
    pub fn add_area(&mut self, nsid: u32, id: AreaId, len_bytes: usize) -> Result<AreaRef, FlashError> {
        self.writable()?;
        if nsid != 0 && self.namespaces.find(nsid).is_none() {
            return Err(FlashError::NoNamespace(nsid));
        }
        self.areas.add(nsid, id, len_bytes)
    }

    /// Adds an area of zeroes to a namespace of a device that was opened read-only. It is in this process's memory alone.
    ///
    /// # Errors
    /// [`FlashError::Misuse`] for a device that can be written; [`FlashError::AreaExists`], [`FlashError::TableFull`],
    /// [`FlashError::Memory`].
    pub fn add_area_in_memory(
        &mut self,
        nsid: u32,
        id: AreaId,
        len_bytes: usize,
    ) -> Result<AreaRef, FlashError> {
        if !self.is_read_only() {
            return Err(FlashError::Misuse("areas of an image that can be written are in the image"));
        }
        self.areas.add_in_memory(nsid, id, len_bytes)
    }

    /// The area of that name.
    #[must_use]
    pub fn find_area(&self, nsid: u32, id: AreaId) -> Option<AreaRef> {
        self.areas.find(nsid, id)
    }

    /// Where an area is in the image file: its first byte. `None` where there is no such area any more.
    #[must_use]
    pub fn area_at(&self, area: AreaRef) -> Option<u64> {
        self.areas.place(area)
    }

    /// The bytes of an area, for reading.
    ///
    /// # Panics
    /// When the area was removed with its namespace or its memory was given out by [`Flash::area_memory`].
    #[must_use]
    #[inline]
    pub fn area(&self, area: AreaRef) -> &[u8] {
        self.areas.bytes(area)
    }

    /// The bytes of an area. What is stored here survives the process; stores that belong together are made one by
    /// [`Flash::commit_u64`].
    ///
    /// # Panics
    /// As [`Flash::area`].
    #[inline]
    pub fn protected(&mut self, area: AreaRef) -> &mut [u8] {
        self.ftl.syncs.note_store();
        self.areas.bytes_mut(area)
    }

    /// Stores a little-endian word at byte `at` of an area, a multiple of 8, by one instruction, after every store
    /// made before: the commit of what was stored.
    ///
    /// # Panics
    /// As [`Flash::area`], and when the word is not inside the area.
    #[inline]
    pub fn commit_u64(&mut self, area: AreaRef, at: usize, value: u64) {
        self.ftl.syncs.note_store();
        self.areas.commit(area, at, value);
    }

    /// The little-endian word at byte `at` of an area, a multiple of 8.
    ///
    /// # Panics
    /// As [`Flash::commit_u64`].
    #[must_use]
    #[inline]
    pub fn load_u64(&self, area: AreaRef, at: usize) -> u64 {
        self.areas.word(area, at)
    }

    /// The memory of an area, to be mapped as device memory that hosts store into. From now on it is reached through
    /// this handle alone, which copies and never hands out references: [`Flash::protected`] refuses it.
    ///
    /// # Panics
    /// When the area was removed with its namespace.
    #[must_use]
    pub fn area_memory(&mut self, area: AreaRef) -> Arc<Mapping> {
        self.areas.share(area)
    }
}
