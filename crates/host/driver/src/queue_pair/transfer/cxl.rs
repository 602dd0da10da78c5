//! `cxl` (BandSlim CXL-FGT): the value is stored through device memory, then a command carries the key alone.
//!
//! Each queue has a window of its own: a ring of the device's page buffers. Host and device move the same write
//! pointer by the same rule ([`WindowCursor`]), so no command carries an address. `cxl+piggyback` carries the first 35
//! bytes in the command.
//!
//! Stores are unordered against doorbells: they are settled (fence, read back of the last line) before the command is
//! placed. Two rules keep the cursors together. While a store that goes to the window's log by DMA is on its way,
//! nothing is placed: its completion reports where the device put it (the DMA log table). And the host never stores
//! over a page that the device still needs: one that the device's write pointer has not left, as far as completions
//! have reported to the host. Where no completion could move that pointer on (values placed by DMA stand far ahead of it),
//! and after a command passed through that may have moved it, the window is bound anew.

use std::collections::VecDeque;

use byway_core::{Error, ErrorKind, Result};
use byway_link::Method;
use byway_queue::WindowCursor;
use byway_spec::Status;
use byway_spec::base::feature::FeatureId;
use byway_spec::vendor::{DmaLogEntry, VendorOpcode, WRITE_BYTES, pack_write};

use crate::announced::WindowLayout;
use crate::bus::{Bus, DeviceMemory};
use crate::mapped::from_bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::Put;
use crate::table::OpIndex;

/// Vendor feature: binds a window of device memory to the submission queue in CDW11, for the namespace of the command.
/// The answer's dword 0 is the number of the window.
const FEATURE_WINDOW: FeatureId = FeatureId(0xc1);

/// Bits of a position that a completion has room for.
const POSITION_BITS: u32 = 40;

/// The window of one queue.
pub(crate) struct Window<B: Bus> {
    memory: B::Memory,
    layout: WindowLayout,
    /// Where the window begins in device memory.
    base: u64,
    nsid: u32,
    cursor: WindowCursor,
    /// Unfinished records in the order of their places, each with the write pointer before it.
    unfinished: VecDeque<(OpIndex, u64)>,
    /// Stores on their way whose values the device places in the window's log by DMA.
    dma_unfinished: u32,
    /// The device may have closed the window, or the cursors may differ. It is bound anew.
    is_stale: bool,
}

impl WindowLayout {
    /// Bytes of a record before its value.
    fn head_bytes(&self, key_len: usize) -> u64 {
        self.header_bytes + key_len as u64
    }

    /// Bytes of a record in the window.
    fn record_bytes(&self, key_len: usize, value_bytes: u64) -> u64 {
        (self.head_bytes(key_len) + value_bytes).next_multiple_of(self.align_bytes)
    }

    /// Whether a value of any key finds room in a segment.
    pub(crate) fn admits(&self, value_bytes: u64) -> bool {
        self.record_bytes(byway_core::Key::MAX_BYTES, value_bytes) <= self.segment_bytes
    }
}

/// Sends a store by `cxl`.
pub(crate) fn store<B: Bus>(queue: &mut Queue<B>, op: OpIndex, put: &Put<'_>) -> Result<()> {
    put.without_options(Method::Cxl)?;
    store_from(queue, op, put, 0, Method::Cxl)?;
    queue.send_one(op, put.vendor(VendorOpcode::KV_STORE_CXL))
}

/// Sends a store by `cxl+piggyback`.
pub(crate) fn store_piggyback<B: Bus>(queue: &mut Queue<B>, op: OpIndex, put: &Put<'_>) -> Result<()> {
    put.without_options(Method::CxlPiggyback)?;
    let (first, _) = put.split(WRITE_BYTES);
    let mut entry = put.vendor(VendorOpcode::KV_STORE_CXL_PIGGYBACK);
    pack_write(&mut entry, first);
    store_from(queue, op, put, first.len(), Method::CxlPiggyback)?;
    queue.send_one(op, entry)
}

