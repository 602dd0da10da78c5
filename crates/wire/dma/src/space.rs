//! What stands at which bus address.
//!
//! The host maps and unmaps from any thread; a device looks addresses up several times a command. So the table of
//! ranges is immutable and replaced as a whole: [`DmaSpace`] holds the current one under a lock, with a generation
//! number beside it, and each [`DmaView`] keeps a reference to the one it saw last and the ranges it hit last: a
//! command goes round a submission ring, its data and a completion ring. A lookup is one atomic load and one
//! comparison until something is mapped or unmapped.
//!
//! Ordering: the generation is stored with release after the table is in place and loaded with acquire, so a view
//! that sees a new generation finds the new table. A host that maps, then rings a doorbell, is seen mapping by
//! whoever sees the doorbell.
//!
//! Lifetime: a table holds the memory of its ranges alive, and a view holds its table. An access that began before
//! an unmap may end after it; it touches memory that is still there.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::completion::COMPLETION_BYTES;

use crate::far::{complete as complete_far, pieces};
use crate::record::Way;
use crate::table::{Hit, Locate, MapRefusal, Range, Table, complete, load, read, read_slot, store, write};
use crate::{Access, BusAddr, DmaFault, DmaMemory, FarMemory, HostMemory, Why};

/// The bus addresses of one device: which host memory it may reach, and how.
#[derive(Debug, Default)]
pub struct DmaSpace {
    tables: Mutex<Tables>,
    generation: AtomicU64,
    far: Mutex<Option<Arc<dyn FarMemory>>>,
    #[cfg(feature = "record")]
    record: crate::record::Record,
}

/// What is mapped, and what devices see of it: all of it or nothing.
#[derive(Debug, Default)]
struct Tables {
    mapped: Arc<Table>,
    shown: Arc<Table>,
    is_hidden: bool,
}

impl Tables {
    fn show(&mut self) {
        self.shown = if self.is_hidden { Arc::default() } else { Arc::clone(&self.mapped) };
    }
}

impl DmaSpace {
    /// A space with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps all of `memory` at bus address `at`.
    ///
    /// # Errors
    /// A misaligned address, a range beyond the last address, or an overlap.
    pub fn map(&self, memory: Arc<DmaMemory>, at: BusAddr, access: Access) -> Result<(), MapRefusal> {
        let len_bytes = memory.len();
        self.map_part(memory, 0, len_bytes, at, access)
    }

    /// Maps `len_bytes` of `memory` from `offset_bytes` at bus address `at`.
    ///
    /// # Errors
    /// As [`Self::map`], and a part that is empty or not inside the memory.
    pub fn map_part(
        &self,
        memory: Arc<DmaMemory>,
        offset_bytes: usize,
        len_bytes: usize,
        at: BusAddr,
        access: Access,
    ) -> Result<(), MapRefusal> {
        let range = Range::new(memory, offset_bytes, len_bytes, at, access)?;
        self.replace(|table| table.with(range))
    }

    /// Unmaps the range that begins at `at` and gives its memory back.
    ///
    /// # Errors
    /// No range begins there.
    pub fn unmap(&self, at: BusAddr) -> Result<Arc<DmaMemory>, MapRefusal> {
        let mut memory = None;
        self.replace(|table| {
            let (rest, gone) = table.without(at)?;
            memory = Some(gone);
            Ok(rest)
        })?;
        memory.ok_or(MapRefusal::NotMapped { at })
    }

