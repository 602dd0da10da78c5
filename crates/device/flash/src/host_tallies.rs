//! Commands of hosts that threads count beside the writer of the state (decision 73): a cache line of the state for each thread, which it
//! alone writes. So counting shares no line, and the counts outlive the process at any instruction.
//!
//! What hosts did is the sum of the [state](crate::state)'s own words and all lines. An orderly close adds the lines to those words, so that
//! they are zero in a closed image; versions from before the lines see all of it there.

use std::sync::Arc;

use byway_sys::Mapping;

use crate::counters::{HostCounters, HostIo};
use crate::error::FlashError;
use crate::image::layout::Range;
use crate::protected::Backing;

/// Place in the state of the page of lines.
const PAGE: u64 = 4096;
const PAGE_BYTES: u64 = 4096;
const LINE_BYTES: usize = 64;

/// Threads that may have a line.
pub const HOST_TALLIES: usize = PAGE_BYTES as usize / LINE_BYTES;

/// The lines of an image.
#[derive(Debug, Clone)]
pub(crate) struct TallyLines(Arc<Mapping>);

/// The line of one thread.
#[derive(Debug)]
pub struct HostTally {
    lines: TallyLines,
    at: usize,
}

impl TallyLines {
    pub(crate) fn open(backing: &Backing, state: Range) -> Result<Self, FlashError> {
        let page = Range { at: state.at + PAGE, len: PAGE_BYTES };
        Ok(Self(Arc::new(backing.map(page)?.into_mapping().into_shared())))
    }

    /// The counts of line `line`.
    pub(crate) fn counts(&self, line: usize) -> HostCounters {
        HostCounters::from_words(std::array::from_fn(|word| self.load(place(line, word))))
    }

    /// The sum of all lines.
    pub(crate) fn sum(&self) -> HostCounters {
        (0..HOST_TALLIES).fold(HostCounters::default(), |sum, line| sum.plus(self.counts(line)))
    }

    /// Sets all lines to zero.
    pub(crate) fn clear(&self) {
        let words =
            (0..HOST_TALLIES).flat_map(|line| (0..HostCounters::WORDS).map(move |word| place(line, word)));
        words.filter(|at| self.load(*at) != 0).for_each(|at| self.store(at, 0));
    }

    /// The line of thread `line`.
    pub(crate) fn tally(&self, line: usize) -> HostTally {
        HostTally { lines: self.clone(), at: line }
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.0.load_u64(at).expect("lines lie inside their page")
    }

    #[inline]
    fn store(&self, at: usize, value: u64) {
        self.0.store_u64(at, value).expect("lines lie inside their page");
    }
}

impl HostTally {
    /// Adds a command that moved `bytes`. Called by the tally's thread alone.
    #[inline]
    pub fn add(&self, io: HostIo, bytes: u64) {
        let first = match io {
            HostIo::Read => 0,
            HostIo::Write => 2,
        };
        for (word, more) in [(first + 1, bytes), (first, 1)] {
            let at = place(self.at, word);
            self.lines.store(at, self.lines.load(at).saturating_add(more));
        }
    }

    /// What was added.
    #[must_use]
    pub fn counts(&self) -> HostCounters {
        self.lines.counts(self.at)
    }
}

/// Place in the page of a word of a line.
#[inline]
const fn place(line: usize, word: usize) -> usize {
    line * LINE_BYTES + word * 8
}
