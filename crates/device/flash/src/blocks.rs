//! The block table: what each block is used for, how far it is written, how much of it is live, how worn it is.
//!
//! Counts are kept in memory too, with the orders in which blocks are taken: free ones by wear, full ones by live data.

use crate::bit_repair::RepairLog;
use crate::block::FactoryBad;
use crate::block::{
    AGE_WORD, BadBlocks, Block, BlockUse, READS_WORD, USE_WORD, WEAR_WORD, load, place, repair, store,
    store_wear,
};
use crate::durability::Epoch;
use crate::error::FlashError;
use crate::free::{FreeBlocks, Worn};
use crate::geometry::{BlockId, Geometry};
use crate::image::layout::{BLOCK_ENTRY_BYTES, Layout};
use crate::injection::splitmix;
use crate::protected::{Backing, Protected};
use crate::victims::{GcPolicy, Victims};
use crate::wear::{WearOrder, WearSummary};
use crate::word;

/// Data is cold that stayed in its block while pages were programmed for so many whole arrays. Where every place is as likely
/// to be overwritten, hardly any stays for one and a half.
const COLD_ARRAYS: u64 = 2;

/// All blocks of the array.
#[derive(Debug)]
pub(crate) struct BlockTable {
    words: Protected,
    blocks: Vec<Block>,
    free: FreeBlocks,
    victims: Victims,
    wear: WearOrder,
    bad: BadBlocks,
    /// Blocks that may be bad, from the start or since, while the device can be written.
    bad_most: u32,
    /// Blocks that failed and still hold data.
    failing: Vec<BlockId>,
    /// Pages programmed: the clock of ages.
    now: u64,
    /// When each block was erased last, if that was since the device was opened.
    erased_in: Vec<Epoch>,
    geometry: Geometry,
}

impl BlockTable {
    /// The table of a new device: every block free, but those that the factory found bad.
    pub(crate) fn create(
        backing: &Backing,
        layout: &Layout,
        geometry: &Geometry,
        factory_bad: FactoryBad,
    ) -> Result<Self, FlashError> {
        let mut words = backing.map(layout.blocks)?;
        let mut random = factory_bad.seed;
        for block in 0..geometry.block_count() {
            let is_bad = splitmix(&mut random) % 1_000_000 < u64::from(factory_bad.ppm);
            let used_for = if is_bad { BlockUse::FactoryBad } else { BlockUse::Free };
            let fresh = Block { used_for, written: 0, live: 0, erases: 0 };
            store(&mut words, BlockId(block), &fresh);
            store_wear(&mut words, BlockId(block), &fresh);
        }
        Ok(Self::read(words, *geometry))
    }

    /// Reads the table; a damaged entry retires its block. With a repair log, what can be set right is first.
    pub(crate) fn open(
        backing: &Backing,
        layout: &Layout,
        geometry: &Geometry,
        repair_log: RepairLog<'_>,
    ) -> Result<Self, FlashError> {
        let mut words = backing.map(layout.blocks)?;
        if let Some(findings) = repair_log {
            findings
                .extend((0..geometry.block_count()).filter_map(|block| repair(&mut words, BlockId(block))));
        }
        Ok(Self::read(words, *geometry))
    }