    /// Has devices see nothing of what is mapped, as where a host has not let them master the bus; or all of it again.
    pub fn hide(&self, is_hidden: bool) {
        let mut tables = self.lock();
        tables.is_hidden = is_hidden;
        tables.show();
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Has devices turn to `far` for addresses at which nothing is mapped; to nobody with `None`. An access that has begun
    /// goes on with what was there.
    pub fn set_far(&self, far: Option<Arc<dyn FarMemory>>) {
        *self.far.lock().unwrap_or_else(PoisonError::into_inner) = far;
    }

    /// Who is asked after an access that failed.
    ///
    /// # Errors
    /// The failure, where asking does not help.
    fn far(&self, fault: DmaFault) -> Result<Arc<dyn FarMemory>, DmaFault> {
        if fault.why != Why::Unmapped || self.lock().is_hidden {
            return Err(fault);
        }
        self.far.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(fault)
    }

    /// A device's own way into the space.
    #[must_use]
    pub fn view(self: &Arc<Self>) -> DmaView {
        let table = RefCell::new(Arc::clone(&self.lock().shown));
        DmaView { space: Arc::clone(self), table, seen: Cell::new(NEVER), recent: Recent::default() }
    }

    /// What devices touched since the last call; from the first call on it is recorded.
    #[cfg(feature = "record")]
    pub fn take_record(&self) -> Vec<crate::record::Touch> {
        self.record.take()
    }

    fn replace(&self, change: impl FnOnce(&Table) -> Result<Table, MapRefusal>) -> Result<(), MapRefusal> {
        let mut tables = self.lock();
        tables.mapped = Arc::new(change(&tables.mapped)?);
        tables.show();
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Tables are replaced as a whole, so they are sound even if a thread died while holding the lock.
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostMemory for DmaSpace {
    fn read(&self, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
        read(&*self.lock().shown, at, into)
    }

    fn write(&self, at: BusAddr, from: &[u8]) -> Result<(), DmaFault> {
        write(&*self.lock().shown, at, from)
    }

    fn store_completion(&self, at: BusAddr, entry: &[u8; COMPLETION_BYTES]) -> Result<(), DmaFault> {
        complete(&*self.lock().shown, at, entry)
    }

    fn load_u32(&self, at: BusAddr) -> Result<u32, DmaFault> {
        load(&*self.lock().shown, at)
    }

    fn store_u32(&self, at: BusAddr, value: u32) -> Result<(), DmaFault> {
        store(&*self.lock().shown, at, value)
    }
}

/// No generation: the first access looks the table up.
const NEVER: u64 = u64::MAX;

/// A device's own way into a [`DmaSpace`]. It may move between threads but not be used by two at a time.
#[derive(Debug)]
pub struct DmaView {
    space: Arc<DmaSpace>,
    table: RefCell<Arc<Table>>,
    seen: Cell<u64>,
    recent: Recent,
}

// SAFETY: the pointers in `recent` lead into memory that `table` holds and that any thread may touch.
unsafe impl Send for DmaView {}

impl DmaView {
    /// The space this is a view of.
    #[must_use]
    pub const fn space(&self) -> &Arc<DmaSpace> {
        &self.space
    }

    /// Lets go of memory that was unmapped, which the next access would do otherwise.
    pub fn refresh(&self) {
        let tables = self.space.lock();
        // The generation only moves under the lock.
        self.seen.set(self.space.generation.load(Ordering::Acquire));
        self.recent.forget();
        *self.table.borrow_mut() = Arc::clone(&tables.shown);
    }

    /// Notes an access, where a record is kept.
    #[inline]
    #[cfg_attr(
        not(feature = "record"),
        expect(unused_variables, clippy::unused_self, reason = "no record is kept")
    )]
    fn note(&self, way: Way, at: BusAddr, len_bytes: usize) {
        #[cfg(feature = "record")]
        self.space.record.note(way, at, len_bytes);
    }

    #[cold]
    fn read_far(&self, fault: DmaFault, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
        let far = self.space.far(fault)?;
        pieces(
            at,
            into.len(),
            |at| self.hit(at).is_some(),
            |at, part, here| {
                let piece = into.get_mut(part).unwrap_or_default();
                if here { read(self, at, piece).map_err(|fault| fault.why) } else { far.read(at, piece) }
            },
        )
    }

    #[cold]
    fn write_far(&self, fault: DmaFault, at: BusAddr, from: &[u8]) -> Result<(), DmaFault> {
        let far = self.space.far(fault)?;
        pieces(
            at,
            from.len(),
            |at| self.hit(at).is_some(),
            |at, part, here| {
                let piece = from.get(part).unwrap_or_default();
                if here { write(self, at, piece).map_err(|fault| fault.why) } else { far.write(at, piece) }
            },
        )
    }

    #[cold]
    fn complete_far(
        &self,
        fault: DmaFault,
        at: BusAddr,
        entry: &[u8; COMPLETION_BYTES],
    ) -> Result<(), DmaFault> {
        let far = self.space.far(fault)?;
        complete_far(&*far, at, entry).map_err(|why| DmaFault { why, ..fault })
    }

    #[cold]
    fn load_far(&self, fault: DmaFault, at: BusAddr) -> Result<u32, DmaFault> {
        let mut word = [0; 4];
        self.space.far(fault)?.read(at, &mut word).map_err(|why| DmaFault { why, ..fault })?;
        Ok(u32::from_le_bytes(word))
    }

    #[cold]
    fn store_far(&self, fault: DmaFault, at: BusAddr, value: u32) -> Result<(), DmaFault> {
        let written = self.space.far(fault)?.write(at, &value.to_le_bytes());
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
        self.note(Way::Read, at, into.len());
        read(self, at, into).or_else(|fault| self.read_far(fault, at, into))
    }

    #[inline]
    fn write(&self, at: BusAddr, from: &[u8]) -> Result<(), DmaFault> {
        self.note(Way::Write, at, from.len());
        write(self, at, from).or_else(|fault| self.write_far(fault, at, from))
    }

    #[inline]
    fn store_completion(&self, at: BusAddr, entry: &[u8; COMPLETION_BYTES]) -> Result<(), DmaFault> {
        self.note(Way::Write, at, entry.len());
        complete(self, at, entry).or_else(|fault| self.complete_far(fault, at, entry))
    }

    #[inline]
    fn load_u32(&self, at: BusAddr) -> Result<u32, DmaFault> {
        self.note(Way::Read, at, 4);
        load(self, at).or_else(|fault| self.load_far(fault, at))
    }

    #[inline]
    fn store_u32(&self, at: BusAddr, value: u32) -> Result<(), DmaFault> {
        self.note(Way::Write, at, 4);
        store(self, at, value).or_else(|fault| self.store_far(fault, at, value))
    }

    #[inline]
    fn read_slot64(&self, at: BusAddr, into: &mut [u8; COMMAND_BYTES]) -> Result<(), DmaFault> {
        self.note(Way::Read, at, COMMAND_BYTES);
        read_slot(self, at, into).or_else(|fault| self.read_far(fault, at, into))
    }
}

/// Ranges that are remembered. A queue has two rings, its bounce pages, and a buffer for each command in flight.
const RECENT_RANGES: usize = 64;

/// Addresses closer than this are remembered in one place. Ranges that a host hands out one by one lie further apart.
const RECENT_BYTES_LOG2: u32 = 22;

/// The ranges hit last, each in the place that the address says: one look tells.
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

