//! Windows: device memory that hosts store values into (BandSlim, CXL-FGT), one for each queue that asks.
//!
//! Host and device each keep a [`WindowCursor`] that begins at 0 when the window is opened. The host leaves room for
//! the header ([`record_header_bytes`]), stores the value behind it at the place its cursor gives, and sends the key and the length alone.
//! Records take their places in the order of the queue's commands, refused ones too.
//!
//! A page of the window is needed until the device's write pointer has left it. So a host may store a record that ends
//! at position e once the page in which the pointer stands, as far as completions have told it, begins at
//! e − window bytes or later.

use std::ops::Range;
use std::sync::Arc;

use byway_flash::SyncPoint;
use byway_queue::WindowCursor;
use byway_sys::Mapping;

use crate::engine::{KvEngine, StoreHow};
use crate::error::KvError;
use crate::layout::FIRST_WINDOW;
use crate::store::PageStore;
use crate::value_log::SHARED;
use crate::value_log::packing::Placement;
use crate::value_log::record::{Kind, record_header_bytes};
use byway_spec::Key;

/// A window of the namespace, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId(pub u16);

/// A row for the host's DMA log table: bytes of the window that a record took by DMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowEntry {
    /// Where it begins, as the cursors count.
    pub position: u64,
    /// Its length, header included.
    pub len: u64,
}

/// An open window.
pub(crate) struct Window {
    /// The stream's position where the cursors' 0 is.
    base: u64,
    cursor: WindowCursor,
}

impl KvEngine {
    /// Number of windows the namespace was made with.
    #[must_use]
    pub fn window_count(&self) -> u16 {
        self.windows.len() as u16
    }

    /// Memory of all windows, to be mapped as device memory; `None` when there are none.
    #[must_use]
    pub fn window_memory(&self) -> Option<Arc<Mapping>> {
        self.log.home.windows.clone()
    }

    /// Where a window is within [`window_memory`](Self::window_memory). Positions are taken modulo its length.
    #[must_use]
    pub fn window_range(&self, window: WindowId) -> Range<usize> {
        let bytes = self.log.layout.window_bytes;
        usize::from(window.0) * bytes..(usize::from(window.0) + 1) * bytes
    }

    /// What both cursors are made with: no record in place spans a multiple of this.
    #[must_use]
    pub fn window_segment_bytes(&self) -> u64 {
        self.log.layout.window_bytes as u64 / 2
    }

    /// Bytes of the pages that a window is written to flash in.
    #[must_use]
    pub fn window_page_bytes(&self) -> usize {
        self.log.layout.page_bytes
    }

    /// Opens a window, or opens it anew: both cursors are at 0 after it.
    ///
    /// # Errors
    /// [`KvError::NoWindow`] when the namespace has no such window, errors of the flash.
    pub fn open_window<S: PageStore>(
        &mut self,
        store: &mut S,
        window: WindowId,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.check_writable(store)?;
        let segment_bytes = self.window_segment_bytes();
        let slot = self.windows.get_mut(usize::from(window.0)).ok_or(KvError::NoWindow(window.0))?;
        let bytes = self.log.layout.window_bytes as u64;
        let base = self.log.skip_to_multiple(store, stream_of(window), bytes, at_ps)?;
        store.order(SyncPoint::WindowSlot)?;
        *slot = Some(Window { base, cursor: WindowCursor::new(segment_bytes) });
        Ok(())
    }

    /// Closes a window: what is in it stays, stores to it are refused.
    pub fn close_window(&mut self, window: WindowId) {
        if let Some(slot) = self.windows.get_mut(usize::from(window.0)) {
            *slot = None;
        }
    }

