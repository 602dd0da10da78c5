//! Pages of a KV extent as the medium lends them, for many small reads one after another.

use crate::blocks::BlockTable;
use crate::flash::Flash;
use crate::ftl::Ftl;
use crate::geometry::UNIT_BYTES;
use crate::image::namespaces::ExtentId;
use crate::location::{EntryIndex, Location};
use crate::map::UnitMap;
use crate::spare::PageKind;

/// Pages of one KV extent where they lie. What is the same for all reads of a command is looked up once.
#[derive(Clone, Copy)]
pub struct ExtentView<'a> {
    map: &'a UnitMap,
    blocks: &'a BlockTable,
    /// All pages of the medium, the first one first.
    pages: &'a [u8],
    /// Entry of the extent's first page.
    first: EntryIndex,
    extent_bytes: u64,
    page_shift: u32,
    pages_per_block: u32,
}

impl Flash {
    /// Pages of a KV extent, to [look at](Flash::peek) many records. `None` where the medium does not lend all of its pages in one piece, or
    /// where reads [take time or disturb](Flash::reads_in_any_order).
    #[must_use]
    pub fn view(&self, extent: ExtentId) -> Option<ExtentView<'_>> {
        let (first, kind) = self.range(extent, 0, 0).ok()?;
        let extent_bytes = self.extent_bytes(self.entry(extent).ok()?);
        if kind != PageKind::Page || self.is_following() || !self.reads_in_any_order() {
            return None;
        }
        self.ftl.view(first, extent_bytes)
    }
}

impl Ftl {
    fn view(&self, first: EntryIndex, extent_bytes: u64) -> Option<ExtentView<'_>> {
        Some(ExtentView {
            map: &self.map,
            blocks: &self.blocks,
            pages: self.media.lend_all()?,
            first,
            extent_bytes,
            page_shift: self.geometry().page_bytes.trailing_zeros(),
            pages_per_block: self.geometry().pages_per_block,
        })
    }
}

impl<'a> ExtentView<'a> {
    /// Bytes of one page, as [`Flash::peek`] gives them: neither counted nor verified.
    #[inline]
    #[must_use]
    pub fn peek(&self, at_bytes: u64, len_bytes: usize) -> Option<&'a [u8]> {
        let within = at_bytes & ((1 << self.page_shift) - 1);
        let is_in_page = within + len_bytes as u64 <= 1 << self.page_shift;
        if !is_in_page || at_bytes >= self.extent_bytes {
            return None;
        }
        let Ok(Location::Flash(unit)) = self.map.load(self.first + (at_bytes >> self.page_shift)) else {
            return None;
        };
        // The units of a page are a power of two.
        let page = unit.0 >> (self.page_shift - UNIT_BYTES.trailing_zeros());
        // The processor divides 32 bits in half the time of 64.
        let (block, in_block) = match u32::try_from(page) {
            Ok(page) => (page / self.pages_per_block, page % self.pages_per_block),
            Err(_) => return None,
        };
        if in_block >= self.blocks.written(block) {
            return None;
        }
        let at = (page << self.page_shift | within) as usize;
        self.pages.get(at..at + len_bytes)
    }
}
