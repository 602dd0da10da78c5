//! Calls of the kernel that are under way, as the board says: a file does not come home meanwhile.
//!
//! A thread marks its call in a place of its own, without a locked instruction; what it looks at behind that is ordered by the daemon's barrier. Where
//! it has no place, or another call is under way that a signal handler interrupted, the call is counted.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::table::{Board, Entry, Housed, Mark, MarkPlace};
use byway_sys::{WipedWord, barrier, thread};

/// A call that is under way: it ends once.
#[derive(Debug)]
#[must_use]
pub struct Call<'s> {
    /// `None` for one that is counted.
    marked: Option<Mark<'s>>,
    /// Who it is under way for: a child has its parent's calls on its stack, but not to end.
    family: u64,
}

/// How the threads of a process say which calls they have under way.
#[derive(Debug)]
pub(super) struct Calls {
    /// A number of this process alone, zero in a child: what its threads remember of places is its parent's.
    family: Option<WipedWord>,
    /// The process that this memory is of. A child of vfork is another one, in its parent's memory and on its words, and ends before it.
    process: AtomicU32,
}

/// The last number that a process of this one's line took.
static FAMILIES: AtomicU64 = AtomicU64::new(0);

/// Below the family, and one more, in what a thread remembers.
const PLACE_BITS: u32 = 32;

/// Where a thread is that has none.
const NOWHERE: u64 = u32::MAX as u64;

/// What a thread remembers of its place, in words of its own: zeroes at first.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct ThreadPlace(Cell<u64>);

impl ThreadPlace {
    /// Of a thread that has none.
    #[must_use]
    pub const fn new() -> Self {
        Self(Cell::new(0))
    }
}

impl Calls {
    pub(super) fn new() -> Self {
        let family = barrier::register().and_then(|()| WipedWord::new()).ok();
        Self { family, process: AtomicU32::new(thread::process()) }
    }

    /// This is a child of fork, which has this memory for itself.
    pub(super) fn own(&self) {
        self.process.store(thread::process(), Ordering::Relaxed);
    }

    /// Says that a call of that file's begins.
    #[inline]
    pub(super) fn begin<'s>(&self, board: &'s Board, entry: Entry<'_>, own: &ThreadPlace) -> Call<'s> {
        let mut family = self.family();
        let mut mine = own.0.get();
        if mine >> PLACE_BITS != remembered(family) {
            mine = self.settle(board, own);
            family = self.family();
        }
        match mark_at(board, mine) {
            Some(mark) if mark.set(entry.index()) => Call { marked: Some(mark), family },
            _ => counted(entry.housed(), family),
        }
    }

    /// Says that it ended.
    #[inline]
    pub(super) fn end(&self, entry: Entry<'_>, call: Call<'_>) {
        let is_mine = call.family == self.family();
        match call.marked {
            Some(mark) if is_mine => mark.clear(),
            None if is_mine => counted_out(entry.housed()),
            _ => {}
        }
    }

    #[inline]
    fn family(&self) -> u64 {
        self.family.as_ref().map_or(0, |family| family.get().load(Ordering::Relaxed))
    }

    /// Looks for a place for the calling thread, which has none, or its parent's. None for a child of vfork: a place of its own would be its parent's
    /// as soon as it has ended, and its parent's calls those of the dead.
    #[cold]
    fn settle(&self, board: &Board, own: &ThreadPlace) -> u64 {
        let Some(family) = self.family.as_ref().map(WipedWord::get) else { return NOWHERE };
        if thread::process() != self.process.load(Ordering::Relaxed) {
            return NOWHERE;
        }
        if family.load(Ordering::Relaxed) == 0 {
            // In a child, whether it has that from its parent or not.
            let is_registered = barrier::register().is_ok();
            let next = FAMILIES.fetch_add(1, Ordering::Relaxed) + 1;
            if is_registered {
                let _ = family.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        let family = family.load(Ordering::Relaxed);
        let place = board.claim_mark(thread::number()).filter(|_| family != 0);
        let mine = remembered(family) << PLACE_BITS | place.map_or(NOWHERE, |place| place.0.into());
        own.0.set(mine);
        mine
    }
}

/// What few calls do, by itself: what most do is to lie together, as the kernel's part of them leaves little of ours in the processor's caches.
#[cold]
#[inline(never)]
fn counted<'s>(housed: Housed<'_>, family: u64) -> Call<'s> {
    housed.begin();
    Call { marked: None, family }
}

#[cold]
#[inline(never)]
fn counted_out(housed: Housed<'_>) {
    housed.end();
}

/// The place that a thread remembers.
#[inline]
fn mark_at(board: &Board, mine: u64) -> Option<Mark<'_>> {
    let place = MarkPlace(mine as u32);
    if u64::from(place.0) == NOWHERE { None } else { board.mark(place) }
}

/// Never what a thread has at first.
const fn remembered(family: u64) -> u64 {
    family + 1
}