    const PAGE: u64 = PAGE_BYTES as u64;

    fn pages(count: usize) -> Arc<DmaMemory> {
        Arc::new(DmaMemory::new(count * PAGE_BYTES).unwrap())
    }

    #[test]
    fn a_device_reads_what_the_host_wrote_and_back() {
        let space = Arc::new(DmaSpace::new());
        let view = space.view();
        let memory = pages(1);
        space.map(Arc::clone(&memory), BusAddr(0x7000), Access::ReadWrite).unwrap();
        memory.write_at(100, b"value").unwrap();
        let mut bytes = [0; 5];
        view.read(BusAddr(0x7000 + 100), &mut bytes).unwrap();
        assert_eq!(&bytes, b"value");
        view.write(BusAddr(0x7000 + 101), b"A").unwrap();
        space.read(BusAddr(0x7000 + 100), &mut bytes).unwrap();
        assert_eq!(&bytes, b"vAlue");
    }

    #[test]
    fn an_access_may_cross_ranges_that_touch() {
        let space = Arc::new(DmaSpace::new());
        let (low, high) = (pages(1), pages(1));
        space.map(Arc::clone(&high), BusAddr(PAGE), Access::ReadWrite).unwrap();
        space.map(Arc::clone(&low), BusAddr(0), Access::ReadWrite).unwrap();
        let view = space.view();
        view.write(BusAddr(PAGE - 2), b"abcd").unwrap();
        let (mut end, mut start) = ([0; 2], [0; 2]);
        low.read_at(PAGE_BYTES - 2, &mut end).unwrap();
        high.read_at(0, &mut start).unwrap();
        assert_eq!((&end, &start), (b"ab", b"cd"));
        let mut all = [0; 4];
        view.read(BusAddr(PAGE - 2), &mut all).unwrap();
        assert_eq!(&all, b"abcd");
    }

    #[test]
    fn an_access_that_leaves_the_map_is_refused() {
        let space = Arc::new(DmaSpace::new());
        space.map(pages(1), BusAddr(PAGE), Access::ReadWrite).unwrap();
        let view = space.view();
        let mut bytes = [0; 8];
        for at in [0, PAGE - 1, 2 * PAGE - 4, 2 * PAGE, u64::MAX, u64::MAX - 3] {
            let fault = view.read(BusAddr(at), &mut bytes).unwrap_err();
            assert_eq!((fault.at, fault.len, fault.why), (BusAddr(at), 8, Why::Unmapped), "{at:#x}");
            assert_eq!(view.write(BusAddr(at), &bytes).unwrap_err().why, Why::Unmapped);
        }
        assert_eq!(view.load_u32(BusAddr(2 * PAGE)).unwrap_err().why, Why::Unmapped);
    }

