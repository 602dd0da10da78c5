//! Index pages in RAM, within a budget. A page is checked once, when it comes from flash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use byway_flash::Cause;

use crate::error::KvError;
use crate::index::page::{self, PageShape};
use crate::store::{Home, PageStore};

/// A page of a run: where it is and what it must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageName {
    pub(crate) page: u64,
    pub(crate) run: u64,
    pub(crate) level: u8,
}

/// The index's view of flash: pages, through a cache.
pub(crate) struct PageCache {
    pub(crate) home: Home,
    pub(crate) shape: PageShape,
    frames: Vec<Frame>,
    by_page: HashMap<u64, usize, BuildHasherDefault<PageHasher>>,
    budget: usize,
    hand: usize,
}

struct Frame {
    page: u64,
    bytes: Arc<[u8]>,
    /// Used since the hand of the clock last passed.
    used: bool,
}

impl PageCache {
    /// A cache of at most `budget_bytes`, and never fewer than a handful of pages.
    pub(crate) fn new(home: &Home, page_bytes: usize, budget_bytes: usize) -> Self {
        Self {
            home: home.clone(),
            shape: PageShape::new(page_bytes),
            frames: Vec::new(),
            by_page: HashMap::default(),
            budget: (budget_bytes / page_bytes).max(8),
            hand: 0,
        }
    }

    /// A page, kept for later.
    #[inline]
    pub(crate) fn get<S: PageStore>(
        &mut self,
        store: &mut S,
        name: PageName,
        at_ps: &mut u64,
    ) -> Result<&Arc<[u8]>, KvError> {
        let frame = match self.by_page.get(&name.page) {
            Some(&frame) => frame,
            None => {
                let bytes = self.read(store, name, at_ps)?;
                self.keep(name.page, bytes)
            }
        };
        let frame = &mut self.frames[frame];
        frame.used = true;
        Ok(&frame.bytes)
    }

    /// A page, not kept: a merge passes every page once.
    pub(crate) fn pass<S: PageStore>(
        &mut self,
        store: &mut S,
        name: PageName,
        at_ps: &mut u64,
    ) -> Result<Arc<[u8]>, KvError> {
        match self.by_page.get(&name.page) {
            Some(&frame) => Ok(self.frames[frame].bytes.clone()),
            None => self.read(store, name, at_ps),
        }
    }

    /// Forgets pages that are about to be something else.
    pub(crate) fn forget(&mut self, first: u64, count: u64) {
        for page in first..first + count {
            if let Some(frame) = self.by_page.remove(&page) {
                self.frames[frame].page = u64::MAX;
                self.frames[frame].used = false;
            }
        }
    }

    #[cold]
    fn read<S: PageStore>(
        &self,
        store: &mut S,
        name: PageName,
        at_ps: &mut u64,
    ) -> Result<Arc<[u8]>, KvError> {
        let mut bytes = vec![0; self.shape.page_bytes];
        // A page number comes from flash; one that no extent holds is refused by the store.
        let offset = name.page.saturating_mul(self.shape.page_bytes as u64);
        store.read(&self.home, offset, &mut bytes, Cause::Index, at_ps)?;
        page::check(&bytes, name.run, name.level).map_err(|why| KvError::DamagedIndex {
            run: name.run,
            page: name.page,
            why,
        })?;
        Ok(bytes.into())
    }

    fn keep(&mut self, page: u64, bytes: Arc<[u8]>) -> usize {
        let new = Frame { page, bytes, used: true };
        let frame = if self.frames.len() < self.budget {
            self.frames.push(new);
            self.frames.len() - 1
        } else {
            let frame = self.victim();
            self.by_page.remove(&self.frames[frame].page);
            self.frames[frame] = new;
            frame
        };
        self.by_page.insert(page, frame);
        frame
    }

    /// The clock: the first frame that was not used since the hand last passed.
    fn victim(&mut self) -> usize {
        loop {
            self.hand = (self.hand + 1) % self.frames.len();
            if !std::mem::take(&mut self.frames[self.hand].used) {
                return self.hand;
            }
        }
    }
}

/// Page numbers are our own: one multiplication spreads them.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }
}
