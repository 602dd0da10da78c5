//! System calls in flight, as the shared file table shows them: a file is not promoted meanwhile.
//!
//! A thread marks its call in a line of its own, without a locked instruction; the daemon's barrier orders the mark before the load of the
//! level. A thread without a line, or a signal handler inside another marked call, counts its call in the file's entry instead
//! ([decision 55](../../../../../docs/decisions/0055-marking-system-calls-in-flight.md)).

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::table::{Entry, FileTable, Mark, MarkPlace, ResidentState};
use byway_sys::{WipedWord, barrier, thread};

/// A system call in flight. It ends once.
#[derive(Debug)]
#[must_use]
pub struct Call<'s> {
    /// The thread's mark. `None` for a counted call.
    marked: Option<Mark<'s>>,
    /// Number of the process that began it: a forked child has its parent's calls on its stack and must not end them.
    family: u64,
}

/// Marks of one process's threads.
#[derive(Debug)]
pub(super) struct Calls {
    /// Number of this process, zeroed in a forked child: marks that its threads remember are the parent's.
    family: Option<WipedWord>,
    /// Process that this memory belongs to. A vfork child is another process in its parent's memory.
    process: AtomicU32,
}

/// Last number given to a process.
static FAMILIES: AtomicU64 = AtomicU64::new(0);

/// Bits of the place in what a thread remembers; the process number lies above.
const PLACE_BITS: u32 = 32;

/// Place of a thread that has no mark.
const NOWHERE: u64 = u32::MAX as u64;

/// What a thread remembers of its mark. Zero at first.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct ThreadPlace(Cell<u64>);

impl ThreadPlace {
    /// A thread without a mark.
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

    /// Drops the parent's marks, in a forked child.
    pub(super) fn own(&self) {
        self.process.store(thread::process(), Ordering::Relaxed);
    }

    /// Begins a call on that file.
    #[inline]
    pub(super) fn begin<'s>(
        &self,
        file_table: &'s FileTable,
        entry: Entry<'_>,
        own: &ThreadPlace,
    ) -> Call<'s> {
        let mut family = self.family();
        let mut mine = own.0.get();
        if mine >> PLACE_BITS != remembered(family) {
            mine = self.settle(file_table, own);
            family = self.family();
        }
        match mark_at(file_table, mine) {
            Some(mark) if mark.set(entry.index()) => Call { marked: Some(mark), family },
            _ => counted(entry.resident_state(), family),
        }
    }

    /// Ends a call.
    #[inline]
    pub(super) fn end(&self, entry: Entry<'_>, call: Call<'_>) {
        let is_mine = call.family == self.family();
        match call.marked {
            Some(mark) if is_mine => mark.clear(),
            None if is_mine => counted_out(entry.resident_state()),
            _ => {}
        }
    }

    #[inline]
    fn family(&self) -> u64 {
        self.family.as_ref().map_or(0, |family| family.get().load(Ordering::Relaxed))
    }

    /// Claims a mark for the calling thread. A vfork child claims none: the mark would stay in its parent's memory under a dead thread's
    /// number.
    #[cold]
    fn settle(&self, file_table: &FileTable, own: &ThreadPlace) -> u64 {
        let Some(family) = self.family.as_ref().map(WipedWord::get) else { return NOWHERE };
        if thread::process() != self.process.load(Ordering::Relaxed) {
            return NOWHERE;
        }
        if family.load(Ordering::Relaxed) == 0 {
            // Registration is inherited by a child only on some systems: register in either case.
            let is_registered = barrier::register().is_ok();
            let next = FAMILIES.fetch_add(1, Ordering::Relaxed) + 1;
            if is_registered {
                let _ = family.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        let family = family.load(Ordering::Relaxed);
        let place = file_table.claim_mark(thread::number()).filter(|_| family != 0);
        let mine = remembered(family) << PLACE_BITS | place.map_or(NOWHERE, |place| place.0.into());
        own.0.set(mine);
        mine
    }
}

/// The rare path, kept out of line so that the common path stays in the processor's caches.
#[cold]
#[inline(never)]
fn counted<'s>(resident_state: ResidentState<'_>, family: u64) -> Call<'s> {
    resident_state.begin();
    Call { marked: None, family }
}

#[cold]
#[inline(never)]
fn counted_out(resident_state: ResidentState<'_>) {
    resident_state.end();
}

/// The mark that a thread remembers.
#[inline]
fn mark_at(file_table: &FileTable, mine: u64) -> Option<Mark<'_>> {
    let place = MarkPlace(mine as u32);
    if u64::from(place.0) == NOWHERE { None } else { file_table.mark(place) }
}

/// Encodes the process number; never zero, which a thread begins with.
const fn remembered(family: u64) -> u64 {
    family + 1
}
