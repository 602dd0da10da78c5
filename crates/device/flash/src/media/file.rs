//! Pages in the image file: data by `pread` and `pwrite`, spare records in a mapped region.
//!
//! Data may be lent from a mapping that is only read ([`Reads::Mapped`]): a record is then copied once, from where it
//! lies to where it is wanted. Without it, a short file or a failing disk is an error value and never a signal.

use std::collections::HashMap;
use std::sync::Arc;

use byway_sys::{ImageFile, ReadMapping, ZEROES_BYTES, zeroes};

use super::{Media, PageReader, Reads};
use crate::durability::Durability;
use crate::error::FlashError;
use crate::geometry::{BlockId, Geometry, PageId};
use crate::image::layout::{Layout, Range};
use crate::options::RunOptions;
use crate::protected::{Backing, Published};
use crate::snapshot::Snapshot;
use crate::spare::VOID;

/// Bytes written over at once.
const WIPE_BYTES: usize = 256 << 10;

/// Data taken room for at once, so that a block that stays nearly empty takes little.
const ROOM_BYTES: u64 = ZEROES_BYTES as u64;

pub(crate) struct FileMedia {
    file: Arc<ImageFile>,
    geometry: Geometry,
    pages: Range,
    spare_range: Range,
    spare: Published,
    view: Option<Arc<ReadMapping>>,
    durability: Durability,
    /// Pages of an image opened read-only that a check has set right.
    private: HashMap<PageId, Vec<u8>>,
    copying: Option<Arc<Snapshot>>,
    rooms: Rooms,
    /// Erased blocks that may have disk room; `None` until they were looked for.
    erased: Option<Erased>,
}

/// Erased blocks that may have disk room, newest last, each once.
struct Erased {
    blocks: Vec<BlockId>,
    /// Whether each block is among them.
    is_listed: Vec<bool>,
}

impl Erased {
    fn all(geometry: &Geometry) -> Self {
        let count = geometry.block_count();
        Self { blocks: (0..count).map(BlockId).collect(), is_listed: vec![true; count as usize] }
    }

    fn push(&mut self, block: BlockId) {
        if let Some(is_listed @ false) = self.is_listed.get_mut(block.0 as usize) {
            *is_listed = true;
            self.blocks.push(block);
        }
    }

    fn pop(&mut self) -> Option<BlockId> {
        let block = self.blocks.pop()?;
        if let Some(is_listed) = self.is_listed.get_mut(block.0 as usize) {
            *is_listed = false;
        }
        Some(block)
    }
}

/// Disk room that is kept for commands which make room: some thousand deletions, and what the index takes to be written anew.
const SPARE_BYTES_MAX: u64 = 2 << 20;

/// Of a small image, part of its pages that this is at most.
const SPARE_PART: u64 = 16;

/// Which pieces of blocks were given room since the file was opened: the system is not asked for it again, as that costs
/// as much as a tenth of writing them.
struct Rooms {
    /// A bit for each piece.
    words: Vec<u64>,
    of_block: usize,
}

impl Rooms {
    fn new(geometry: &Geometry) -> Self {
        let of_block = geometry.block_bytes().div_ceil(ROOM_BYTES) as usize;
        Self { words: vec![0; (geometry.block_count() as usize * of_block).div_ceil(64)], of_block }
    }

    #[inline]
    fn holds(&self, block: BlockId, piece: usize) -> bool {
        let bit = block.0 as usize * self.of_block + piece;
        self.words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    fn has_any(&self, block: BlockId) -> bool {
        (0..self.of_block).any(|piece| self.holds(block, piece))
    }

    fn note(&mut self, block: BlockId, piece: usize) {
        let bit = block.0 as usize * self.of_block + piece;
        if let Some(word) = self.words.get_mut(bit / 64) {
            *word |= 1 << (bit % 64);
        }
    }

    /// A block may have lost room.
    fn forget(&mut self, block: BlockId) {
        for bit in (0..self.of_block).map(|piece| block.0 as usize * self.of_block + piece) {
            if let Some(word) = self.words.get_mut(bit / 64) {
                *word &= !(1 << (bit % 64));
            }
        }
    }
}

impl FileMedia {
    pub(crate) fn open(
        file: Arc<ImageFile>,
        geometry: Geometry,
        layout: &Layout,
        run: &RunOptions,
    ) -> Result<Self, FlashError> {
        let spare = Backing::File(Arc::clone(&file)).map_published(layout.spare)?;
        let pages = layout.pages;
        file.keep_spare((pages.len / SPARE_PART).min(SPARE_BYTES_MAX));
        // Without address space for a mapping of all of it, reads go through system calls.
        let view = match run.reads {
            Reads::Mapped if !file.has_watched_reads() => {
                file.map_to_read(pages.at, pages.len).ok().map(Arc::new)
            }
            _ => None,
        };
        Ok(Self {
            file,
            geometry,
            pages,
            spare_range: layout.spare,
            spare,
            view,
            durability: run.durability,
            private: HashMap::new(),
            copying: None,
            rooms: Rooms::new(&geometry),
            erased: None,
        })
    }

