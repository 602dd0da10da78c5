//! Index pages in RAM, within a budget. A page is checked once, when it comes from flash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use byway_flash::Cause;
use byway_sys::check_headroom;
use byway_sys::huge::prefer_huge_pages;

use crate::error::KvError;
use crate::index::page;
use crate::index::page::PageShape;
use crate::index::search::View;
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

/// The index's view of flash: pages, through a cache.
pub(crate) struct PageCache {
    home: Home,
    shape: PageShape,
    frames: Vec<Frame>,
    /// The bytes of all frames, taken from the system piece by piece as frames are needed.
    memory: Vec<Vec<u8>>,
    by_page: HashMap<u64, u32, BuildHasherDefault<PageHasher>>,
    most_frames: usize,
    /// Frames whose pages were forgotten.
    free: Vec<u32>,
    hand: usize,
    /// Pages that were looked into and not kept, by the hash of their number.
    seen: Vec<u64>,
    /// Where a page is read to that the store cannot lend.
    room: Vec<u8>,
    /// Pages that the command at hand has read so far.
    pages_read: u32,
}

struct Frame {
    page: u64,
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
            memory: Vec::new(),
            by_page: HashMap::default(),
            most_frames: most_frames(page_bytes, budget_bytes),
            free: Vec::new(),
            hand: 0,
            seen: Vec::new(),
            room: vec![0; page_bytes],
            pages_read: 0,
        }
    }

    /// Keeps to a budget from now on. Where it is another, the cache begins anew.
    pub(crate) fn limit(&mut self, budget_bytes: usize) {
        let most_frames = most_frames(self.shape.page_bytes, budget_bytes);
        if self.most_frames != most_frames {
            self.most_frames = most_frames;
            self.frames.clear();
            self.by_page.clear();
            self.free.clear();
            (self.memory, self.seen, self.hand) = (Vec::new(), Vec::new(), 0);
        }
    }

    /// Bytes of RAM that cached pages take.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.frames.len() * (self.shape.page_bytes + FRAME_BYTES)
    }

    #[inline]
    pub(crate) fn shape(&self) -> PageShape {
        self.shape
    }

    /// Pages read since the last [`begin_work`](Self::begin_work).
    #[inline]
    pub(crate) fn pages_read(&self) -> u32 {
        self.pages_read
    }

    /// Counts pages read from zero: a command begins.
    #[inline]
    pub(crate) fn begin_work(&mut self) {
        self.pages_read = 0;
    }

    /// Whether a page is here.
    #[inline]
    pub(crate) fn holds(&self, page: u64) -> bool {
        self.by_page.contains_key(&page)
    }

    /// Looks into a page that one get needs, which other gets may never ask for again. Where the cache is full, it is looked into
    /// where it lies, and kept only if it was looked into not long ago: so pages that every get needs are not driven out
    /// by pages that one needs, and most of such a page is not even checked. `look` may be called twice.
    pub(crate) fn look<S: PageStore, R>(
        &mut self,
        store: &mut S,
        name: PageName,
        look: impl Fn(&mut View<'_>) -> R,
        at_ps: &mut u64,
    ) -> Result<R, KvError> {
        let frame = match self.by_page.get(&name.page).copied() {
            Some(frame) => frame as usize,
            None if self.is_wanted(name.page) => self.bring(store, name, at_ps)?,
            None => {
                let offset = name.page.saturating_mul(self.shape.page_bytes as u64);
                self.pages_read += 1;
                let lent = store.lend(&self.home, offset, &mut self.room, Cause::Index, at_ps)?;
                if let Some(mut view) = View::of_lent(lent, name.run, name.level) {
                    let seen = look(&mut view);
                    if view.is_whole() {
                        return Ok(seen);
                    }
                }
                // Damaged: bringing it says by what.
                self.bring(store, name, at_ps)?
            }
        };
        self.frames[frame].used = true;
        Ok(look(&mut View::of_checked(self.bytes_of(frame))))
    }

    /// Looks into a page on a way over all pages: where it lies, unless there is room to keep it for the next way. `look` may
    /// be called twice.
    pub(crate) fn pass_into<S: PageStore>(
        &mut self,
        store: &mut S,
        name: PageName,
        mut look: impl FnMut(&mut View<'_>),
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        if let Some(&frame) = self.by_page.get(&name.page) {
            look(&mut View::of_checked(self.bytes_of(frame as usize)));
            return Ok(());
        }
        if self.has_room() {
            let frame = self.bring(store, name, at_ps)?;
            look(&mut View::of_checked(self.bytes_of(frame)));
            return Ok(());
        }
        let offset = name.page.saturating_mul(self.shape.page_bytes as u64);
        self.pages_read += 1;
        let lent = store.lend(&self.home, offset, &mut self.room, Cause::Index, at_ps)?;
        if let Some(mut view) = View::of_lent(lent, name.run, name.level) {
            look(&mut view);
            if view.is_whole() {
                return Ok(());
            }
        }
        let look = |bytes: &[u8]| look(&mut View::of_checked(bytes));
        self.pages_read += 1;
        read(store, &self.home, name, &mut self.room, look, at_ps)
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
        self.frames[frame].used = true;
        Ok(self.bytes_of(frame))
    }

    /// A page for a list: kept in the cache, but not marked as used, so that it is evicted first.
    pub(crate) fn pass_by<S: PageStore>(
        &mut self,
        store: &mut S,
        name: PageName,
        at_ps: &mut u64,
    ) -> Result<&[u8], KvError> {
        let frame = match self.by_page.get(&name.page) {
            Some(&frame) => frame as usize,
            None => self.bring(store, name, at_ps)?,
        };
        Ok(self.bytes_of(frame))
    }

    /// Copies a page that is not kept: a merge passes every page once.
    pub(crate) fn copy<S: PageStore>(
        &mut self,
        store: &mut S,
        name: PageName,
        into: &mut Vec<u8>,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let mut take = |bytes: &[u8]| {
            into.clear();
            into.extend_from_slice(bytes);
        };
        if let Some(&frame) = self.by_page.get(&name.page) {
            take(self.bytes_of(frame as usize));
            return Ok(());
        }
        self.pages_read += 1;
        read(store, &self.home, name, &mut self.room, take, at_ps)
    }

    /// Forgets pages that are about to be something else.
    pub(crate) fn forget(&mut self, first: u64, count: u64) {
        for page in first..first + count {
            if let Some(frame) = self.by_page.remove(&page) {
                self.frames[frame as usize] = Frame { page: u64::MAX, used: false };
                self.free.push(frame);
            }
        }
    }

    /// Whether a page that is not here should be: there is room, or it was looked into not long ago.
    fn is_wanted(&mut self, page: u64) -> bool {
        if self.has_room() {
            return true;
        }
        self.seen.resize(self.most_frames, u64::MAX);
        let place = PageHasher::default().hash_of(page) as usize % self.most_frames;
        std::mem::replace(&mut self.seen[place], page) == page
    }

    /// Whether a page can be kept without another's going.
    fn has_room(&self) -> bool {
        self.frames.len() < self.most_frames || !self.free.is_empty()
    }

    #[inline]
    fn bytes_of(&self, frame: usize) -> &[u8] {
        let (piece, at) = place_of(frame, self.shape.page_bytes);
        &self.memory[piece][at..at + self.shape.page_bytes]
    }

    /// Reads a page into a frame, as one not used yet.
    #[cold]
    fn bring<S: PageStore>(
        &mut self,
        store: &mut S,
        name: PageName,
        at_ps: &mut u64,
    ) -> Result<usize, KvError> {
        let frame = self.free_frame();
        let (piece, at) = place_of(frame, self.shape.page_bytes);
        let into = &mut self.memory[piece][at..at + self.shape.page_bytes];
        let keep = |bytes: &[u8]| into.copy_from_slice(bytes);
        self.pages_read += 1;
        read(store, &self.home, name, &mut self.room, keep, at_ps)?;
        self.frames[frame] = Frame { page: name.page, used: false };
        self.by_page.insert(name.page, frame as u32);
        Ok(frame)
    }

    /// A frame that holds nothing.
    fn free_frame(&mut self) -> usize {
        let frame = if let Some(frame) = self.free.pop() {
            frame as usize
        } else if self.frames.len() < self.most_frames {
            self.frames.push(Frame { page: u64::MAX, used: false });
            self.frames.len() - 1
        } else {
            victim(&mut self.frames, &mut self.hand)
        };
        let frame = match place_of(frame, self.shape.page_bytes).0 == self.memory.len() {
            true if !self.take_memory() => self.do_without(),
            _ => frame,
        };
        self.by_page.remove(&self.frames[frame].page);
        self.frames[frame].page = u64::MAX;
        frame
    }

    /// Takes memory for the frames that follow, in huge pages where there are any: every look into a page of keys is at
    /// another place. Whether there was some: a cache is as right when it is smaller.
    #[cold]
    fn take_memory(&mut self) -> bool {
        let first = self.memory.len() * frames_of_piece(self.shape.page_bytes);
        let frames = frames_of_piece(self.shape.page_bytes).min(self.most_frames - first);
        let bytes = frames * self.shape.page_bytes;
        if first > 0 && check_headroom(bytes as u64).is_err() {
            return false;
        }
        let piece = vec![0; bytes];
        prefer_huge_pages(&piece);
        self.memory.push(piece);
        true
    }

    /// Keeps to the frames that have memory; one of these.
    #[cold]
    fn do_without(&mut self) -> usize {
        self.frames.pop();
        self.most_frames = self.frames.len();
        victim(&mut self.frames, &mut self.hand)
    }
}

/// Frames that a budget has room for.
fn most_frames(page_bytes: usize, budget_bytes: usize) -> usize {
    (budget_bytes / (page_bytes + FRAME_BYTES)).max(LEAST_PAGES)
}

/// Bytes of frames that are taken from the system at once. Those that hold no page yet are not touched.
const PIECE_BYTES: usize = 32 << 20;

/// A power of two, as pages and pieces are: what follows from it is shifts.
#[inline]
const fn frames_of_piece(page_bytes: usize) -> usize {
    1 << (PIECE_BYTES.trailing_zeros() - page_bytes.trailing_zeros())
}

/// The piece of memory that a frame is in, and where.
#[inline]
fn place_of(frame: usize, page_bytes: usize) -> (usize, usize) {
    let frames = frames_of_piece(page_bytes);
    (frame >> frames.trailing_zeros(), (frame & (frames - 1)) * page_bytes)
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

/// Numbers of pages and segments are our own: one multiplication spreads them.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl PageHasher {
    fn hash_of(mut self, page: u64) -> u64 {
        self.write_u64(page);
        self.0
    }
}

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