    #[test]
    fn an_access_at_the_last_mappable_address_does_not_wrap() {
        let space = Arc::new(DmaSpace::new());
        let last = 0u64.wrapping_sub(2 * PAGE);
        space.map(pages(1), BusAddr(last), Access::ReadWrite).unwrap();
        space.map(pages(1), BusAddr(0), Access::ReadWrite).unwrap();
        let mut bytes = [0; 8];
        space.view().read(BusAddr(last + PAGE - 8), &mut bytes).unwrap();
        assert!(space.view().read(BusAddr(last + PAGE - 4), &mut bytes).is_err());
        assert!(space.view().read(BusAddr(u64::MAX - 3), &mut bytes).is_err());
    }

    #[test]
    fn permissions_are_the_device_s() {
        let space = Arc::new(DmaSpace::new());
        space.map(pages(1), BusAddr(0), Access::Read).unwrap();
        space.map(pages(1), BusAddr(PAGE), Access::Write).unwrap();
        let view = space.view();
        assert_eq!(view.write(BusAddr(0), b"x").unwrap_err().why, Why::NotWritable);
        assert_eq!(view.store_completion(BusAddr(0), &[0; 16]).unwrap_err().why, Why::NotWritable);
        assert_eq!(view.read(BusAddr(PAGE), &mut [0]).unwrap_err().why, Why::NotReadable);
        assert_eq!(view.load_u32(BusAddr(PAGE)).unwrap_err().why, Why::NotReadable);
        assert!(view.load_u32(BusAddr(0)).is_ok() && view.store_u32(BusAddr(PAGE), 1).is_ok());
    }

    #[test]
    fn words_and_completions_must_be_aligned() {
        let space = Arc::new(DmaSpace::new());
        space.map(pages(1), BusAddr(0), Access::ReadWrite).unwrap();
        let view = space.view();
        assert_eq!(view.load_u32(BusAddr(2)).unwrap_err().why, Why::Misaligned);
        assert_eq!(view.store_u32(BusAddr(1), 0).unwrap_err().why, Why::Misaligned);
        assert_eq!(view.store_completion(BusAddr(8), &[0; 16]).unwrap_err().why, Why::Misaligned);
        view.store_completion(BusAddr(PAGE - 16), &[7; 16]).unwrap();
        assert_eq!(view.load_u32(BusAddr(PAGE - 4)).unwrap(), 0x0707_0707);
    }

    #[test]
    fn ranges_that_cannot_be_are_refused() {
        let space = DmaSpace::new();
        let refuse =
            |offset, len, at| space.map_part(pages(2), offset, len, BusAddr(at), Access::Read).unwrap_err();
        assert_eq!(refuse(0, 0, 0), MapRefusal::Empty);
        assert_eq!(refuse(0, PAGE_BYTES, 12), MapRefusal::Misaligned);
        assert_eq!(refuse(0, 100, 0), MapRefusal::Misaligned);
        assert_eq!(refuse(4, PAGE_BYTES, 0), MapRefusal::Misaligned);
        assert_eq!(refuse(PAGE_BYTES, 2 * PAGE_BYTES, 0), MapRefusal::Outside);
        let last = 0u64.wrapping_sub(PAGE);
        assert_eq!(refuse(0, 2 * PAGE_BYTES, last), MapRefusal::Wraps { at: BusAddr(last) });
        assert_eq!(space.unmap(BusAddr(0)).unwrap_err(), MapRefusal::NotMapped { at: BusAddr(0) });
    }

    #[test]
    fn overlapping_ranges_are_refused() {
        let space = DmaSpace::new();
        space.map(pages(3), BusAddr(10 * PAGE), Access::Read).unwrap();
        for (count, page) in [(1, 10), (1, 12), (3, 8), (5, 9), (1, 11)] {
            let refusal = space.map(pages(count), BusAddr(page * PAGE), Access::Read).unwrap_err();
            assert_eq!(refusal, MapRefusal::Overlap { at: BusAddr(page * PAGE), with: BusAddr(10 * PAGE) });
        }
        space.map(pages(2), BusAddr(8 * PAGE), Access::Read).unwrap();
        space.map(pages(1), BusAddr(13 * PAGE), Access::Read).unwrap();
    }

