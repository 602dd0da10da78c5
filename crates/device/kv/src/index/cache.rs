//! Index pages in RAM, within a budget. A page is checked once, when it comes from flash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use byway_flash::Cause;

use crate::error::KvError;
use crate::index::page::{self, PageShape};
use crate::store::{Home, PageStore};

/// RAM of a page beside its bytes: its frame, its share of the table of pages, what an allocation takes.
const FRAME_BYTES: usize = 128;
/// Pages that are kept whatever the budget says: a way down a tree, and what a merge or two stand in.
const LEAST_PAGES: usize = 8;

/// A page of a run: where it is and what it must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageName {
    pub(crate) page: u64,
    pub(crate) run: u64,
    pub(crate) level: u8,
}

/// How long a page is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// As long as it is used.
    Used,
    /// Until there is no more room: someone lists.
    Listed,
    /// Not at all: a merge passes every page once.
    Passed,
}

/// The index's view of flash: pages, through a cache.
pub(crate) struct PageCache {
    pub(crate) home: Home,
    pub(crate) shape: PageShape,
    frames: Vec<Frame>,
    by_page: HashMap<u64, u32, BuildHasherDefault<PageHasher>>,
    most_frames: usize,
    hand: usize,
    /// Where a page is read to that the store cannot lend.
    room: Vec<u8>,
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
            most_frames: (budget_bytes / (page_bytes + FRAME_BYTES)).max(LEAST_PAGES),
            hand: 0,
            room: vec![0; page_bytes],
        }
    }

    /// Bytes of RAM that cached pages take.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.frames.len() * (self.shape.page_bytes + FRAME_BYTES)
    }

    /// Whether a page is here.
    #[inline]
    pub(crate) fn holds(&self, page: u64) -> bool {
        self.by_page.contains_key(&page)
    }

    /// A page, kept for later.
    #[inline]
    pub(crate) fn get<S: PageStore>(
        &mut self,
        store: &mut S,
        name: PageName,
        at_ps: &mut u64,
    ) -> Result<&[u8], KvError> {
        let frame = match self.by_page.get(&name.page) {
            Some(&frame) => frame as usize,
            None => self.bring(store, name, at_ps)?,
        };
        let frame = &mut self.frames[frame];
        frame.used = true;
        Ok(&frame.bytes)
    }

    /// A page that stays while someone walks over it.
    pub(crate) fn walk<S: PageStore>(
        &mut self,
        store: &mut S,
        name: PageName,
        keep: Keep,
        at_ps: &mut u64,
    ) -> Result<Arc<[u8]>, KvError> {
        if let Some(&frame) = self.by_page.get(&name.page) {
            return Ok(self.frames[frame as usize].bytes.clone());
        }
        if keep == Keep::Passed {
            return read(store, &self.home, name, &mut self.room, |bytes| bytes.into(), at_ps);
        }
        let frame = self.bring(store, name, at_ps)?;
        self.frames[frame].used = keep == Keep::Used;
        Ok(self.frames[frame].bytes.clone())
    }

    /// Forgets pages that are about to be something else.
    pub(crate) fn forget(&mut self, first: u64, count: u64) {
        for page in first..first + count {
            if let Some(frame) = self.by_page.remove(&page) {
                self.frames[frame as usize].page = u64::MAX;
                self.frames[frame as usize].used = false;
            }
        }
    }

    /// Reads a page into a frame.
    #[cold]
    fn bring<S: PageStore>(
        &mut self,
        store: &mut S,
        name: PageName,
        at_ps: &mut u64,
    ) -> Result<usize, KvError> {
        let (frames, by_page, most_frames) = (&mut self.frames, &mut self.by_page, self.most_frames);
        let hand = &mut self.hand;
        let keep = |bytes: &[u8]| {
            if frames.len() < most_frames {
                frames.push(Frame { page: name.page, bytes: bytes.into(), used: true });
                return frames.len() - 1;
            }
            let victim = victim(frames, hand);
            by_page.remove(&frames[victim].page);
            frames[victim].fill(name.page, bytes);
            victim
        };
        let frame = read(store, &self.home, name, &mut self.room, keep, at_ps)?;
        self.by_page.insert(name.page, frame as u32);
        Ok(frame)
    }
}

impl Frame {
    fn fill(&mut self, page: u64, bytes: &[u8]) {
        match Arc::get_mut(&mut self.bytes) {
            Some(held) if held.len() == bytes.len() => held.copy_from_slice(bytes),
            // Someone walks over the page that goes.
            _ => self.bytes = bytes.into(),
        }
        (self.page, self.used) = (page, true);
    }
}

/// Reads a page, checks it where it lies, and takes what is wanted of it.
fn read<S: PageStore, R>(
    store: &mut S,
    home: &Home,
    name: PageName,
    room: &mut [u8],
    take: impl FnOnce(&[u8]) -> R,
    at_ps: &mut u64,
) -> Result<R, KvError> {
    // A page number comes from flash; one that no extent holds is refused by the store.
    let offset = name.page.saturating_mul(room.len() as u64);
    let lent = store.lend(home, offset, room, Cause::Index, at_ps)?;
    if page::check(lent, name.run, name.level).is_ok() {
        return Ok(take(lent));
    }
    // A verified read names the damage if it is the flash's.
    store.read(home, offset, room, Cause::Index, at_ps)?;
    let checked = page::check(room, name.run, name.level);
    checked.map_err(|why| KvError::DamagedIndex { run: name.run, page: name.page, why })?;
    Ok(take(room))
}

/// The clock: the first frame that was not used since the hand last passed.
fn victim(frames: &mut [Frame], hand: &mut usize) -> usize {
    loop {
        *hand = (*hand + 1) % frames.len();
        if !std::mem::take(&mut frames[*hand].used) {
            return *hand;
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
