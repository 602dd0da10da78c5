//! The open blocks a stream of writes goes to, in turn, so that it uses all planes.

use crate::block::BlockUse;
use crate::blocks::BlockTable;
use crate::buffer::Stream;
use crate::counters::Cause;
use crate::geometry::{BlockId, Geometry};

/// Data that is likely to die together, and so goes to blocks of its own: a block whose pages die at one time is
/// erased without moving any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrontierKind {
    /// Units that hosts write.
    Host,
    /// What garbage collection moves: it lives long.
    Gc,
    /// Whole pages that hosts fill: values.
    Values,
    /// Whole pages of values that were moved because they live long.
    Moved,
    /// Whole pages of indexes: they live shortest.
    Index,
    /// Whole pages of indexes that were written anew from such ones.
    Merged,
}

impl FrontierKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Host, Self::Gc, Self::Values, Self::Moved, Self::Index, Self::Merged];

    /// Where a whole page goes that is written for a cause, anew or for the first time.
    pub(crate) const fn of_page(cause: Cause, anew: bool) -> Self {
        match cause {
            Cause::LogCompaction => Self::Moved,
            Cause::Index if anew => Self::Merged,
            Cause::Index => Self::Index,
            _ => Self::Values,
        }
    }

    /// What its open blocks are used for.
    pub(crate) const fn open_use(self) -> BlockUse {
        match self {
            Self::Host => BlockUse::OpenHost,
            Self::Gc => BlockUse::OpenGc,
            Self::Values => BlockUse::OpenValues,
            Self::Moved => BlockUse::OpenMoved,
            Self::Index => BlockUse::OpenIndex,
            Self::Merged => BlockUse::OpenMerged,
        }
    }

    /// Blocks that it has open at once.
    pub(crate) const fn width(self, geometry: &Geometry) -> u32 {
        match self {
            Self::Host => geometry.host_width(),
            Self::Gc => geometry.gc_width(),
            Self::Values | Self::Moved | Self::Index | Self::Merged => geometry.page_width(),
        }
    }
}

impl From<Stream> for FrontierKind {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Host => Self::Host,
            Stream::Gc => Self::Gc,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Frontier {
    front: FrontierKind,
    open_blocks: Vec<Option<BlockId>>,
    next: usize,
    /// Pages that the open blocks have left.
    room_pages: u64,
    pages_per_block: u32,
}

impl Frontier {
    /// The frontier of a kind, taking up the open blocks that the table knows.
    pub(crate) fn open(front: FrontierKind, geometry: &Geometry, blocks: &BlockTable) -> Self {
        let (used_for, pages_per_block) = (front.open_use(), geometry.pages_per_block);
        let open = || blocks.iter().filter(|(_, block)| block.used_for == used_for);
        let mut open_blocks: Vec<_> = open().map(|(id, _)| Some(id)).collect();
        open_blocks.resize(open_blocks.len().max(front.width(geometry) as usize), None);
        let room_pages = open().map(|(_, block)| u64::from(pages_per_block - block.written)).sum();
        Self { front, open_blocks, next: 0, room_pages, pages_per_block }
    }

    /// Pages that the open blocks have left.
    pub(crate) const fn room_pages(&self) -> u64 {
        self.room_pages
    }

    /// Whether any block is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open_blocks.iter().any(Option::is_some)
    }

    /// Notes that a page of an open block is programmed.
    pub(crate) fn note_program(&mut self) {
        self.room_pages -= 1;
    }

    /// Blocks that can be open at once.
    pub(crate) const fn width(&self) -> usize {
        self.open_blocks.len()
    }

    /// Slots that have no open block.
    pub(crate) fn closed_slots(&self) -> u32 {
        self.open_blocks.iter().filter(|slot| slot.is_none()).count() as u32
    }

    /// The block for the next page. A slot without one opens a free block if it may. `None`: no block is open and
    /// none may be opened or is free.
    pub(crate) fn next_block(
        &mut self,
        blocks: &mut BlockTable,
        planes: u32,
        may_open: bool,
    ) -> Option<BlockId> {
        for _ in 0..self.open_blocks.len() {
            let slot = self.next;
            self.next = (slot + 1) % self.open_blocks.len();
            if self.open_blocks[slot].is_none() && may_open {
                self.open_blocks[slot] = blocks.take_free(slot as u32 % planes, self.front.open_use());
                self.room_pages += self.open_blocks[slot].map_or(0, |_| u64::from(self.pages_per_block));
            }
            if let Some(block) = self.open_blocks[slot] {
                return Some(block);
            }
        }
        None
    }

    /// Drops an open block that has `left_pages` unprogrammed pages: 0 unless it went bad.
    pub(crate) fn close(&mut self, block: BlockId, left_pages: u32) {
        self.room_pages -= u64::from(left_pages);
        for slot in &mut self.open_blocks {
            if *slot == Some(block) {
                *slot = None;
            }
        }
    }
}

/// The frontier of each kind.
#[derive(Debug)]
pub(crate) struct Frontiers([Frontier; FrontierKind::ALL.len()]);

impl Frontiers {
    /// All of them, with the open blocks that the table knows.
    pub(crate) fn open(geometry: &Geometry, blocks: &BlockTable) -> Self {
        Self(FrontierKind::ALL.map(|front| Frontier::open(front, geometry, blocks)))
    }

    pub(crate) const fn of(&self, front: FrontierKind) -> &Frontier {
        &self.0[front as usize]
    }

    pub(crate) const fn of_mut(&mut self, front: FrontierKind) -> &mut Frontier {
        &mut self.0[front as usize]
    }
}
