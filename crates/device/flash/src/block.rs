//! One block: what it is used for, and its entry in the table, four self-checking words.

use crate::finding::{Finding, Remedy};
use crate::geometry::{BlockId, Geometry};
use crate::image::layout::BLOCK_ENTRY_BYTES;
use crate::protected::Protected;
use crate::word;

pub(crate) const USE_WORD: usize = 0;
pub(crate) const WEAR_WORD: usize = 8;
/// Page reads since the erase, where they are counted.
pub(crate) const READS_WORD: usize = 16;
/// Number of the program that filled the block.
pub(crate) const AGE_WORD: usize = 24;

/// Salt of this table's self-checking words, so that a word of the map never passes as one of this table.
const PLACE: u64 = 1 << 60;

/// What a block is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BlockUse {
    Free,
    /// Being filled with what callers write.
    OpenHost,
    /// Being filled by garbage collection.
    OpenGc,
    Full,
    /// Its entry or a spare record in it is damaged: never written, never erased, still read.
    Retired,
    /// It failed to be programmed. What it holds is being moved; then it is bad.
    Failing,
    /// It failed, and holds nothing.
    Bad,
    /// It was bad from the start.
    FactoryBad,
    /// Being filled with whole pages: of values,
    OpenValues,
    /// of values that were moved,
    OpenMoved,
    /// of indexes,
    OpenIndex,
    /// of indexes that were merged.
    OpenMerged,
}

impl BlockUse {
    const ALL: [Self; 12] = [
        Self::Free,
        Self::OpenHost,
        Self::OpenGc,
        Self::Full,
        Self::Retired,
        Self::Failing,
        Self::Bad,
        Self::FactoryBad,
        Self::OpenValues,
        Self::OpenMoved,
        Self::OpenIndex,
        Self::OpenMerged,
    ];

    /// Whether it can be used, now or after an erase.
    pub(crate) const fn is_good(self) -> bool {
        self.is_open() || matches!(self, Self::Free | Self::Full)
    }

    /// Whether pages of it are being written.
    pub(crate) const fn is_open(self) -> bool {
        matches!(
            self,
            Self::OpenHost
                | Self::OpenGc
                | Self::OpenValues
                | Self::OpenMoved
                | Self::OpenIndex
                | Self::OpenMerged
        )
    }
}

/// Blocks that are bad when a device is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FactoryBad {
    /// Bad blocks per million.
    pub ppm: u32,
    /// Which ones follows from this.
    pub seed: u64,
}

/// Blocks that are not what they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BadBlocks {
    pub(crate) factory: u32,
    /// Failed in use, with those that still hold data.
    pub(crate) grown: u32,
    /// Out of use because their records are damaged.
    pub(crate) retired: u32,
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
        (self.used_for as u64) << 44 | u64::from(self.written) << 24 | u64::from(self.live)
    }

    fn from_values(value: u64, erases: u64) -> Option<Self> {
        let used_for = *BlockUse::ALL.get((value >> 44) as usize)?;
        let written = (value >> 24 & 0xF_FFFF) as u32;
        Some(Self {
            used_for,
            written,
            live: (value & 0xFF_FFFF) as u32,
            erases: erases.min(u64::from(u32::MAX)) as u32,
        })
    }
}

pub(crate) fn load(words: &Protected, id: BlockId, geometry: &Geometry) -> Block {
    let at = id.0 as usize * BLOCK_ENTRY_BYTES;
    let value = word::unseal(words.word(at + USE_WORD), place(id, USE_WORD));
    let erases = word::unseal(words.word(at + WEAR_WORD), place(id, WEAR_WORD));
    let block = value.zip(erases).and_then(|(value, erases)| Block::from_values(value, erases));
    let fits = |block: &Block| {
        let most_written = geometry.pages_per_block - u32::from(block.used_for.is_open());
        block.written <= most_written && block.live <= geometry.units_per_block()
    };
    let unknown = Block {
        used_for: BlockUse::Retired,
        written: geometry.pages_per_block,
        live: 0,
        erases: erases.unwrap_or(0) as u32,
    };
    let mut block = block.filter(fits).unwrap_or(unknown);
    if block.used_for.is_open() && block.written == geometry.pages_per_block {
        block.used_for = BlockUse::Full;
    }
    block
}

/// Repairs words of an entry in which one bit was flipped. A damaged age is reset to none.
pub(crate) fn repair(words: &mut Protected, id: BlockId) -> Option<Finding> {
    let mut repaired = false;
    let age_at = id.0 as usize * BLOCK_ENTRY_BYTES + AGE_WORD;
    let age = words.word(age_at);
    if age != 0 && word::unseal(age, place(id, AGE_WORD)).is_none() {
        words.set_word(age_at, word::repaired(age, place(id, AGE_WORD)).unwrap_or(0));
        repaired = true;
    }
    for word in [USE_WORD, WEAR_WORD] {
        let (at, place) = (id.0 as usize * BLOCK_ENTRY_BYTES + word, place(id, word));
        if word::unseal(words.word(at), place).is_none()
            && let Some(found) = word::repaired(words.word(at), place)
        {
            words.set_word(at, found);
            repaired = true;
        }
    }
    let place = || format!("block {}", id.0);
    repaired.then(|| Finding::new("block table", place(), "a bit of its entry was flipped", Remedy::Restore))
}

/// Makes the checksums of entries fit, for fuzzers.
pub(crate) fn reseal(region: &mut [u8]) {
    for (block, bytes) in (0..).zip(region.chunks_exact_mut(BLOCK_ENTRY_BYTES)) {
        for word in [USE_WORD, WEAR_WORD, AGE_WORD] {
            word::reseal(&mut bytes[word..word + 8], place(BlockId(block), word));
        }
    }
}

#[inline]
pub(crate) fn store(words: &mut Protected, id: BlockId, block: &Block) {
    let at = id.0 as usize * BLOCK_ENTRY_BYTES + USE_WORD;
    words.set_word(at, word::seal(block.to_value(), place(id, USE_WORD)));
}

pub(crate) fn store_wear(words: &mut Protected, id: BlockId, block: &Block) {
    let at = id.0 as usize * BLOCK_ENTRY_BYTES + WEAR_WORD;
    words.set_word(at, word::seal(u64::from(block.erases), place(id, WEAR_WORD)));
}

pub(crate) const fn place(id: BlockId, word: usize) -> u64 {
    PLACE | (id.0 as u64) << 8 | word as u64
}
