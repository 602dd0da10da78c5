//! The map from bus addresses to host memory.
//!
//! The host maps and unmaps from any thread; a device looks addresses up several times per command. So the table of
//! ranges is immutable and replaced as a whole. [`DmaSpace`] holds the current table under a lock, and its generation
//! number. Each [`DmaView`] keeps a reference to the table it saw last. Until a change, a lookup is one atomic load
//! and one comparison.
//!
//! Ordering: the generation is stored with Release after the table is replaced, and loaded with Acquire. So a view
//! that sees a new generation finds the new table, and a device that sees a doorbell sees the mappings made before
//! it.
//!
//! Lifetime: a table keeps the memory of its ranges alive, and a view keeps its table. An access that began before an
//! unmap may end after it, in memory that still exists. [`DmaSpace::settle`] waits for such accesses.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use byway_spec::base::completion::COMPLETION_BYTES;
use byway_sys::barrier;
use parking_lot::{Mutex, MutexGuard};

use crate::mark::AccessMark;
use crate::table::{MapRefusal, Range, Table, complete, load, read, store, write};
use crate::{Access, BusAddr, DmaFault, DmaMemory, DmaView, HostMemory, MessageDma, Why};

/// The bus addresses of one device: which host memory it may access, and how.
#[derive(Debug, Default)]
pub struct DmaSpace {
    tables: Mutex<Tables>,
    pub(crate) generation: AtomicU64,
    message_dma: Mutex<Option<Arc<dyn MessageDma>>>,
    /// Access marks of all views.
    marks: Mutex<Vec<Weak<AccessMark>>>,
    #[cfg(feature = "record")]
    pub(crate) record: crate::record::Record,
}

/// What is mapped, and what devices see of it: everything or nothing.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    mapped: Arc<Table>,
    pub visible: Arc<Table>,
    is_hidden: bool,
    is_revoked: bool,
}

impl Tables {
    fn update_visible(&mut self) {
        self.visible = if self.hides() { Arc::default() } else { Arc::clone(&self.mapped) };
    }

    fn hides(&self) -> bool {
        self.is_hidden || self.is_revoked
    }
}

impl DmaSpace {
    /// An empty space.
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

    /// Unmaps the range that begins at `at` and returns its memory.
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

