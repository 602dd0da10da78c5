//! A device's cached view of a DMA space.
//!
//! A view caches the current table and the recently hit ranges, as a command accesses a submission ring, its data and
//! a completion ring. It marks each access with the generation at its start, for [`DmaSpace::settle`]
//! ([`crate::mark`]).

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::completion::COMPLETION_BYTES;

use crate::mark::AccessMark;
use crate::message_dma::{complete as complete_by_message, split_by_mapping};
use crate::record::Direction;
use crate::table::{Hit, Locate, Table, complete, load, read, read_slot, store, write};
use crate::{BusAddr, DmaFault, DmaSpace, HostMemory};

/// No generation: forces the first access to load the table.
const NEVER: u64 = u64::MAX;

/// A device's view of a [`DmaSpace`]. It may move between threads, but only one may use it at a time.
#[derive(Debug)]
pub struct DmaView {
    space: Arc<DmaSpace>,
    table: RefCell<Arc<Table>>,
    seen: Cell<u64>,
    recent: Recent,
    mark: Arc<AccessMark>,
}

// SAFETY: `table` holds the memory that the pointers in `recent` point into, and any thread may access that memory.
unsafe impl Send for DmaView {}

impl DmaView {
    pub(crate) fn new(space: Arc<DmaSpace>, table: Arc<Table>, mark: Arc<AccessMark>) -> Self {
        let table = RefCell::new(table);
        Self { space, table, seen: Cell::new(NEVER), recent: Recent::default(), mark }
    }

    /// The space this is a view of.
    #[must_use]
    pub const fn space(&self) -> &Arc<DmaSpace> {
        &self.space
    }

    /// Releases memory that was unmapped; otherwise the next access does.
    pub fn refresh(&self) {
        let tables = self.space.lock();
        // The generation only moves under the lock.
        self.seen.set(self.space.generation.load(Ordering::Acquire));
        self.recent.forget();
        *self.table.borrow_mut() = Arc::clone(&tables.visible);
    }

    /// Reads `into`, the needed part of the `moved_bytes` that the device moves, such as a page. The rest is not
    /// accessed: the host may be using it for something else.
    ///
    /// # Errors
    /// Some byte of `into` is not mapped for the device to read.
    #[inline]
    pub fn read_part(&self, at: BusAddr, into: &mut [u8], moved_bytes: usize) -> Result<(), DmaFault> {
        self.note_moved(Direction::Read, at, into.len(), moved_bytes);
        self.marked(|view| read(view, at, into)).or_else(|fault| self.read_by_message(fault, at, into))
    }

    /// Runs a marked access. [`MessageDma`] is never called within one: `settle` would wait for the client.
    #[inline]
    fn marked<R>(&self, act: impl FnOnce(&Self) -> R) -> R {
        let _inside = self.mark.begin(self.space.generation.load(Ordering::Relaxed));
        act(self)
    }

    /// Records an access that moves only the bytes it needs.
    #[inline]
    fn note(&self, direction: Direction, at: BusAddr, len_bytes: usize) {
        self.note_moved(direction, at, len_bytes, len_bytes);
    }

