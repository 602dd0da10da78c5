//! The parts of a client's files that are mapped into this process.
//!
//! A file is mapped in windows, and their parts are lent to ranges from there: a host with an IOMMU of its own maps page by
//! page, and a mapping of this process for each would soon meet the system's limit. So a range maps no more of a file than
//! what it names and the rest of the same window. Windows are bounded in number and in sum.
//!
//! Every window is guarded: a client that truncates its file loses its memory and its connection; the process continues
//! (decision 0019).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use byway_dma::DmaMemory;
use byway_sys::guard::losses;
use byway_sys::map::{Mapping, PAGE_BYTES, Sharing};

use crate::memory::MemoryError;

/// Windows are so large, and begin at multiples of that: a file of any length a guest has is mapped in no more than a
/// thousand of them, however its pages are spread over ranges.
const WINDOW_MIN_BYTES: u64 = 64 << 20;
const WINDOW_MAX_BYTES: u64 = 1 << 30;
const WINDOWS_OF_A_FILE: u64 = 1024;

/// Windows of one client at once: a quarter of what a process can guard.
pub const MAX_WINDOWS: usize = byway_sys::guard::MAX_GUARDS / 4;

/// Bytes of them all: an eighth of the addresses that a process has. Untouched pages take no memory.
pub const MAX_WINDOWS_BYTES: u64 = 16 << 40;

/// One window of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowId(u64);

/// Where a window begins in which file, and whether stores reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Start {
    device: u64,
    inode: u64,
    is_shared: bool,
    at: u64,
}

#[derive(Debug)]
struct Window {
    start: Start,
    memory: Arc<DmaMemory>,
    /// Ranges that are part of it.
    ranges: usize,
}

/// A part of a window.
#[derive(Debug)]
pub struct Lent {
    /// To be given back with.
    pub window: WindowId,
    /// All of the window.
    pub memory: Arc<DmaMemory>,
    /// Where the part begins in it.
    pub offset_bytes: usize,
}

/// How large the windows of a file are. Pages of hugetlbfs are its blocks, and are not mapped in parts.
fn window_bytes(file: &Metadata) -> u64 {
    let spread = (file.len() / WINDOWS_OF_A_FILE).clamp(WINDOW_MIN_BYTES, WINDOW_MAX_BYTES);
    spread.max(file.blksize()).checked_next_power_of_two().unwrap_or(WINDOW_MAX_BYTES)
}

/// The windows of one client.
#[derive(Debug, Default)]
pub struct Windows {
    windows: BTreeMap<WindowId, Window>,
    /// The longest window that begins there.
    longest: BTreeMap<Start, WindowId>,
    mapped_bytes: u64,
    next: u64,
    /// Losses of the process at the last check.
    losses: Cell<u64>,
}

impl Windows {
    /// Memory that has the `part` of `file`, which was `found` to hold it.
    ///
    /// # Errors
    /// More than a client may map; the system's answer.
    pub fn lend(
        &mut self,
        file: &File,
        found: &Metadata,
        part: &Range<u64>,
        sharing: Sharing,
    ) -> Result<Lent, MemoryError> {
        let step = window_bytes(found);
        let first = part.start / step * step;
        let page = PAGE_BYTES as u64;
        let end = part.end.checked_next_multiple_of(step).unwrap_or(u64::MAX).min(found.len() / page * page);
        let (device, inode) = (found.dev(), found.ino());
        let start = Start { device, inode, is_shared: sharing == Sharing::Shared, at: first };
        let window = match self.known(start, part.end - first) {
            Some(window) => window,
            None => self.map(file, start, end - first, sharing)?,
        };
        let place = self.windows.get_mut(&window).ok_or(MemoryError::TooManyWindows)?;
        place.ranges += 1;
        let offset_bytes = usize::try_from(part.start - first).map_err(|_| MemoryError::TooManyWindows)?;
        Ok(Lent { window, memory: place.memory.clone(), offset_bytes })
    }

    fn known(&self, start: Start, len_bytes: u64) -> Option<WindowId> {
        let id = *self.longest.get(&start)?;
        let window = self.windows.get(&id)?;
        (window.memory.len() as u64 >= len_bytes && !window.memory.mapping().is_lost()).then_some(id)
    }

    fn map(
        &mut self,
        file: &File,
        start: Start,
        len_bytes: u64,
        sharing: Sharing,
    ) -> Result<WindowId, MemoryError> {
        let sum = self.mapped_bytes.checked_add(len_bytes).filter(|sum| *sum <= MAX_WINDOWS_BYTES);
        let sum = sum.filter(|_| self.windows.len() < MAX_WINDOWS).ok_or(MemoryError::TooManyWindows)?;
        let len = usize::try_from(len_bytes).map_err(|_| MemoryError::TooManyWindows)?;
        let memory = Arc::new(DmaMemory::from_mapping(Mapping::guarded_file(file, start.at, len, sharing)?));
        let id = WindowId(self.next);
        self.next += 1;
        self.mapped_bytes = sum;
        self.windows.insert(id, Window { start, memory, ranges: 0 });
        self.longest.insert(start, id);
        Ok(id)
    }

    /// A range is no more part of the window, which is unmapped with the last one, once no device holds it.
    pub fn give_back(&mut self, id: WindowId) {
        let Some(window) = self.windows.get_mut(&id) else { return };
        window.ranges -= 1;
        if window.ranges > 0 {
            return;
        }
        let Some(Window { start, memory, .. }) = self.windows.remove(&id) else { return };
        self.mapped_bytes -= memory.len() as u64;
        if self.longest.get(&start) == Some(&id) {
            self.longest.remove(&start);
        }
    }

    /// Whether some of it was touched where the file had no bytes any more. Quick while no such thing has happened in the
    /// process.
    pub fn is_lost(&self) -> bool {
        let now = losses();
        if self.losses.replace(now) == now {
            return false;
        }
        let is_lost = self.windows.values().any(|window| window.memory.mapping().is_lost());
        if is_lost {
            // A lost window stays lost: later calls must find it again.
            self.losses.set(u64::MAX);
        }
        is_lost
    }

    /// How many there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.windows.len()
    }
}
