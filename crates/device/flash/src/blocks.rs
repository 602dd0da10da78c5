//! The block table: what each block is used for, how far it is written, how much of it is live, how worn it is.
//!
//! An entry is two self-checking words and room for two more (reads since erase, age). Counts are kept in memory too.

use std::collections::VecDeque;

use crate::error::FlashError;
use crate::geometry::{BlockId, Geometry};
use crate::image::layout::{BLOCK_ENTRY_BYTES, Layout};
use crate::protected::{Backing, Protected};
use crate::word;

const USE_WORD: usize = 0;
const WEAR_WORD: usize = 8;

/// Keeps checks of this table apart from those of the map.
const PLACE: u64 = 1 << 60;

/// What a block is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockUse {
    Free,
    /// Being filled with what callers write.
    OpenHost,
    /// Being filled by garbage collection.
    OpenGc,
    Full,
    /// Its entry or a spare record in it is damaged: never written, never erased, still read.
    Retired,
}

/// One block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) used_for: BlockUse,
    /// Pages programmed since the erase.
    pub(crate) written: u32,
    /// Units that the map points to.
    pub(crate) live: u32,
    pub(crate) erases: u32,
}

impl Block {
    fn to_value(self) -> u64 {
        let used_for = match self.used_for {
            BlockUse::Free => 0,
            BlockUse::OpenHost => 1,
            BlockUse::OpenGc => 2,
            BlockUse::Full => 3,
            BlockUse::Retired => 4,
        };
        used_for << 44 | u64::from(self.written) << 24 | u64::from(self.live)
    }

    fn from_values(value: u64, erases: u64) -> Option<Self> {
        let used_for = match value >> 44 {
            0 => BlockUse::Free,
            1 => BlockUse::OpenHost,
            2 => BlockUse::OpenGc,
            3 => BlockUse::Full,
            4 => BlockUse::Retired,
            _ => return None,
        };
        let written = (value >> 24 & 0xF_FFFF) as u32;
        Some(Self { used_for, written, live: (value & 0xFF_FFFF) as u32, erases: erases as u32 })
    }
}

/// All blocks of the array.
#[derive(Debug)]
pub(crate) struct BlockTable {
    words: Protected,
    blocks: Vec<Block>,
    /// Free blocks of each plane, the one that was erased first in front.
    free: Vec<VecDeque<BlockId>>,
    free_count: u32,
    geometry: Geometry,
}

impl BlockTable {
    /// The table of a new device: every block free.
    pub(crate) fn create(
        backing: &Backing,
        layout: &Layout,
        geometry: &Geometry,
    ) -> Result<Self, FlashError> {
        let mut words = backing.map(layout.blocks)?;
        let fresh = Block { used_for: BlockUse::Free, written: 0, live: 0, erases: 0 };
        for block in 0..geometry.block_count() {
            store(&mut words, BlockId(block), &fresh);
            store_wear(&mut words, BlockId(block), &fresh);
        }
        Ok(Self::read(words, *geometry))
    }

    /// Reads the table; a damaged entry retires its block.
    pub(crate) fn open(backing: &Backing, layout: &Layout, geometry: &Geometry) -> Result<Self, FlashError> {
        Ok(Self::read(backing.map(layout.blocks)?, *geometry))
    }

    fn read(words: Protected, geometry: Geometry) -> Self {
        let blocks: Vec<Block> =
            (0..geometry.block_count()).map(|block| load(&words, BlockId(block), &geometry)).collect();
        let mut free = vec![VecDeque::new(); geometry.plane_count() as usize];
        let ids = (0..geometry.block_count()).map(BlockId);
        for (id, _) in ids.zip(&blocks).filter(|(_, block)| block.used_for == BlockUse::Free) {
            free[geometry.plane_of(id) as usize].push_back(id);
        }
        let free_count = free.iter().map(|plane| plane.len() as u32).sum();
        Self { words, blocks, free, free_count, geometry }
    }