    /// Records an access, if the `record` feature is on.
    #[inline]
    #[cfg_attr(
        not(feature = "record"),
        expect(unused_variables, clippy::unused_self, reason = "no record is kept")
    )]
    fn note_moved(&self, direction: Direction, at: BusAddr, len_bytes: usize, moved_bytes: usize) {
        #[cfg(feature = "record")]
        self.space.record.note(crate::record::RecordedAccess { direction, at, len_bytes, moved_bytes });
    }

    #[cold]
    fn read_by_message(&self, fault: DmaFault, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
        let client = self.space.message_dma(fault)?;
        split_by_mapping(
            at,
            into.len(),
            |at| self.hit(at).is_some(),
            |at, part, here| {
                let piece = into.get_mut(part).unwrap_or_default();
                if here {
                    self.marked(|view| read(view, at, piece)).map_err(|fault| fault.why)
                } else {
                    client.read(&self.space, at, piece)
                }
            },
        )
    }

    #[cold]
    fn write_by_message(&self, fault: DmaFault, at: BusAddr, from: &[u8]) -> Result<(), DmaFault> {
        let client = self.space.message_dma(fault)?;
        split_by_mapping(
            at,
            from.len(),
            |at| self.hit(at).is_some(),
            |at, part, here| {
                let piece = from.get(part).unwrap_or_default();
                if here {
                    self.marked(|view| write(view, at, piece)).map_err(|fault| fault.why)
                } else {
                    client.write(&self.space, at, piece)
                }
            },
        )
    }

    #[cold]
    fn complete_by_message(
        &self,
        fault: DmaFault,
        at: BusAddr,
        entry: &[u8; COMPLETION_BYTES],
    ) -> Result<(), DmaFault> {
        let client = self.space.message_dma(fault)?;
        complete_by_message(&*client, &self.space, at, entry).map_err(|why| DmaFault { why, ..fault })
    }

    #[cold]
    fn load_by_message(&self, fault: DmaFault, at: BusAddr) -> Result<u32, DmaFault> {
        let mut word = [0; 4];
        let read = self.space.message_dma(fault)?.read(&self.space, at, &mut word);
        read.map_err(|why| DmaFault { why, ..fault })?;
        Ok(u32::from_le_bytes(word))
    }

    #[cold]
    fn store_by_message(&self, fault: DmaFault, at: BusAddr, value: u32) -> Result<(), DmaFault> {
        let written = self.space.message_dma(fault)?.write(&self.space, at, &value.to_le_bytes());
        written.map_err(|why| DmaFault { why, ..fault })
    }

    #[inline(never)]
    fn find(&self, at: BusAddr, stale: bool) -> Option<Hit> {
        if stale {
            self.refresh();
        }
        let hit = self.table.borrow().hit(at)?;
        self.recent.remember(at, hit);
        Some(hit)
    }
}

impl Locate for DmaView {
    #[inline]
    fn hit(&self, at: BusAddr) -> Option<Hit> {
        if self.seen.get() != self.space.generation.load(Ordering::Acquire) {
            return self.find(at, true);
        }
        self.recent.hit(at).or_else(|| self.find(at, false))
    }
}

impl HostMemory for DmaView {
    #[inline]
    fn read(&self, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
        self.read_part(at, into, into.len())
    }

    #[inline]
    fn write(&self, at: BusAddr, from: &[u8]) -> Result<(), DmaFault> {
        self.note(Direction::Write, at, from.len());
        self.marked(|view| write(view, at, from)).or_else(|fault| self.write_by_message(fault, at, from))
    }

    #[inline]
    fn store_completion(&self, at: BusAddr, entry: &[u8; COMPLETION_BYTES]) -> Result<(), DmaFault> {
        self.note(Direction::Write, at, entry.len());
        self.marked(|view| complete(view, at, entry))
            .or_else(|fault| self.complete_by_message(fault, at, entry))
    }

    #[inline]
    fn load_u32(&self, at: BusAddr) -> Result<u32, DmaFault> {
        self.note(Direction::Read, at, 4);
        self.marked(|view| load(view, at)).or_else(|fault| self.load_by_message(fault, at))
    }

    #[inline]
    fn store_u32(&self, at: BusAddr, value: u32) -> Result<(), DmaFault> {
        self.note(Direction::Write, at, 4);
        self.marked(|view| store(view, at, value)).or_else(|fault| self.store_by_message(fault, at, value))
    }

    #[inline]
    fn read_slot64(&self, at: BusAddr, into: &mut [u8; COMMAND_BYTES]) -> Result<(), DmaFault> {
        self.note(Direction::Read, at, COMMAND_BYTES);
        self.marked(|view| read_slot(view, at, into)).or_else(|fault| self.read_by_message(fault, at, into))
    }
}

/// Cached ranges. A queue has two rings, its bounce pages, and a buffer for each command in flight.
const RECENT_RANGES: usize = 64;

/// log2 of the bytes per cache set. Ranges that a host allocates one by one are at greater distances.
const RECENT_BYTES_LOG2: u32 = 22;

/// Direct-mapped cache of recently hit ranges, indexed by address.
#[derive(Debug)]
struct Recent {
    hits: Box<[Cell<Hit>; RECENT_RANGES]>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { hits: Box::new(std::array::from_fn(|_| Cell::default())) }
    }
}

impl Recent {
    #[inline]
    fn hit(&self, at: BusAddr) -> Option<Hit> {
        let hit = self.place(at).get();
        hit.holds(at).then_some(hit)
    }

    fn remember(&self, at: BusAddr, hit: Hit) {
        self.place(at).set(hit);
    }