/// Stores the value from byte `skip` on to its place in the window.
fn store_from<B: Bus>(
    queue: &mut Queue<B>,
    op: OpIndex,
    put: &Put<'_>,
    skip: usize,
    method: Method,
) -> Result<()> {
    queue.room_for_one(op)?;
    let record_bytes = queue.window_for(put.nsid.get())?.record_bytes(put, method)?;
    let at = queue.place_record(op, put.nsid.get(), record_bytes)?;
    let Some(window) = &mut queue.window else { return Err(no_window()) };
    let bytes = put.value.bytes.get(skip..).unwrap_or_default();
    let offset = at + window.layout.head_bytes(put.key.len()) + skip as u64;
    let stored = window.store(offset, bytes);
    window.is_stale |= stored.is_err();
    stored
}

impl<B: Bus> Window<B> {
    fn record_bytes(&self, put: &Put<'_>, method: Method) -> Result<u64> {
        let record_bytes = self.layout.record_bytes(put.key.len(), put.len() as u64);
        if record_bytes <= self.layout.segment_bytes {
            return Ok(record_bytes);
        }
        let limit = self.layout.segment_bytes - self.layout.head_bytes(put.key.len());
        super::within(put.len(), limit, method).map(|()| record_bytes)
    }

    /// Stores bytes at a position of the window's log, and waits until the device has them.
    fn store(&self, position: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // No record spans a segment, and segments divide the window: the bytes are in one piece.
        let offset = self.base + position % self.layout.window_bytes;
        self.memory.store(offset, bytes).map_err(from_bus)?;
        self.memory.settle(offset + bytes.len() as u64 - 1).map_err(from_bus)
    }

    /// Whether a record at `at` would overwrite a page that the device's write pointer may not have left.
    fn is_too_far_ahead(&self, at: u64, record_bytes: u64) -> bool {
        let pointer = self.unfinished.front().map_or(self.cursor.position(), |(_, before)| *before);
        let in_use_from = pointer - pointer % self.layout.page_bytes;
        at + record_bytes > in_use_from + self.layout.window_bytes
    }

    /// Whether nothing is on its way that the device would still move its write pointer for.
    fn is_idle(&self) -> bool {
        self.unfinished.is_empty() && self.dma_unfinished == 0
    }
}

impl<B: Bus> Queue<B> {
    /// The queue's window for a namespace, bound to it if it was not yet.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when all of the namespace's windows are other queues'; what the device answers.
    pub(crate) fn window_for(&mut self, nsid: u32) -> Result<&mut Window<B>> {
        let is_bound = self.window.as_ref().is_some_and(|window| window.nsid == nsid && !window.is_stale);
        if !is_bound {
            self.bind_window(nsid)?;
        }
        self.window.as_mut().ok_or_else(no_window)
    }

    /// Binds a window: a fresh log, at position 0.
    fn bind_window(&mut self, nsid: u32) -> Result<()> {
        while self.window.as_ref().is_some_and(|window| !window.is_idle()) {
            self.wait_for_any()?;
        }
        self.window = None;
        let layout = self.limits().windows.ok_or_else(no_window)?;
        let memory = self.bus.device_memory().ok_or_else(no_window)?;
        let bound = self.device.set_feature(FEATURE_WINDOW, nsid, u32::from(self.qid()));
        let index = bound.map_err(|error| not_bound(error, &layout, nsid))?.dw0;
        let base = layout.offset + u64::from(index) * layout.window_bytes;
        if base.checked_add(layout.window_bytes).is_none_or(|end| end > memory.len_bytes()) {
            let said = format!(
                "window {index} of the device is not inside its memory of {} bytes",
                memory.len_bytes()
            );
            return Err(Error::device(ErrorKind::Protocol, said));
        }
        let cursor = WindowCursor::new(layout.segment_bytes);
        let unfinished = VecDeque::with_capacity(self.table.depth() as usize);
        self.window = Some(Window {
            memory,
            layout,
            base,
            nsid,
            cursor,
            unfinished,
            dma_unfinished: 0,
            is_stale: false,
        });
        Ok(())
    }

