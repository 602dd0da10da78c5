//! The open blocks a stream of writes goes to, in turn, so that it uses all planes.

use crate::blocks::{BlockTable, BlockUse};
use crate::buffer::Stream;
use crate::geometry::BlockId;

#[derive(Debug)]
pub(crate) struct Frontier {
    stream: Stream,
    lanes: Vec<Option<BlockId>>,
    next: usize,
    /// Pages that the open blocks have left.
    room_pages: u64,
    pages_per_block: u32,
}

impl Frontier {
    /// Lanes for `width` blocks of `pages_per_block`, taking up the open blocks that the table knows.
    pub(crate) fn open(stream: Stream, width: u32, pages_per_block: u32, blocks: &BlockTable) -> Self {
        let used_for = open_use(stream);
        let open = || blocks.iter().filter(|(_, block)| block.used_for == used_for);
        let mut lanes: Vec<_> = open().map(|(id, _)| Some(id)).collect();
        lanes.resize(lanes.len().max(width as usize), None);
        let room_pages = open().map(|(_, block)| u64::from(pages_per_block - block.written)).sum();
        Self { stream, lanes, next: 0, room_pages, pages_per_block }
    }

    /// Pages that the open blocks have left.
    pub(crate) const fn room_pages(&self) -> u64 {
        self.room_pages
    }

    /// Notes that a page of an open block is programmed.
    pub(crate) fn note_program(&mut self) {
        self.room_pages -= 1;
    }

    /// Blocks that can be open at once.
    pub(crate) const fn width(&self) -> usize {
        self.lanes.len()
    }

    /// Lanes that have no open block.
    pub(crate) fn closed_lanes(&self) -> u32 {
        self.lanes.iter().filter(|lane| lane.is_none()).count() as u32
    }

    /// The block for the next page. A lane without one opens a free block if it may. `None`: no block is open and
    /// none may be opened or is free.
    pub(crate) fn next_block(
        &mut self,
        blocks: &mut BlockTable,
        planes: u32,
        may_open: bool,
    ) -> Option<BlockId> {
        for _ in 0..self.lanes.len() {
            let lane = self.next;
            self.next = (lane + 1) % self.lanes.len();
            if self.lanes[lane].is_none() && may_open {
                self.lanes[lane] = blocks.take_free(lane as u32 % planes, open_use(self.stream));
                self.room_pages += self.lanes[lane].map_or(0, |_| u64::from(self.pages_per_block));
            }
            if let Some(block) = self.lanes[lane] {
                return Some(block);
            }
        }
        None
    }

    /// Lets go of a block that has `left_pages` yet, none unless it went bad.
    pub(crate) fn close(&mut self, block: BlockId, left_pages: u32) {
        self.room_pages -= u64::from(left_pages);
        for lane in &mut self.lanes {
            if *lane == Some(block) {
                *lane = None;
            }
        }
    }
}

const fn open_use(stream: Stream) -> BlockUse {
    match stream {
        Stream::Host => BlockUse::OpenHost,
        Stream::Gc => BlockUse::OpenGc,
    }
}
