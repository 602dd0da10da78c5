//! The table of mapped ranges, and accesses through it.

use std::sync::Arc;

use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::completion::COMPLETION_BYTES;
use byway_spec::base::prp::PAGE_BYTES;
use byway_sys::racing::{from_shared, to_shared};
use thiserror::Error;

use crate::memory::{load_slot, load_u32, store_completion, store_u32};
use crate::tree::Tree;
use crate::{Access, BusAddr, DmaFault, DmaMemory, Why};

/// Why a range cannot be mapped or unmapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MapRefusal {
    /// The range is empty.
    #[error("a range of no bytes cannot be mapped")]
    Empty,
    /// Address, offset or length is not a multiple of the page size.
    #[error("a mapped range must begin and end at a page of 4096 bytes")]
    Misaligned,
    /// The range passes the last address.
    #[error("the range at {at} passes the end of the address space")]
    Wraps {
        /// First address of the range.
        at: BusAddr,
    },
    /// The requested part exceeds the memory.
    #[error("the part to be mapped is not inside the memory")]
    Outside,
    /// The range overlaps a mapped one.
    #[error("the range at {at} overlaps the one at {with}")]
    Overlap {
        /// First address of the range.
        at: BusAddr,
        /// First address of the mapped range.
        with: BusAddr,
    },
    /// No mapped range begins there.
    #[error("no mapped range begins at {at}")]
    NotMapped {
        /// The address.
        at: BusAddr,
    },
}

/// Mapped ranges by their first address, none overlapping.
#[derive(Debug, Default)]
pub(crate) struct Table {
    ranges: Tree<Range>,
}

// SAFETY: the ranges hold the memory that their pointers point into, and any thread may access that memory.
unsafe impl Send for Table {}
// SAFETY: as above, and a table is immutable.
unsafe impl Sync for Table {}

impl Table {
    pub(crate) fn with(&self, range: Range) -> Result<Self, MapRefusal> {
        let (start, last) = (range.hit.start, range.hit.last());
        let before = self.ranges.at_or_below(last).map(|other| other.hit);
        if let Some(hit) = before.filter(|hit| hit.last() >= start) {
            return Err(MapRefusal::Overlap { at: BusAddr(start), with: BusAddr(hit.start) });
        }
        Ok(Self { ranges: self.ranges.with(start, range) })
    }

    pub(crate) fn without(&self, at: BusAddr) -> Result<(Self, Arc<DmaMemory>), MapRefusal> {
        let (ranges, gone) = self.ranges.without(at.0).ok_or(MapRefusal::NotMapped { at })?;
        Ok((Self { ranges }, gone.memory))
    }
}

impl Locate for Table {
    #[inline]
    fn hit(&self, at: BusAddr) -> Option<Hit> {
        let hit = self.ranges.at_or_below(at.0)?.hit;
        hit.holds(at).then_some(hit)
    }
}

/// A range that is mapped, or about to be.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    hit: Hit,
    memory: Arc<DmaMemory>,
}

impl Range {
    pub(crate) fn new(
        memory: Arc<DmaMemory>,
        offset_bytes: usize,
        len_bytes: usize,
        at: BusAddr,
        access: Access,
    ) -> Result<Self, MapRefusal> {
        if len_bytes == 0 {
            return Err(MapRefusal::Empty);
        }
        if !at.0.is_multiple_of(PAGE_BYTES as u64) || !(offset_bytes | len_bytes).is_multiple_of(PAGE_BYTES) {
            return Err(MapRefusal::Misaligned);
        }
        if at.checked_add(len_bytes as u64).is_none() {
            return Err(MapRefusal::Wraps { at });
        }
        if offset_bytes.checked_add(len_bytes).is_none_or(|end| end > memory.len()) {
            return Err(MapRefusal::Outside);
        }
        let first = memory.mapping().as_mut_ptr().wrapping_add(offset_bytes);
        Ok(Self { hit: Hit { start: at.0, len_bytes: len_bytes as u64, first, access }, memory })
    }
}

/// The local address of a range of bus addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    start: u64,
    len_bytes: u64,
    first: *mut u8,
    access: Access,
}

impl Default for Hit {
    /// An empty range.
    fn default() -> Self {
        Self { start: 0, len_bytes: 0, first: std::ptr::null_mut(), access: Access::Read }
    }
}

impl Hit {
    #[inline]
    pub(crate) const fn holds(&self, at: BusAddr) -> bool {
        at.0.wrapping_sub(self.start) < self.len_bytes
    }

    /// Last address. A range in a table is never empty.
    const fn last(&self) -> u64 {
        self.start + (self.len_bytes - 1)
    }

    /// The local address of `at`, and how many bytes of the range follow. `at` is in the range.
    #[inline]
    fn locate(&self, at: BusAddr) -> (*mut u8, usize) {
        let offset = at.0.wrapping_sub(self.start);
        (self.first.wrapping_add(offset as usize), (self.len_bytes - offset) as usize)
    }
}