    /// Stores a value that the host has stored in a window, but for its first bytes, `head`, which came with the
    /// command (none for plain `cxl`).
    ///
    /// # Errors
    /// As [`put`](Self::put); [`KvError::NoWindow`]; [`KvError::WindowBehind`]. A refused store has taken its place
    /// all the same. After an error of the flash the window is closed, and the value may be stored.
    #[expect(clippy::too_many_arguments, reason = "a put and where it is")]
    pub fn put_in_place<S: PageStore>(
        &mut self,
        store: &mut S,
        window: WindowId,
        key: &Key,
        head: &[u8],
        value_len: u64,
        how: StoreHow,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let segment_bytes = self.window_segment_bytes();
        let open = self.open_one(window)?;
        let record_bytes = record_header_bytes(key.len()) as u64 + value_len;
        let too_long = KvError::ValueTooLong { len_bytes: value_len, limit_bytes: segment_bytes };
        let start = open.base + open.cursor.place(record_bytes).ok_or(too_long)?;
        let stored = match self.admit(store, key, value_len, how, at_ps) {
            Ok(over) => {
                let draft = self.draft(key, Kind::Value, value_len as u32, Placement::Dma);
                let stored = self.log.append_in_place(store, stream_of(window), &draft, start, head, at_ps);
                stored.map(|address| self.enter(store, &draft, address, over, at_ps))
            }
            Err(refused) => Err(refused),
        };
        match stored {
            Ok(()) => self.empty_window(store, window, at_ps),
            Err(refused) => {
                self.void(store, window, key, value_len as u32, start, at_ps);
                Err(refused)
            }
        }
    }

    /// Stores a value by DMA into a window, on a 4 KiB boundary. The row goes to the host's DMA log table; without one the
    /// value found no place in the window, or the window was closed, and it went to the shared log, which the host's cursor
    /// does not see.
    ///
    /// # Errors
    /// As [`put_with`](Self::put_with).
    #[expect(clippy::too_many_arguments, reason = "a put and where it goes")]
    pub fn put_in_window_by_dma<S: PageStore, E: From<KvError>>(
        &mut self,
        store: &mut S,
        window: WindowId,
        key: &Key,
        value_len: u64,
        how: StoreHow,
        fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), E>,
        at_ps: &mut u64,
    ) -> Result<Option<WindowEntry>, E> {
        let over = self.admit(store, key, value_len, how, at_ps)?;
        let draft = self.draft(key, Kind::Value, value_len as u32, Placement::Dma);
        let is_open = self.open_one(window).is_ok();
        let Some(start) = self.log.dma_start(stream_of(window), &draft).filter(|_| is_open) else {
            let address = self.log.append(store, SHARED, &draft, fill, at_ps)?;
            self.enter(store, &draft, address, over, at_ps);
            return Ok(None);
        };
        let address = self.log.append_by_dma(store, stream_of(window), &draft, start, fill, at_ps)?;
        self.enter(store, &draft, address, over, at_ps);
        let row = self.note_dma(window, start, record_header_bytes(key.len()) as u64 + value_len)?;
        self.empty_window(store, window, at_ps)?;
        Ok(Some(row))
    }

    /// Tells the window's cursor of a value that was moved in.
    fn note_dma(&mut self, window: WindowId, start: u64, len: u64) -> Result<WindowEntry, KvError> {
        let open = self.open_one(window)?;
        let noted =
            start.checked_sub(open.base).filter(|position| open.cursor.note_dma(*position, len).is_ok());
        noted.map(|position| WindowEntry { position, len }).ok_or_else(|| {
            self.close_window(window);
            KvError::WindowBehind
        })
    }

    /// Writes full pages to flash: once the host hears of the store, their room is its own again. A window that
    /// cannot be emptied is closed.
    fn empty_window<S: PageStore>(
        &mut self,
        store: &mut S,
        window: WindowId,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let stream = stream_of(window);
        let before = self.log.streams[stream].programmed_to;
        let mut emptied = self.log.settle(store, stream, at_ps);
        if emptied.is_ok() && self.log.streams[stream].programmed_to > before {
            emptied = store.order(SyncPoint::WindowSlot).map_err(KvError::from);
        }
        if emptied.is_err() {
            self.close_window(window);
        }
        emptied
    }

    /// Marks the place of a refused store as empty, so that the log stays readable. Where even that fails the window is closed.
    fn void<S: PageStore>(
        &mut self,
        store: &mut S,
        window: WindowId,
        key: &Key,
        value_len: u32,
        start: u64,
        at_ps: &mut u64,
    ) {
        let draft = self.draft(key, Kind::Void, value_len, Placement::Dma);
        if self.log.append_in_place(store, stream_of(window), &draft, start, &[], at_ps).is_err() {
            self.close_window(window);
        }
        self.next_seq += 1;
    }

    fn open_one(&mut self, window: WindowId) -> Result<&mut Window, KvError> {
        let slot = self.windows.get_mut(usize::from(window.0));
        slot.and_then(Option::as_mut).ok_or(KvError::NoWindow(window.0))
    }
}

fn stream_of(window: WindowId) -> usize {
    FIRST_WINDOW + usize::from(window.0)
}
