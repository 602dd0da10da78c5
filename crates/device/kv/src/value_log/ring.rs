//! Where the open pages of a stream are: a ring of its own in the state area, or a window.

use std::ops::Range;

use crate::layout::{FIRST_WINDOW, Layout};

/// Where a stream's open pages are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pub(crate) in_window: bool,
    at: usize,
    mask: u64,
    pub(super) page_shift: u32,
}

impl Ring {
    pub(super) fn new(layout: &Layout, stream: usize) -> Self {
        let page_shift = layout.page_bytes.trailing_zeros();
        let (in_window, at, bytes) = match stream.checked_sub(FIRST_WINDOW) {
            None => (false, layout.ring_at(stream), layout.ring_bytes),
            Some(window) => (true, window * layout.window_bytes, layout.window_bytes),
        };
        Self { in_window, at, mask: bytes as u64 - 1, page_shift }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.mask + 1
    }

    /// The ring within its area: the state area, or that of the windows.
    pub(crate) fn range(&self) -> Range<usize> {
        self.at..self.at + self.bytes() as usize
    }

    /// A slot within the ring's area.
    pub(super) fn slot_range(&self, slot: usize) -> Range<usize> {
        let start = self.at + (slot << self.page_shift);
        start..start + (1 << self.page_shift)
    }

    #[inline]
    pub(super) fn slots(&self) -> usize {
        (self.bytes() >> self.page_shift) as usize
    }

    #[inline]
    pub(super) fn slot(&self, page: u64) -> usize {
        page as usize & (self.slots() - 1)
    }

    /// `len` bytes from `position` on, in the one or two pieces that the end of the ring makes of them.
    #[inline]
    pub(crate) fn pieces(&self, position: u64, len: usize) -> (Range<usize>, Range<usize>) {
        let from = (position & self.mask) as usize;
        let first = len.min(self.bytes() as usize - from);
        (self.at + from..self.at + from + first, self.at..self.at + len - first)
    }
}