    /// Byte `at` of a page, counted from the first page of all.
    #[inline]
    fn in_pages(&self, page: PageId, at: usize) -> u64 {
        page.0 * u64::from(self.geometry.page_bytes) + at as u64
    }

    fn data_at(&self, page: PageId) -> u64 {
        self.pages.at + self.in_pages(page, 0)
    }

    /// Copies a block that is about to lose what it holds.
    fn copy_first(&self, block: BlockId) {
        if let Some(copying) = &self.copying {
            copying.copy_block(block.0);
        }
    }

    /// Takes room for data. Where completions wait for syncs, room that was never written is filled with zeroes: the file
    /// system notes the first write to each piece of it, and a sync would wait for those notes.
    fn take_room(&self, at: u64, len: u64) -> Result<(), FlashError> {
        self.file.allocate(at, len)?;
        if self.durability == Durability::Process || !self.file.data_ranges(at, len)?.is_empty() {
            return Ok(());
        }
        Ok(self.file.write_at(at, &zeroes()[..len as usize])?)
    }

    /// Allocates disk space for a piece of a block, and with its first piece since the opening for its spare records too: a copied
    /// image may lack the space that was allocated for open blocks.
    #[cold]
    fn take_piece(&mut self, block: BlockId, piece: usize) -> Result<(), FlashError> {
        if !self.rooms.has_any(block) {
            let (at, len) = self.block_spare(block);
            let range = self.spare_range.part(at as u64, len as u64);
            self.file.allocate(range.at, range.len)?;
        }
        let offset = piece as u64 * ROOM_BYTES;
        let len = ROOM_BYTES.min(self.geometry.block_bytes() - offset);
        self.take_room(self.data_at(self.geometry.page(block, 0)) + offset, len)?;
        self.rooms.note(block, piece);
        Ok(())
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
        let offset = u64::from(page) * u64::from(self.geometry.page_bytes);
        let piece = (offset / ROOM_BYTES) as usize;
        if self.rooms.holds(block, piece) { Ok(()) } else { self.take_piece(block, piece) }
    }

