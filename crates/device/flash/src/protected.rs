//! Where power-protected state lives: ranges of the image mapped as memory, or plain memory for `ram` and `null`.
//!
//! What an SSD keeps in DRAM behind capacitors is here memory shared with the image file, so it survives the death of
//! the process at any instruction: the kernel has every store that was executed. Stores that must be last are single
//! aligned words ([`Protected::set_word`]).

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use byway_sys::{ExclusiveMapping, ImageFile, MappingReader, PublishedMapping, SharedMapping, WriteFault};

use crate::error::FlashError;
use crate::image::layout::Range;

/// What the regions of a device are made of.
#[derive(Debug, Clone)]
pub(crate) enum Backing {
    File(Arc<ImageFile>),
    Memory,
}

impl Backing {
    /// Maps a region. Only parts that were [allocated](Self::allocate) may be touched.
    pub(crate) fn map(&self, range: Range) -> Result<Protected, FlashError> {
        let map = match self {
            Self::File(file) if file.is_beside() => copy_of(file, range)?,
            Self::File(file) => file.map(range.at, range.len as usize)?,
            Self::Memory => ExclusiveMapping::anonymous(range.len as usize).map_err(FlashError::Memory)?,
        };
        Ok(Protected { map })
    }

    /// Maps a region that other threads read too. Beside a writer it is the writer's, and is only read.
    pub(crate) fn map_published(&self, range: Range) -> Result<Published, FlashError> {
        if let Self::File(file) = self
            && file.is_beside()
        {
            return Ok(Published { map: file.map_live(range.at, range.len as usize)? });
        }
        Ok(Published { map: self.map(range)?.map.into() })
    }

    /// Maps a region that several threads write.
    pub(crate) fn map_shared(&self, range: Range) -> Result<Shared, FlashError> {
        Ok(Shared { map: self.map_published(range)?.map.into_shared() })
    }

    /// Beside a writer, a reader of what the writer has in a region.
    pub(crate) fn live(&self, range: Range) -> Result<Option<MappingReader>, FlashError> {
        match self {
            Self::File(file) if file.is_beside() => {
                Ok(Some(file.map_live(range.at, range.len as usize)?.reader()))
            }
            _ => Ok(None),
        }
    }

    /// Whether the image is read beside the process that writes it.
    pub(crate) fn is_beside(&self) -> bool {
        matches!(self, Self::File(file) if file.is_beside())
    }

    /// Takes disk room for a range, so that a store there cannot fail.
    pub(crate) fn allocate(&self, range: Range) -> Result<(), FlashError> {
        match self {
            Self::File(file) if file.is_read_only() => Err(FlashError::ReadOnly),
            Self::File(file) => Ok(file.allocate(range.at, range.len)?),
            Self::Memory => Ok(()),
        }
    }

    /// Sets whether the running command may use the disk reserve.
    pub(crate) fn spend_spare(&self, is_spent: bool) {
        if let Self::File(file) = self {
            file.spend_spare(is_spent);
        }
    }

    /// Whether all of that room is there.
    pub(crate) fn has_spare(&self) -> bool {
        match self {
            Self::File(file) => file.has_spare(),
            Self::Memory => true,
        }
    }

    /// Gives disk room back; the range reads as zeroes. Memory has none to give: its mapping is dropped or discarded.
    pub(crate) fn release(&self, range: Range) -> Result<(), FlashError> {
        match self {
            Self::File(file) => Ok(file.punch(range.at, range.len)?),
            Self::Memory => Ok(()),
        }
    }

    /// The parts of a range that are not holes, counted from its beginning. A look into a hole takes room of a file system
    /// that is memory, and ends the process where that is full.
    pub(crate) fn stored(&self, range: Range) -> Vec<std::ops::Range<u64>> {
        let all = 0..range.len;
        match self {
            Self::File(file) => file.data_ranges(range.at, range.len).map_or_else(
                |_| vec![all],
                |found| found.into_iter().map(|part| part.start - range.at..part.end - range.at).collect(),
            ),
            Self::Memory => vec![all],
        }
    }

    pub(crate) fn sync(&self) -> Result<(), FlashError> {
        match self {
            Self::File(file) if !file.is_read_only() => Ok(file.sync()?),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Self::File(file) if file.is_read_only())
    }

    /// Whether mapped regions were cut off the file by another program, or its beginning was overwritten.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::File(file) => file.is_lost(),
            Self::Memory => false,
        }
    }

    /// Whether another program has truncated or overwritten the file.
    #[inline]
    pub(crate) fn is_truncated(&self) -> bool {
        match self {
            Self::File(file) => file.is_truncated(),
            Self::Memory => false,
        }
    }

    /// Why the file takes no writes, if it does not.
    #[inline]
    pub(crate) fn write_fault(&self) -> Option<WriteFault> {
        match self {
            Self::File(file) => file.write_fault(),
            Self::Memory => None,
        }
    }
}