    fn forget(&self) {
        self.hits.iter().for_each(|hit| hit.set(Hit::default()));
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of places")]
    fn place(&self, at: BusAddr) -> &Cell<Hit> {
        &self.hits[(at.0 >> RECENT_BYTES_LOG2) as usize % RECENT_RANGES]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use byway_spec::base::prp::PAGE_BYTES;

    use super::*;
    use crate::Access;
    use crate::testing::{PAGE, pages};

    #[test]
    fn ranges_in_the_same_cache_slot_are_distinguished() {
        let space = Arc::new(DmaSpace::new());
        let cache_bytes = (RECENT_RANGES as u64) << RECENT_BYTES_LOG2;
        let starts = [0, PAGE, cache_bytes, cache_bytes + PAGE, 5 * cache_bytes];
        for (mark, start) in (1..).zip(starts) {
            let memory = pages(1);
            memory.write_at(0, &[mark]).unwrap();
            space.map(memory, BusAddr(start), Access::ReadWrite).unwrap();
        }
        let view = space.view();
        for (mark, start) in (1..).zip(starts).chain((1..).zip(starts)) {
            let mut byte = [0];
            view.read(BusAddr(start), &mut byte).unwrap();
            assert_eq!(byte, [mark]);
        }
        assert!(view.read(BusAddr(2 * cache_bytes), &mut [0]).is_err());
    }

    #[test]
    fn a_view_sees_mappings_come_and_go() {
        let space = Arc::new(DmaSpace::new());
        let view = space.view();
        let memory = pages(1);
        assert!(view.read(BusAddr(0), &mut [0]).is_err());
        space.map(Arc::clone(&memory), BusAddr(0), Access::ReadWrite).unwrap();
        assert!(view.read(BusAddr(0), &mut [0]).is_ok());
        assert!(Arc::ptr_eq(&space.unmap(BusAddr(0)).unwrap(), &memory));
        assert!(view.read(BusAddr(0), &mut [0]).is_err());
        assert_eq!(Arc::strong_count(&memory), 1, "a view releases unmapped memory");
    }

    #[test]
    fn mapping_beside_a_running_view_never_yields_the_wrong_memory() {
        const LOOKS: u32 = if cfg!(miri) { 100 } else { 20_000 };
        let space = Arc::new(DmaSpace::new());
        let (fixed, moving) = (pages(1), pages(1));
        fixed.write_at(0, &[1; 64]).unwrap();
        moving.write_at(0, &[2; 64]).unwrap();
        space.map(fixed, BusAddr(0), Access::ReadWrite).unwrap();
        let view = space.view();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..LOOKS {
                    let mut slot = [0; 64];
                    view.read_slot64(BusAddr(0), &mut slot).unwrap();
                    assert_eq!(slot, [1; 64]);
                    if view.read_slot64(BusAddr(PAGE), &mut slot).is_ok() {
                        assert_eq!(slot, [2; 64]);
                    }
                }
            });
            for _ in 0..LOOKS / 100 {
                space.map(Arc::clone(&moving), BusAddr(PAGE), Access::Read).unwrap();
                std::thread::yield_now();
                space.unmap(BusAddr(PAGE)).unwrap();
            }
        });
    }

    #[test]
    fn settle_waits_for_earlier_accesses_and_not_for_later_ones() {
        const ROUNDS: u32 = if cfg!(miri) { 20 } else { 2000 };
        let space = Arc::new(DmaSpace::new());
        let (view, memory) = (space.view(), pages(16));
        let bytes = vec![0xff; 16 * PAGE_BYTES];
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                while view.load_u32(BusAddr(1 << 40)).is_err() {
                    let _ = view.write(BusAddr(0), &bytes);
                }
            });
            for _ in 0..ROUNDS {
                space.map(Arc::clone(&memory), BusAddr(0), Access::Write).unwrap();
                std::thread::yield_now();
                space.unmap(BusAddr(0)).unwrap();
                if space.settle().is_err() {
                    break;
                }
                // No other thread writes from here on.
                memory.write_at(0, &vec![0; 16 * PAGE_BYTES]).unwrap();
                let mut after = vec![0; 16 * PAGE_BYTES];
                memory.read_at(0, &mut after).unwrap();
                assert!(after.iter().all(|byte| *byte == 0));
            }
            space.map(pages(1), BusAddr(1 << 40), Access::Read).unwrap();
            writer.join().unwrap();
        });
    }
}