    fn give_up_room(&mut self, is_free: &dyn Fn(BlockId) -> bool) -> Result<bool, FlashError> {
        if self.file.is_read_only() {
            return Ok(false);
        }
        let erased = self.erased.get_or_insert_with(|| Erased::all(&self.geometry));
        while let Some(block) = erased.pop() {
            let data = self.pages.at + u64::from(block.0) * self.geometry.block_bytes();
            let len = self.geometry.block_bytes();
            if !is_free(block) || self.file.data_ranges(data, len)?.is_empty() {
                continue;
            }
            if let Some(copying) = &self.copying {
                copying.copy_block(block.0);
            }
            self.rooms.forget(block);
            self.file.punch(data, len)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn program(&mut self, page: PageId, data: &[u8], spare: &[u8]) -> Result<(), FlashError> {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::at(crate::power_loss::Point::Program);
        if self.file.is_read_only() {
            self.private.insert(page, data.to_vec());
        } else {
            self.file.write_at(self.data_at(page), data)?;
        }
        // The first word is stored last, and a record without it is void: a partial write-back leaves no valid record.
        let at = page.0 as usize * spare.len();
        self.spare.write(at + 8, &spare[8..]);
        self.spare.set_word(at, u64::from_le_bytes(*spare.first_chunk().unwrap_or(&[0; 8])));
        Ok(())
    }

    fn read(&self, page: PageId, at: usize, into: &mut [u8]) -> Result<(), FlashError> {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::at(crate::power_loss::Point::Read);
        if let Some(data) = self.private.get(&page) {
            into.copy_from_slice(&data[at..at + into.len()]);
            return Ok(());
        }
        Ok(self.file.read_at(self.data_at(page) + at as u64, into)?)
    }

    #[inline]
    fn lend(&self, page: PageId, at: usize, len: usize) -> Option<&[u8]> {
        self.view.as_ref().filter(|view| !view.is_lost())?.bytes(self.in_pages(page, at), len)
    }

    fn lend_all(&self) -> Option<&[u8]> {
        self.view.as_ref().filter(|view| !view.is_lost())?.all()
    }

    fn prefetch(&self, page: PageId, at: usize, len: usize) {
        if let Some(view) = &self.view {
            view.prefetch(self.in_pages(page, at), len);
        }
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
        // What a check has set right is not in the file.
        let is_as_in_file = !self.file.is_read_only() || self.file.is_beside();
        let view = self.view.as_ref().filter(|_| is_as_in_file)?;
        Some(PageReader::of_file(&self.geometry, self.spare.reader(), Arc::clone(view)))
    }

    fn set_copying(&mut self, copying: Option<Arc<Snapshot>>) {
        self.copying = copying;
    }

    fn is_being_copied(&self) -> bool {
        self.copying.is_some()
    }

    fn void(&mut self, page: PageId) {
        let at = page.0 as usize * self.geometry.spare_record_bytes();
        self.spare.set_word(at, VOID);
    }

    fn erase(&mut self, block: BlockId) -> Result<(), FlashError> {
        #[cfg(any(test, feature = "power_loss"))]
        crate::power_loss::at(crate::power_loss::Point::Erase);
        self.copy_first(block);
        let (at, len) = self.block_spare(block);
        self.spare.clear(at, len);
        if let Some(erased) = &mut self.erased {
            erased.push(block);
        }
        Ok(())
    }

    fn overwrite(&mut self, page: PageId, at: usize, len: usize, pattern: u32) -> Result<(), FlashError> {
        self.copy_first(self.geometry.block_of(page));
        let at = self.data_at(page) + at as u64;
        let filled: Vec<u8> = pattern.to_le_bytes().repeat(len.min(WIPE_BYTES).div_ceil(4));
        // Only what has room: a hole holds nothing to write over.
        for range in self.file.data_ranges(at, len as u64)? {
            for from in range.clone().step_by(WIPE_BYTES) {
                let piece = (range.end - from).min(WIPE_BYTES as u64) as usize;
                self.file.write_at(from, &filled[..piece])?;
            }
        }
        Ok(())
    }

    fn wipe(&mut self, page: PageId, at: usize, len: usize) -> Result<(), FlashError> {
        self.copy_first(self.geometry.block_of(page));
        self.rooms.forget(self.geometry.block_of(page));
        Ok(self.file.punch(self.data_at(page) + at as u64, len as u64)?)
    }

    fn erase_and_free(&mut self, block: BlockId) -> Result<(), FlashError> {
        self.erase(block)?;
        self.rooms.forget(block);
        let data = self.data_at(self.geometry.page(block, 0));
        Ok(self.file.punch(data, self.geometry.block_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_erased_again_and_again_are_listed_once() {
        let mut erased = Erased { blocks: Vec::new(), is_listed: vec![false; 4] };
        for block in [2, 1, 2, 2, 1].map(BlockId) {
            erased.push(block);
        }
        assert_eq!([erased.pop(), erased.pop(), erased.pop()], [Some(BlockId(1)), Some(BlockId(2)), None]);
        erased.push(BlockId(2));
        assert_eq!([erased.pop(), erased.pop()], [Some(BlockId(2)), None]);
    }

    #[test]
    fn forgetting_a_block_keeps_the_pieces_of_its_neighbours() {
        let mut rooms = Rooms { words: vec![0; 4], of_block: 24 };
        let all = || (0..10).flat_map(|block| (0..24).map(move |piece| (BlockId(block), piece)));
        assert!(all().all(|(block, piece)| !rooms.holds(block, piece)));
        all().for_each(|(block, piece)| rooms.note(block, piece));
        rooms.forget(BlockId(5));
        assert!(all().all(|(block, piece)| rooms.holds(block, piece) == (block != BlockId(5))));
    }
}