    /// Moves the write pointer over a record, once that can be done; returns where the record is.
    fn place_record(&mut self, op: OpIndex, nsid: u32, record_bytes: u64) -> Result<u64> {
        loop {
            let window = self.window_for(nsid)?;
            let at = window.cursor.peek(record_bytes).ok_or_else(no_window)?;
            match (window.is_too_far_ahead(at, record_bytes), window.is_idle()) {
                (false, _) if window.dma_unfinished == 0 => break,
                (true, true) => window.is_stale = true,
                _ => self.wait_for_any()?,
            }
        }
        let window = self.window_for(nsid)?;
        let before = window.cursor.position();
        let at = window.cursor.place(record_bytes).ok_or_else(no_window)?;
        window.unfinished.push_back((op, before));
        self.table.op(op).in_window = true;
        Ok(at)
    }

    /// Notes that a store is on its way whose value the device may place in the log of the queue's window.
    #[inline]
    pub(crate) fn note_placement(&mut self, op: OpIndex, nsid: u32) {
        if let Some(window) = self.window.as_mut().filter(|window| window.nsid == nsid) {
            window.dma_unfinished += 1;
            self.table.op(op).reports_placement = true;
        }
    }

    /// Notes that a command is passed through which may move the write pointer of the queue's window.
    pub(crate) fn note_raw_command(&mut self, op: OpIndex, nsid: u32) {
        self.note_placement(op, nsid);
        if let Some(window) = self.window.as_mut().filter(|window| window.nsid == nsid) {
            window.is_stale = true;
        }
    }

    /// What a finished operation means for the queue's window.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] when the device reports an impossible place.
    #[inline]
    pub(crate) fn note_window(&mut self, op: OpIndex) -> Result<()> {
        if self.window.is_none() {
            return Ok(());
        }
        self.note_in_window(op)
    }

    fn note_in_window(&mut self, op: OpIndex) -> Result<()> {
        let Some(window) = &mut self.window else { return Ok(()) };
        let state = self.table.op(op);
        if std::mem::take(&mut state.in_window) {
            window.unfinished.retain(|(unfinished, _)| *unfinished != op);
            window.is_stale |= state.failed.is_some();
        }
        if !std::mem::take(&mut state.reports_placement) {
            return Ok(());
        }
        window.dma_unfinished -= 1;
        let result = u64::from(state.answer.dw0) | u64::from(state.answer.dw1) << 32;
        let entry = DmaLogEntry::from_result(result);
        if window.is_stale || state.failed.is_some() || entry.len_bytes == 0 {
            return Ok(());
        }
        let at = whole_position(entry.position, window.cursor.position());
        let noted = window.cursor.note_dma(at, entry.len_bytes.into());
        window.is_stale |= noted.is_err();
        noted.map_err(|cause| {
            Error::device(ErrorKind::Protocol, format!("the device reports a wrong DMA log entry: {cause}"))
        })
    }
}

#[cold]
fn not_bound(error: Error, layout: &WindowLayout, nsid: u32) -> Error {
    if error.nvme_status().is_some_and(|status| status.is(Status::OPERATION_DENIED)) {
        let said = format!("all {} windows of namespace {nsid} are bound to other queues", layout.windows);
        return Error::host(ErrorKind::Busy, said);
    }
    error.doing("bind a window of device memory")
}

#[cold]
fn no_window() -> Error {
    Error::host(ErrorKind::Unsupported, "the device has no window of device memory for the queue")
}

/// The first position from `from` on whose low bits are `low_bits`.
fn whole_position(low_bits: u64, from: u64) -> u64 {
    let round = 1u64 << POSITION_BITS;
    from.wrapping_add(low_bits.wrapping_sub(from) & (round - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_found_by_its_low_bits() {
        let round = 1 << POSITION_BITS;
        assert_eq!(whole_position(100, 50), 100);
        assert_eq!(whole_position(50, 50), 50);
        assert_eq!(whole_position(10, 3 * round + 20), 4 * round + 10);
        assert_eq!(whole_position(30, 3 * round + 20), 3 * round + 30);
    }
}
