//! The block table: what each block is used for, how far it is written, how much of it is live, how worn it is.
//!
//! An entry is three self-checking words (use, wear, age) and room for one more (reads since erase). Counts are kept in
//! memory too, with the orders in which blocks are taken: free ones by wear, full ones by live data.

use std::collections::BTreeSet;

use crate::error::FlashError;
use crate::geometry::{BlockId, Geometry};
use crate::image::layout::{BLOCK_ENTRY_BYTES, Layout};
use crate::protected::{Backing, Protected};
use crate::victims::{GcPolicy, Victims};
use crate::wear::{WearOrder, WearSummary};
use crate::word;

const USE_WORD: usize = 0;
const WEAR_WORD: usize = 8;
/// Number of the program that filled the block.
const AGE_WORD: usize = 24;

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
    /// Free blocks of each plane, by erases.
    free: Vec<BTreeSet<(u32, BlockId)>>,
    free_count: u32,
    victims: Victims,
    wear: WearOrder,
    /// Number of the last program: the clock of ages.
    now: u64,
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
        let count = geometry.block_count();
        let blocks = (0..count).map(|block| load(&words, BlockId(block), &geometry)).collect();
        let mut table = Self {
            words,
            blocks,
            free: vec![BTreeSet::new(); geometry.plane_count() as usize],
            free_count: 0,
            victims: Victims::new(count, geometry.units_per_block()),
            wear: WearOrder::default(),
            now: 0,
            geometry,
        };
        table.take_up();
        table
    }

    /// Fills the orders from the table.
    fn take_up(&mut self) {
        let mut full = Vec::new();
        for id in (0..self.geometry.block_count()).map(BlockId) {
            let Block { used_for, erases, .. } = *self.get(id);
            match used_for {
                BlockUse::Free => self.give_free(id),
                BlockUse::Full => full.push((self.age_word(id), id)),
                BlockUse::OpenHost | BlockUse::OpenGc | BlockUse::Retired => {}
            }
            if used_for != BlockUse::Retired {
                self.wear.insert(id, erases);
            }
        }
        full.sort_unstable();
        for (filled_at, id) in full {
            self.now = self.now.max(filled_at);
            self.victims.update(id, self.get(id).live, filled_at);
        }
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

    /// How worn the blocks in use are.
    pub(crate) fn wear(&self) -> WearSummary {
        self.wear.summary()
    }

    /// The full block to collect next, if collecting any gains something.
    pub(crate) fn victim(&self, policy: GcPolicy) -> Option<BlockId> {
        self.victims.choose(policy, self.now, |block| self.get(block).erases)
    }

    /// A full block that is so much younger than the oldest that its data should move off it.
    pub(crate) fn too_young(&self) -> Option<BlockId> {
        self.wear.too_young().find(|id| self.get(*id).used_for == BlockUse::Full)
    }

    /// Opens a free block of `plane` or, where it has none, of the plane that has most. What hosts write is likely to
    /// be overwritten soon and goes to the least worn; what garbage collection moves is not, and goes to the most worn.
    pub(crate) fn take_free(&mut self, plane: u32, open: BlockUse) -> Option<BlockId> {
        let mut plane = plane as usize;
        if self.free[plane].is_empty() {
            plane = (0..self.free.len()).max_by_key(|p| self.free[*p].len())?;
        }
        let (_, id) = match open {
            BlockUse::OpenGc => self.free[plane].pop_last()?,
            _ => self.free[plane].pop_first()?,
        };
        self.free_count -= 1;
        self.change(id, |block| block.used_for = open);
        Some(id)
    }

    fn give_free(&mut self, id: BlockId) {
        let erases = self.get(id).erases;
        self.free[self.geometry.plane_of(id) as usize].insert((erases, id));
        self.free_count += 1;
    }

    /// Notes that one more page of an open block is programmed, by program number `seq`; true when it is full now.
    pub(crate) fn note_program(&mut self, id: BlockId, seq: u64) -> bool {
        let pages = self.geometry.pages_per_block;
        self.now = seq;
        if self.get(id).written + 1 == pages {
            self.set_age_word(id, seq);
        }
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
        self.wear.remove(id, self.get(id).erases);
        self.change(id, |block| block.used_for = BlockUse::Retired);
    }

    /// Notes an erase: the block is free.
    pub(crate) fn note_erase(&mut self, id: BlockId) {
        let erases = self.get(id).erases;
        self.wear.remove(id, erases);
        self.wear.insert(id, erases + 1);
        self.change(id, |block| {
            *block = Block { used_for: BlockUse::Free, written: 0, live: 0, erases: erases + 1 };
        });
        store_wear(&mut self.words, id, &self.blocks[id.0 as usize]);
        self.give_free(id);
    }

    #[inline]
    fn change(&mut self, id: BlockId, how: impl FnOnce(&mut Block)) {
        let block = &mut self.blocks[id.0 as usize];
        how(block);
        store(&mut self.words, id, block);
        match block.used_for {
            BlockUse::Full => self.victims.update(id, block.live, self.now),
            _ => self.victims.remove(id),
        }
    }

    fn age_word(&self, id: BlockId) -> u64 {
        let at = id.0 as usize * BLOCK_ENTRY_BYTES + AGE_WORD;
        word::unseal(self.words.word(at), place(id, AGE_WORD)).unwrap_or(0)
    }

    fn set_age_word(&mut self, id: BlockId, seq: u64) {
        let at = id.0 as usize * BLOCK_ENTRY_BYTES + AGE_WORD;
        self.words.set_word(at, word::seal(seq.min(word::MAX_VALUE), place(id, AGE_WORD)));
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