    #[inline]
    pub(crate) fn get(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        (0..).map(BlockId).zip(&self.blocks)
    }

    pub(crate) const fn free_count(&self) -> u32 {
        self.free_count
    }

    /// Opens a free block, of `plane` or, where `any_plane`, of the plane that has most.
    pub(crate) fn take_free(&mut self, plane: u32, any_plane: bool, open: BlockUse) -> Option<BlockId> {
        let mut plane = plane as usize;
        if self.free[plane].is_empty() && any_plane {
            plane = (0..self.free.len()).max_by_key(|p| self.free[*p].len())?;
        }
        let id = self.free[plane].pop_front()?;
        self.free_count -= 1;
        self.change(id, |block| block.used_for = open);
        Some(id)
    }

    /// Notes that one more page of an open block is programmed; true when it is full now.
    pub(crate) fn note_program(&mut self, id: BlockId) -> bool {
        let pages = self.geometry.pages_per_block;
        self.change(id, |block| {
            block.written += 1;
            if block.written == pages {
                block.used_for = BlockUse::Full;
            }
        });
        self.get(id).written == pages
    }

    #[inline]
    pub(crate) fn add_live(&mut self, id: BlockId, units: u32) {
        self.change(id, |block| block.live += units);
    }

    #[inline]
    pub(crate) fn remove_live(&mut self, id: BlockId, units: u32) {
        self.change(id, |block| block.live = block.live.saturating_sub(units));
    }

    pub(crate) fn set_live(&mut self, id: BlockId, units: u32) {
        self.change(id, |block| block.live = units);
    }

    pub(crate) fn retire(&mut self, id: BlockId) {
        self.change(id, |block| block.used_for = BlockUse::Retired);
    }

    /// Notes an erase: the block is free.
    pub(crate) fn note_erase(&mut self, id: BlockId) {
        self.change(id, |block| {
            *block = Block { used_for: BlockUse::Free, written: 0, live: 0, erases: block.erases + 1 };
        });
        store_wear(&mut self.words, id, &self.blocks[id.0 as usize]);
        self.free[self.geometry.plane_of(id) as usize].push_back(id);
        self.free_count += 1;
    }

    #[inline]
    fn change(&mut self, id: BlockId, how: impl FnOnce(&mut Block)) {
        let block = &mut self.blocks[id.0 as usize];
        how(block);
        store(&mut self.words, id, block);
    }
}

fn load(words: &Protected, id: BlockId, geometry: &Geometry) -> Block {
    let at = id.0 as usize * BLOCK_ENTRY_BYTES;
    let value = word::unseal(words.word(at + USE_WORD), place(id, USE_WORD));
    let erases = word::unseal(words.word(at + WEAR_WORD), place(id, WEAR_WORD));
    let block = value.zip(erases).and_then(|(value, erases)| Block::from_values(value, erases));
    let fits =
        |block: &Block| block.written <= geometry.pages_per_block && block.live <= geometry.units_per_block();
    let unknown = Block {
        used_for: BlockUse::Retired,
        written: geometry.pages_per_block,
        live: 0,
        erases: erases.unwrap_or(0) as u32,
    };
    block.filter(fits).unwrap_or(unknown)
}

#[inline]
fn store(words: &mut Protected, id: BlockId, block: &Block) {
    let at = id.0 as usize * BLOCK_ENTRY_BYTES + USE_WORD;
    words.set_word(at, word::seal(block.to_value(), place(id, USE_WORD)));
}

fn store_wear(words: &mut Protected, id: BlockId, block: &Block) {
    let at = id.0 as usize * BLOCK_ENTRY_BYTES + WEAR_WORD;
    words.set_word(at, word::seal(u64::from(block.erases), place(id, WEAR_WORD)));
}

const fn place(id: BlockId, word: usize) -> u64 {
    PLACE | (id.0 as u64) << 8 | word as u64
}