    #[test]
    fn ranges_remembered_in_one_place_are_told_apart() {
        let space = Arc::new(DmaSpace::new());
        let apart = (RECENT_RANGES as u64) << RECENT_BYTES_LOG2;
        let starts = [0, PAGE, apart, apart + PAGE, 5 * apart];
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
        assert!(view.read(BusAddr(2 * apart), &mut [0]).is_err());
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
        assert_eq!(Arc::strong_count(&memory), 1, "a view lets go of what was unmapped");
    }

    #[test]
    fn what_is_hidden_cannot_be_reached_until_it_is_shown_again() {
        let space = Arc::new(DmaSpace::new());
        let (view, memory) = (space.view(), pages(1));
        space.map(Arc::clone(&memory), BusAddr(0), Access::ReadWrite).unwrap();
        view.write(BusAddr(0), b"a").unwrap();
        space.hide(true);
        assert_eq!(view.write(BusAddr(0), b"b").unwrap_err().why, Why::Unmapped);
        space.map(pages(1), BusAddr(PAGE), Access::ReadWrite).unwrap();
        assert!(view.read(BusAddr(PAGE), &mut [0]).is_err());
        assert_eq!(
            space.map(memory, BusAddr(0), Access::Read).unwrap_err(),
            MapRefusal::Overlap { at: BusAddr(0), with: BusAddr(0) }
        );
        space.hide(false);
        let mut byte = [0];
        view.read(BusAddr(0), &mut byte).unwrap();
        assert_eq!(byte, *b"a");
        assert!(view.read(BusAddr(PAGE), &mut byte).is_ok());
    }

    /// Two pages from 0x3000, of somebody else's.
    #[derive(Debug)]
    struct Elsewhere(Mutex<Vec<u8>>);

    impl FarMemory for Elsewhere {
        fn read(&self, at: BusAddr, into: &mut [u8]) -> Result<(), Why> {
            let from = at.0.checked_sub(3 * PAGE).ok_or(Why::Unmapped)? as usize;
            let bytes = self.0.lock().unwrap();
            into.copy_from_slice(bytes.get(from..from + into.len()).ok_or(Why::Unmapped)?);
            Ok(())
        }

        fn write(&self, at: BusAddr, bytes: &[u8]) -> Result<(), Why> {
            let to = at.0.checked_sub(3 * PAGE).ok_or(Why::Unmapped)? as usize;
            let mut memory = self.0.lock().unwrap();
            memory.get_mut(to..to + bytes.len()).ok_or(Why::Unmapped)?.copy_from_slice(bytes);
            Ok(())
        }
    }

    #[test]
    fn what_is_not_mapped_is_asked_for_where_somebody_can_be_asked() {
        let space = Arc::new(DmaSpace::new());
        let near = pages(1);
        space.map(Arc::clone(&near), BusAddr(2 * PAGE), Access::ReadWrite).unwrap();
        let view = space.view();
        assert_eq!(view.load_u32(BusAddr(3 * PAGE)).unwrap_err().why, Why::Unmapped);
        let far = Arc::new(Elsewhere(Mutex::new(vec![0; 2 * PAGE_BYTES])));
        space.set_far(Some(Arc::clone(&far) as Arc<dyn FarMemory>));
        let bytes: Vec<u8> = (0..3 * PAGE_BYTES).map(|at| (at % 251) as u8).collect();
        view.write(BusAddr(2 * PAGE), &bytes).unwrap();
        assert_eq!(far.0.lock().unwrap()[..], bytes[PAGE_BYTES..]);
        let mut read = vec![0; bytes.len() - 10];
        view.read(BusAddr(2 * PAGE + 10), &mut read).unwrap();
        assert_eq!(read, bytes[10..]);
        view.store_u32(BusAddr(4 * PAGE), 0x1234_5678).unwrap();
        assert_eq!(view.load_u32(BusAddr(4 * PAGE)).unwrap(), 0x1234_5678);
        view.store_completion(BusAddr(3 * PAGE + 16), &[7; 16]).unwrap();
        let mut slot = [0; 64];
        view.read_slot64(BusAddr(3 * PAGE), &mut slot).unwrap();
        assert_eq!((&slot[16..32], slot[32]), (&[7; 16][..], bytes[PAGE_BYTES + 32]));
        let fault = view.read(BusAddr(4 * PAGE), &mut vec![0; PAGE_BYTES + 1]).unwrap_err();
        assert_eq!((fault.at, fault.len), (BusAddr(4 * PAGE), PAGE_BYTES + 1));
        space.set_far(None);
        assert!(view.load_u32(BusAddr(3 * PAGE)).is_err());
    }

    #[test]
    fn mapping_while_a_device_runs_never_shows_it_the_wrong_memory() {
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
}
