//! What media that keep no data accepted, counted so that the model of time sees the pages that it would have filled.

use std::ops::Range;

pub(crate) struct Discarded {
    units_per_page: u64,
    /// Units that do not fill a page yet.
    units: u64,
    pages: u64,
}

impl Discarded {
    pub(crate) fn new(units_per_page: u32) -> Self {
        Self { units_per_page: u64::from(units_per_page), units: 0, pages: 0 }
    }

    /// Counts units; returns the numbers of the pages that they complete.
    #[inline]
    pub(crate) fn add(&mut self, units: u64) -> Range<u64> {
        self.units += units;
        if self.units < self.units_per_page {
            return self.pages..self.pages;
        }
        let before = self.pages;
        self.pages += self.units / self.units_per_page;
        self.units %= self.units_per_page;
        before..self.pages
    }
}