/// Finds the range of an address. The result stays mapped while `&self` is borrowed, until the next call.
pub(crate) trait Locate {
    fn hit(&self, at: BusAddr) -> Option<Hit>;

    /// The local address of `at` and how many bytes follow, if a device may read there.
    #[inline]
    fn readable(&self, at: BusAddr) -> Result<(*mut u8, usize), Why> {
        let hit = self.hit(at).ok_or(Why::Unmapped)?;
        if hit.access.reads() { Ok(hit.locate(at)) } else { Err(Why::NotReadable) }
    }

    /// The local address of `at` and how many bytes follow, if a device may write there.
    #[inline]
    fn writable(&self, at: BusAddr) -> Result<(*mut u8, usize), Why> {
        let hit = self.hit(at).ok_or(Why::Unmapped)?;
        if hit.access.writes() { Ok(hit.locate(at)) } else { Err(Why::NotWritable) }
    }
}

/// Copies one ring slot.
#[inline]
pub(crate) fn read_slot(
    space: &impl Locate,
    at: BusAddr,
    into: &mut [u8; COMMAND_BYTES],
) -> Result<(), DmaFault> {
    match space.readable(at) {
        Ok((from, left)) if left >= COMMAND_BYTES && from.addr().is_multiple_of(align_of::<u64>()) => {
            // SAFETY: `left` bytes are mapped at `from` until the next lookup, and it is aligned.
            unsafe { load_slot(from, into) };
            Ok(())
        }
        _ => read_pieces(space, at, into),
    }
}

#[inline]
pub(crate) fn read(space: &impl Locate, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
    match space.readable(at) {
        Ok((from, left)) if into.len() <= left => {
            // SAFETY: `left` bytes are mapped at `from` until the next lookup; `into` is no longer than that.
            unsafe { from_shared(from, into) };
            Ok(())
        }
        _ => read_pieces(space, at, into),
    }
}

/// Reads across ranges.
#[cold]
fn read_pieces(space: &impl Locate, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
    let len = into.len();
    let fault = |why| DmaFault { at, len, why };
    let (mut place, mut rest) = (at, into);
    while !rest.is_empty() {
        let (from, left) = space.readable(place).map_err(fault)?;
        let (now, later) = rest.split_at_mut(left.min(rest.len()));
        // SAFETY: `left` bytes are mapped at `from` until the next lookup; `now` is no longer than that.
        unsafe { from_shared(from, now) };
        if later.is_empty() {
            break;
        }
        place = place.checked_add(now.len() as u64).ok_or(fault(Why::Unmapped))?;
        rest = later;
    }
    Ok(())
}

#[inline]
pub(crate) fn write(space: &impl Locate, at: BusAddr, from: &[u8]) -> Result<(), DmaFault> {
    let fault = |why| DmaFault { at, len: from.len(), why };
    let (mut place, mut rest) = (at, from);
    while !rest.is_empty() {
        let (to, left) = space.writable(place).map_err(fault)?;
        let (now, later) = rest.split_at(left.min(rest.len()));
        // SAFETY: `left` bytes are mapped at `to` until the next lookup; `now` is no longer than that.
        unsafe { to_shared(to, now) };
        if later.is_empty() {
            break;
        }
        place = place.checked_add(now.len() as u64).ok_or(fault(Why::Unmapped))?;
        rest = later;
    }
    Ok(())
}

#[inline]
pub(crate) fn complete(
    space: &impl Locate,
    at: BusAddr,
    entry: &[u8; COMPLETION_BYTES],
) -> Result<(), DmaFault> {
    let fault = |why| DmaFault { at, len: COMPLETION_BYTES, why };
    aligned(at, COMPLETION_BYTES)?;
    let (to, _) = space.writable(at).map_err(fault)?;
    // SAFETY: ranges are whole pages, so an aligned entry that begins in one ends in it; it is mapped until
    // the next lookup, and pages of memory are aligned as bus pages are.
    unsafe { store_completion(to, entry) };
    Ok(())
}

#[inline]
pub(crate) fn load(space: &impl Locate, at: BusAddr) -> Result<u32, DmaFault> {
    aligned(at, 4)?;
    let (word, _) = space.readable(at).map_err(|why| DmaFault { at, len: 4, why })?;
    // SAFETY: as in `complete`.
    Ok(unsafe { load_u32(word) })
}

#[inline]
pub(crate) fn store(space: &impl Locate, at: BusAddr, value: u32) -> Result<(), DmaFault> {
    aligned(at, 4)?;
    let (word, _) = space.writable(at).map_err(|why| DmaFault { at, len: 4, why })?;
    // SAFETY: as in `complete`.
    unsafe { store_u32(word, value) };
    Ok(())
}

#[inline]
fn aligned(at: BusAddr, len: usize) -> Result<(), DmaFault> {
    if at.0.is_multiple_of(len as u64) { Ok(()) } else { Err(DmaFault { at, len, why: Why::Misaligned }) }
}
