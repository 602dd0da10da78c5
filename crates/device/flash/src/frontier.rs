//! The open blocks a stream of writes goes to, in turn, so that it uses all planes.

use crate::blocks::{BlockTable, BlockUse};
use crate::buffer::Stream;
use crate::geometry::BlockId;

#[derive(Debug)]
pub(crate) struct Frontier {
    stream: Stream,
    lanes: Vec<Option<BlockId>>,
    next: usize,
}

impl Frontier {
    /// Lanes for `width` blocks, taking up the open blocks that the table knows.
    pub(crate) fn open(stream: Stream, width: u32, blocks: &BlockTable) -> Self {
        let used_for = open_use(stream);
        let mut lanes: Vec<_> =
            blocks.iter().filter(|(_, block)| block.used_for == used_for).map(|(id, _)| Some(id)).collect();
        lanes.resize(lanes.len().max(width as usize), None);
        Self { stream, lanes, next: 0 }
    }

    /// Blocks that can be open at once.
    pub(crate) const fn width(&self) -> usize {
        self.lanes.len()
    }

    /// Lanes that have no open block.
    pub(crate) fn closed_lanes(&self) -> u32 {
        self.lanes.iter().filter(|lane| lane.is_none()).count() as u32
    }

    /// The block for the next page; a lane without one opens a free block. `None`: no block is open and none is free.
    pub(crate) fn next_block(&mut self, blocks: &mut BlockTable, planes: u32) -> Option<BlockId> {
        for _ in 0..self.lanes.len() {
            let lane = self.next;
            self.next = (lane + 1) % self.lanes.len();
            if self.lanes[lane].is_none() {
                self.lanes[lane] = blocks.take_free(lane as u32 % planes, true, open_use(self.stream));
            }
            if let Some(block) = self.lanes[lane] {
                return Some(block);
            }
        }
        None
    }

    /// Whether the next page needs a free block.
    pub(crate) fn wants_block(&self) -> bool {
        self.lanes[self.next].is_none()
    }

    /// Lets go of a block that is full.
    pub(crate) fn close(&mut self, block: BlockId) {
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
