//! Pages in, pages out, with spare bytes.

mod file;
mod inject;
mod null;
mod ram;
mod reader;

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use file::FileMedia;
pub(crate) use inject::InjectedMedia;
pub(crate) use null::NullMedia;
pub(crate) use ram::RamMedia;
pub(crate) use reader::{PageReader, copy_checked};

use crate::error::FlashError;
use crate::geometry::{BlockId, PageId};
use crate::snapshot::Snapshot;

/// What pages are kept on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaKind {
    /// An image file: everything survives the process.
    File(PathBuf),
    /// Memory of this process.
    Ram,
    /// Nothing: pages are accepted and forgotten, reads give zeroes.
    Null,
    /// No bytes: an external engine has them. Pages are mapped, timed and counted, and only zeroes may be written.
    External,
    /// Memory of the process that opens the image file at this path. The file describes a device with its namespaces, which
    /// are empty at every opening.
    DescribedRam(PathBuf),
    /// The same, with pages that are accepted and forgotten.
    DescribedNull(PathBuf),
}

/// How pages are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
    /// Pages of key-value extents are lent from a mapping of the file, and the engine verifies each record that it reads from
    /// them. A disk error under the mapping, or a file that another program truncates, fails every command from then on.
    /// Pages in memory of this process are not verified: no medium was between their writing and their reading.
    #[default]
    Mapped,
    /// Every read is copied out, from a file by a system call, and verified: a failing disk is an error value.
    Checked,
}

/// NAND pages without their timing.
///
/// An implementer keeps the data and spare record of every programmed page until its block is erased, answers every
/// failure with a value, and leaves other pages alone when one fails. It may rely on the translation layer: pages of
/// a block are programmed in ascending order after [`prepare`](Self::prepare), a page is programmed once between
/// erases, and only programmed pages are read.
pub(crate) trait Media: Send + Sync {
    /// Whether what is programmed can be read back. Where not, nothing is mapped.
    fn keeps_data(&self) -> bool;

    /// Whether a read always returns what was programmed, so that verifying a checksum is useless.
    fn is_exact(&self) -> bool {
        false
    }

    /// Takes room for page `page` of `block`, so that programming it cannot find the disk full.
    fn prepare(&mut self, block: BlockId, page: u32) -> Result<(), FlashError>;

    /// Gives the disk room of one erased block back that `is_free`; whether there was one. It is given room anew when it is
    /// prepared.
    ///
    /// # Errors
    /// When the file system refuses.
    fn give_up_room(&mut self, _is_free: &dyn Fn(BlockId) -> bool) -> Result<bool, FlashError> {
        Ok(false)
    }

    /// Writes one page, data first.
    fn program(&mut self, page: PageId, data: &[u8], spare: &[u8]) -> Result<(), FlashError>;

    /// Reads data from byte `at` of a page.
    fn read(&self, page: PageId, at: usize, into: &mut [u8]) -> Result<(), FlashError>;

    /// Data from byte `at` of a programmed page where it lies, for media that can lend it. A medium lends all of its
    /// pages or none.
    fn lend(&self, _page: PageId, _at: usize, _len: usize) -> Option<&[u8]> {
        None
    }

    /// All pages where they lie, one after another from page 0 on, for media that [lend](Self::lend) them in one piece.
    fn lend_all(&self) -> Option<&[u8]> {
        None
    }

    /// Prefetches data that is soon read, where that is cheap.
    fn prefetch(&self, _page: PageId, _at: usize, _len: usize) {}

    /// Reads that had wrong bits which could be corrected.
    fn corrected_reads(&self) -> u64 {
        0
    }

    /// The spare record of a page.
    fn spare(&self, page: PageId) -> &[u8];

    /// Stores bytes of the spare record of a page, to set it right.
    fn write_spare(&mut self, page: PageId, at: usize, bytes: &[u8]);

    /// A reader of units for other threads, of media that are mapped.
    fn reader(&self) -> Option<PageReader> {
        None
    }

    /// Makes the record of a page one that counts for nothing, by one store.
    fn void(&mut self, page: PageId);

    /// Makes a block programmable again. Its room is kept, as it will be needed soon.
    fn erase(&mut self, block: BlockId) -> Result<(), FlashError>;

    /// Has blocks copied before they are erased or wiped, or no longer.
    fn set_copying(&mut self, _copying: Option<Arc<Snapshot>>) {}

    /// Whether blocks are being copied.
    fn is_being_copied(&self) -> bool {
        false
    }

    /// Writes a pattern over bytes of a page where they lie, whether or not it is programmed.
    fn overwrite(&mut self, _page: PageId, _at: usize, _len: usize, _pattern: u32) -> Result<(), FlashError> {
        Ok(())
    }

    /// Makes bytes of a page read as zeroes, whether or not it is programmed, and gives their room back.
    fn wipe(&mut self, page: PageId, at: usize, len: usize) -> Result<(), FlashError>;

    /// Erases a block and gives its room back.
    fn erase_and_free(&mut self, block: BlockId) -> Result<(), FlashError>;
}