    fn read(words: Protected, geometry: Geometry) -> Self {
        let count = geometry.block_count();
        let blocks = (0..count).map(|block| load(&words, BlockId(block), &geometry)).collect();
        let mut table = Self {
            words,
            blocks,
            free: FreeBlocks::new(&geometry),
            victims: Victims::new(count, geometry.units_per_block()),
            wear: WearOrder::default(),
            bad: BadBlocks::default(),
            bad_most: count,
            failing: Vec::new(),
            now: 0,
            erased_in: vec![Epoch::default(); count as usize],
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
                BlockUse::Retired => self.bad.retired += 1,
                BlockUse::FactoryBad => self.bad.factory += 1,
                BlockUse::Bad => self.bad.grown += 1,
                BlockUse::Failing => {
                    self.bad.grown += 1;
                    self.failing.push(id);
                }
                _ => {}
            }
            if used_for.is_good() {
                self.wear.insert(id, erases);
            }
        }
        full.sort_unstable();
        for (filled_at, id) in full {
            self.now = self.now.max(filled_at);
            self.victims.update(id, self.get(id).live, filled_at);
        }
    }

    /// Units that a block has room for.
    pub(crate) const fn units_per_block(&self) -> u32 {
        self.geometry.units_per_block()
    }

    #[inline]
    pub(crate) fn get(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// Pages of a block that are programmed since its erase; none of a block that does not exist.
    #[inline]
    pub(crate) fn written(&self, block: u32) -> u32 {
        self.blocks.get(block as usize).map_or(0, |block| block.written)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        (0..).map(BlockId).zip(&self.blocks)
    }

    /// Whether an entry does not match its checksum. Its block was taken out of use when the table was read.
    pub(crate) fn is_damaged(&self, id: BlockId) -> bool {
        let at = id.0 as usize * BLOCK_ENTRY_BYTES;
        let good = |word| word::unseal(self.words.word(at + word), place(id, word)).is_some();
        !(good(USE_WORD) && good(WEAR_WORD))
    }

    pub(crate) const fn free_count(&self) -> u32 {
        self.free.count()
    }

    /// A full block that holds nothing, where there are too few free ones to choose among.
    #[inline]
    pub(crate) fn wanted_dead(&self) -> Option<BlockId> {
        if !self.free.are_few() {
            return None;
        }
        self.dead()
    }

    /// A full block that holds nothing.
    pub(crate) fn dead(&self) -> Option<BlockId> {
        self.victims.emptiest(|block| self.get(block).erases).filter(|block| self.get(*block).live == 0)
    }

    /// How worn the blocks in use are.
    pub(crate) fn wear(&self) -> WearSummary {
        self.wear.summary()
    }

    /// The full block to collect next, if collecting any gains something.
    pub(crate) fn victim(&self, policy: GcPolicy) -> Option<BlockId> {
        self.victims.choose(policy, self.now, |block| self.get(block).erases)
    }

    /// A full block with cold data that has far fewer erases than others: static wear levelling moves its data, as garbage
    /// collection would not.
    pub(crate) fn too_young(&self) -> Option<BlockId> {
        let array_pages = u64::from(self.geometry.block_count()) * u64::from(self.geometry.pages_per_block);
        self.wear.too_young().find(|id| self.age(*id) > COLD_ARRAYS * array_pages)
    }

    /// Opens a free block. Units that hosts write take planes in turn, and the least worn of each; what garbage collection
    /// moves stays, and takes the most worn, if that is not far ahead already. Pages take what suits how long they live.
    pub(crate) fn take_free(&mut self, plane: u32, open: BlockUse) -> Option<BlockId> {
        let id = match open {
            BlockUse::OpenValues | BlockUse::OpenMoved => self.free.take(Worn::Most, plane),
            BlockUse::OpenIndex | BlockUse::OpenMerged => self.free.take(Worn::Least, plane),
            BlockUse::OpenGc if !self.wear.is_too_old(self.free.most_erases(plane)?) => {
                self.free.take_of_plane(plane, Worn::Most)
            }
            _ => self.free.take_of_plane(plane, Worn::Least),
        }?;
        self.change(id, |block| block.used_for = open);
        Some(id)
    }

    fn give_free(&mut self, id: BlockId) {
        self.free.insert(id, self.get(id).erases);
    }

    /// Notes that one more page of an open block is programmed, the `programs`th of the array; true when it is full now.
    pub(crate) fn note_program(&mut self, id: BlockId, programs: u64) -> bool {
        let pages = self.geometry.pages_per_block;
        self.now = programs;
        if self.get(id).written + 1 == pages {
            self.set_age_word(id, programs);
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
        let most = self.geometry.units_per_block();
        self.change(id, |block| block.live = block.live.saturating_add(units).min(most));
    }

    #[inline]
    pub(crate) fn remove_live(&mut self, id: BlockId, units: u32) {
        self.change(id, |block| block.live = block.live.saturating_sub(units));
    }

    pub(crate) fn set_live(&mut self, id: BlockId, units: u32) {
        self.change(id, |block| block.live = units);
    }

    /// Gives a block whose entry was damaged a new one, after what its pages say.
    pub(crate) fn restore(&mut self, id: BlockId, written: u32, erases: u32) {
        let used_for = if written == 0 { BlockUse::Free } else { BlockUse::Full };
        self.change(id, |block| *block = Block { used_for, written, live: 0, erases });
        store_wear(&mut self.words, id, &self.blocks[id.0 as usize]);
        self.wear.insert(id, erases);
        self.bad.retired = self.bad.retired.saturating_sub(1);
        if used_for == BlockUse::Free {
            self.give_free(id);
        }
    }

    /// Takes a block out of use whose records cannot be trusted.
    pub(crate) fn retire(&mut self, id: BlockId) {
        self.wear.remove(id, self.get(id).erases);
        if self.get(id).used_for == BlockUse::Failing {
            self.bad.grown -= 1;
            self.failing.retain(|failing| *failing != id);
        }
        self.bad.retired += 1;
        self.change(id, |block| block.used_for = BlockUse::Retired);
    }

    /// Notes that an open block failed to be programmed: what it holds has to leave it.
    pub(crate) fn fail(&mut self, id: BlockId) {
        self.wear.remove(id, self.get(id).erases);
        self.bad.grown += 1;
        self.failing.push(id);
        self.change(id, |block| block.used_for = BlockUse::Failing);
    }

    /// Notes that a block holds nothing any more and is not to be used: it failed when programmed before, or now when
    /// erased.
    pub(crate) fn give_up(&mut self, id: BlockId) {
        if self.get(id).used_for == BlockUse::Failing {
            self.failing.retain(|failing| *failing != id);
        } else {
            self.wear.remove(id, self.get(id).erases);
            self.bad.grown += 1;
        }
        self.change(id, |block| {
            *block = Block { used_for: BlockUse::Bad, written: 0, live: 0, erases: block.erases };
        });
    }

    /// Blocks that went bad, and from the start.
    pub(crate) const fn bad(&self) -> BadBlocks {
        self.bad
    }

    /// A block that failed and still holds data.
    pub(crate) fn failing(&self) -> Option<BlockId> {
        self.failing.first().copied()
    }

    /// Notes how many blocks the device cannot do without.
    pub(crate) fn need(&mut self, blocks: u64) {
        let count = self.geometry.block_count();
        self.bad_most = count - blocks.min(count.into()) as u32;
    }

    /// Blocks that are neither bad nor out of use.
    pub(crate) const fn good_count(&self) -> u32 {
        self.geometry.block_count() - (self.bad.grown + self.bad.retired + self.bad.factory)
    }

    /// Blocks beyond what the device cannot do without, factory-bad ones not counted, and how many of them are left.
    pub(crate) const fn spares(&self) -> (u32, u32) {
        let all = self.bad_most.saturating_sub(self.bad.factory);
        (all, all.saturating_sub(self.bad.grown + self.bad.retired))
    }

    /// Whether more blocks went bad than there were to spare.
    #[inline]
    pub(crate) const fn are_worn_out(&self) -> bool {
        let bad = self.bad.grown + self.bad.retired + self.bad.factory;
        bad > 0 && bad > self.bad_most
    }

    /// The epoch in which a block was erased last.
    pub(crate) fn erased_in(&self, id: BlockId) -> Epoch {
        self.erased_in[id.0 as usize]
    }

    /// Replaces entries, by what a recovery found.
    pub(crate) fn correct(&mut self, found: impl IntoIterator<Item = (BlockId, Block)>) {
        for (id, block) in found {
            self.blocks[id.0 as usize] = block;
            store(&mut self.words, id, &block);
        }
        let count = self.geometry.block_count();
        self.free.clear();
        self.victims = Victims::new(count, self.geometry.units_per_block());
        self.wear = WearOrder::default();
        self.take_up();
    }

    /// Notes an erase: the block is free.
    pub(crate) fn note_erase(&mut self, id: BlockId, now: Epoch) {
        self.erased_in[id.0 as usize] = now;
        let erases = self.get(id).erases;
        self.wear.remove(id, erases);
        let erases = erases.saturating_add(1);
        self.wear.insert(id, erases);
        self.change(id, |block| {
            *block = Block { used_for: BlockUse::Free, written: 0, live: 0, erases };
        });
        store_wear(&mut self.words, id, &self.blocks[id.0 as usize]);
        if self.reads(id) > 0 {
            self.set_reads(id, 0);
        }
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

    /// Pages that were programmed when a block was filled; 0 where that is not known.
    pub(crate) fn filled_at(&self, id: BlockId) -> u64 {
        self.age_word(id)
    }

    /// Page reads since the erase, where they are counted.
    pub(crate) fn reads(&self, id: BlockId) -> u32 {
        let at = id.0 as usize * BLOCK_ENTRY_BYTES + READS_WORD;
        word::unseal(self.words.word(at), place(id, READS_WORD)).map_or(0, |reads| reads as u32)
    }

    pub(crate) fn count_read(&mut self, id: BlockId) {
        let reads = self.reads(id).saturating_add(1);
        self.set_reads(id, reads);
    }

    fn set_reads(&mut self, id: BlockId, reads: u32) {
        let at = id.0 as usize * BLOCK_ENTRY_BYTES + READS_WORD;
        self.words.set_word(at, word::seal(reads.into(), place(id, READS_WORD)));
    }

    /// Pages that were programmed since a block became full.
    pub(crate) fn age(&self, id: BlockId) -> u64 {
        match self.get(id).used_for {
            BlockUse::Full => self.now.saturating_sub(self.age_word(id)),
            _ => 0,
        }
    }

    fn age_word(&self, id: BlockId) -> u64 {
        let at = id.0 as usize * BLOCK_ENTRY_BYTES + AGE_WORD;
        word::unseal(self.words.word(at), place(id, AGE_WORD)).unwrap_or(0)
    }

    fn set_age_word(&mut self, id: BlockId, programs: u64) {
        let at = id.0 as usize * BLOCK_ENTRY_BYTES + AGE_WORD;
        self.words.set_word(at, word::seal(programs.min(word::MAX_VALUE), place(id, AGE_WORD)));
    }
}