/// Memory of this process with what a region of the file holds now.
fn copy_of(file: &ImageFile, range: Range) -> Result<ExclusiveMapping, FlashError> {
    let mut map = ExclusiveMapping::anonymous(range.len as usize).map_err(FlashError::Memory)?;
    file.read_at(range.at, &mut map)?;
    Ok(map)
}

/// Says to any thread whether the image takes writes, as far as its file knows.
#[derive(Debug, Clone)]
pub struct ImageWatch(pub(crate) Backing);

impl ImageWatch {
    /// Whether the file was neither truncated nor overwritten by another program, and no write to it has failed.
    #[inline]
    #[must_use]
    pub fn takes_writes(&self) -> bool {
        !self.0.is_truncated() && self.0.write_fault().is_none()
    }
}

/// One mapped region.
#[derive(Debug)]
pub(crate) struct Protected {
    map: ExclusiveMapping,
}

impl Protected {
    /// The word at byte `at`, which the caller keeps inside the region and aligned.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.map.load_u64(at).expect("words lie inside their region")
    }

    /// Stores a word by one instruction, in program order with every store before and after.
    #[inline]
    pub(crate) fn set_word(&mut self, at: usize, value: u64) {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::before_store();
        self.map.store_u64(at, value).expect("words lie inside their region");
    }

    pub(crate) fn into_mapping(self) -> ExclusiveMapping {
        self.map
    }
}

impl Deref for Protected {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl DerefMut for Protected {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::at(crate::power_loss::Point::Store);
        &mut self.map
    }
}

/// One mapped region that other threads read while the device stores to it.
///
/// A reader that copies any byte that was [written](Self::write) sees, behind an acquire fence, every word that was stored before:
/// it loads the word that names the bytes once more.
#[derive(Debug)]
pub(crate) struct Published {
    map: PublishedMapping,
}

impl Published {
    /// As [`Protected::word`].
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.map.load_u64(at).expect("words lie inside their region")
    }

    /// As [`Protected::set_word`].
    #[inline]
    pub(crate) fn set_word(&mut self, at: usize, value: u64) {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::before_store();
        self.map.store_u64(at, value).expect("words lie inside their region");
    }

    /// Stores bytes, which the caller keeps inside the region.
    #[inline]
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::at(crate::power_loss::Point::Store);
        fence(Ordering::Release);
        self.map.write_at(at, bytes).expect("bytes lie inside their region");
    }

    /// Stores zeroes, from the first byte to the last.
    pub(crate) fn clear(&mut self, at: usize, len: usize) {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::at(crate::power_loss::Point::Store);
        fence(Ordering::Release);
        self.map.fill_at(at, len, 0).expect("bytes lie inside their region");
    }

    /// Gives memory back where it is plain memory.
    pub(crate) fn discard(&mut self, at: usize, len: usize) -> Result<(), FlashError> {
        self.map.discard(at, len).map_err(FlashError::Memory)
    }

    /// Takes all of it from the system where it is plain memory.
    pub(crate) fn take_now(&mut self) -> Result<(), FlashError> {
        self.map.populate().map_err(FlashError::Memory)
    }

    /// A reader for other threads.
    pub(crate) fn reader(&self) -> MappingReader {
        self.map.reader()
    }
}

impl Deref for Published {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.map
    }
}

/// One mapped region that several threads write: the device, and those that it has lent parts of it to.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    map: SharedMapping,
}

impl Shared {
    /// As [`Protected::word`].
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.map.load_u64(at).expect("words lie inside their region")
    }

    /// As [`Protected::set_word`].
    #[inline]
    pub(crate) fn set_word(&self, at: usize, value: u64) {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::before_store();
        self.map.store_u64(at, value).expect("words lie inside their region");
    }

    /// As [`Published::write`].
    #[inline]
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::at(crate::power_loss::Point::Store);
        fence(Ordering::Release);
        self.map.write_at(at, bytes).expect("bytes lie inside their region");
    }

    /// Copies bytes out, which the caller keeps inside the region.
    #[inline]
    pub(crate) fn copy(&self, at: usize, into: &mut [u8]) {
        self.map.copy_at(at, into).expect("bytes lie inside their region");
    }

    /// Stores zeroes, from the first byte to the last.
    pub(crate) fn clear(&self, at: usize, len: usize) {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::at(crate::power_loss::Point::Store);
        fence(Ordering::Release);
        self.map.fill_at(at, len, 0).expect("bytes lie inside their region");
    }

    /// A reader for other threads.
    pub(crate) fn reader(&self) -> MappingReader {
        self.map.reader()
    }
}