    /// Hides all mappings from devices, or shows them again: used while the host has bus mastering disabled.
    pub fn hide(&self, is_hidden: bool) {
        let mut tables = self.lock();
        tables.is_hidden = is_hidden;
        tables.update_visible();
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Hides all mappings as [`Self::hide`] does, from a host's reset until the device has performed it. Mappings are
    /// visible only if neither applies.
    pub fn revoke(&self, is_revoked: bool) {
        let mut tables = self.lock();
        tables.is_revoked = is_revoked;
        tables.update_visible();
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Waits until every access that began before the last change has ended: nothing that was unmapped or hidden is
    /// accessed any more. Waits for the rest of a copy at most, but not for messages of [`MessageDma`].
    ///
    /// # Errors
    /// The system has no process-wide memory barrier (`membarrier`, Linux 4.14 and later).
    pub fn settle(&self) -> io::Result<()> {
        let now = self.generation.load(Ordering::Acquire);
        barrier::everywhere()?;
        let mut marks = self.marks.lock();
        marks.retain(|mark| mark.strong_count() > 0);
        for mark in marks.iter().filter_map(Weak::upgrade) {
            while mark.is_before(now) {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Sets the client memory for addresses at which nothing is mapped; `None` removes it. Accesses in progress keep
    /// the old one.
    pub fn set_message_dma(&self, message_dma: Option<Arc<dyn MessageDma>>) {
        *self.message_dma.lock() = message_dma;
    }

    /// Runs `act` if devices see the mappings. A later hide, unmap or reset waits for `act`, which must be short and
    /// not change this space.
    ///
    /// # Errors
    /// Memory is hidden.
    pub fn while_visible<R>(&self, act: impl FnOnce() -> R) -> Result<R, Why> {
        let tables = self.lock();
        if tables.hides() { Err(Why::Unmapped) } else { Ok(act()) }
    }

    /// The client memory to try after an access failed.
    ///
    /// # Errors
    /// `fault` unchanged, if messages cannot help.
    pub(crate) fn message_dma(&self, fault: DmaFault) -> Result<Arc<dyn MessageDma>, DmaFault> {
        if fault.why != Why::Unmapped || self.lock().hides() {
            return Err(fault);
        }
        self.message_dma.lock().clone().ok_or(fault)
    }

    /// A device's view of the space.
    #[must_use]
    pub fn view(self: &Arc<Self>) -> DmaView {
        let mark = Arc::new(AccessMark::default());
        self.marks.lock().push(Arc::downgrade(&mark));
        let table = Arc::clone(&self.lock().visible);
        DmaView::new(Arc::clone(self), table, mark)
    }

    /// Accesses of devices since the last call. Recording starts with the first call.
    #[cfg(feature = "record")]
    pub fn take_record(&self) -> Vec<crate::record::RecordedAccess> {
        self.record.take()
    }

    fn replace(&self, change: impl FnOnce(&Table) -> Result<Table, MapRefusal>) -> Result<(), MapRefusal> {
        let mut tables = self.lock();
        tables.mapped = Arc::new(change(&tables.mapped)?);
        tables.update_visible();
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }
}

impl HostMemory for DmaSpace {
    fn read(&self, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
        read(&*self.lock().visible, at, into)
    }

    fn write(&self, at: BusAddr, from: &[u8]) -> Result<(), DmaFault> {
        write(&*self.lock().visible, at, from)
    }

    fn store_completion(&self, at: BusAddr, entry: &[u8; COMPLETION_BYTES]) -> Result<(), DmaFault> {
        complete(&*self.lock().visible, at, entry)
    }

    fn load_u32(&self, at: BusAddr) -> Result<u32, DmaFault> {
        load(&*self.lock().visible, at)
    }

    fn store_u32(&self, at: BusAddr, value: u32) -> Result<(), DmaFault> {
        store(&*self.lock().visible, at, value)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use byway_spec::base::prp::PAGE_BYTES;

    use super::*;
    use crate::testing::{PAGE, pages};

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
    fn read_and_write_permissions_are_enforced() {
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
    fn invalid_ranges_are_refused() {
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
    fn hidden_memory_is_refused_until_it_is_visible_again() {
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
        space.revoke(true);
        space.hide(false);
        assert!(view.read(BusAddr(0), &mut [0]).is_err(), "a reset also hides the mappings");
        space.revoke(false);
        let mut byte = [0];
        view.read(BusAddr(0), &mut byte).unwrap();
        assert_eq!(byte, *b"a");
        assert!(view.read(BusAddr(PAGE), &mut byte).is_ok());
    }

    /// Two pages of a client's memory, from 0x3000.
    #[derive(Debug)]
    struct ClientMemory(Mutex<Vec<u8>>);

    impl MessageDma for ClientMemory {
        fn read(&self, _: &DmaSpace, at: BusAddr, into: &mut [u8]) -> Result<(), Why> {
            let from = at.0.checked_sub(3 * PAGE).ok_or(Why::Unmapped)? as usize;
            let bytes = self.0.lock();
            into.copy_from_slice(bytes.get(from..from + into.len()).ok_or(Why::Unmapped)?);
            Ok(())
        }

        fn write(&self, _: &DmaSpace, at: BusAddr, bytes: &[u8]) -> Result<(), Why> {
            let to = at.0.checked_sub(3 * PAGE).ok_or(Why::Unmapped)? as usize;
            let mut memory = self.0.lock();
            memory.get_mut(to..to + bytes.len()).ok_or(Why::Unmapped)?.copy_from_slice(bytes);
            Ok(())
        }
    }

    #[test]
    fn accesses_outside_the_map_go_to_message_dma_if_set() {
        let space = Arc::new(DmaSpace::new());
        let near = pages(1);
        space.map(Arc::clone(&near), BusAddr(2 * PAGE), Access::ReadWrite).unwrap();
        let view = space.view();
        assert_eq!(view.load_u32(BusAddr(3 * PAGE)).unwrap_err().why, Why::Unmapped);
        let client = Arc::new(ClientMemory(Mutex::new(vec![0; 2 * PAGE_BYTES])));
        space.set_message_dma(Some(Arc::clone(&client) as Arc<dyn MessageDma>));
        let bytes: Vec<u8> = (0..3 * PAGE_BYTES).map(|at| (at % 251) as u8).collect();
        view.write(BusAddr(2 * PAGE), &bytes).unwrap();
        assert_eq!(client.0.lock()[..], bytes[PAGE_BYTES..]);
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
        space.set_message_dma(None);
        assert!(view.load_u32(BusAddr(3 * PAGE)).is_err());
    }
}
