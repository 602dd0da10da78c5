//! Windows: device memory that hosts store values into (BandSlim, CXL-FGT), one for each queue that asks.
//!
//! Host and device each keep a [`WindowCursor`] that begins at 0 when the window is opened. The host leaves room for
//! the header ([`record_header_bytes`]), stores the value behind it at the place its cursor gives, and sends the key and the length alone.
//! Records take their places in the order of the queue's commands, refused ones too.
//!
//! A page of the window is needed until the device's write pointer has left it. So a host may store a record that ends
//! at position e once the page in which the pointer stands, as far as completions have reported it, begins at
//! e − window bytes or later.

use std::ops::Range;
use std::sync::Arc;

use byway_flash::SyncPoint;
use byway_queue::WindowCursor;
use byway_sys::Mapping;

use crate::engine::space::Over;
use crate::engine::{KvEngine, StoreHow};
use crate::error::KvError;
use crate::index::short_values::Value;
use crate::layout::FIRST_WINDOW;
use crate::store::PageStore;
use crate::value_log::SHARED;
use crate::value_log::packing::Placement;
use crate::value_log::record::{Kind, pieces_of, record_header_bytes};
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

/// What a host has stored of a value before its command came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored<'a> {
    /// The first bytes, which came with the command (none for plain `cxl`).
    pub head: &'a [u8],
    /// Where the rest is, if not in the window itself.
    pub copy: Option<WindowCopy<'a>>,
}

/// Memory that a host which cannot reach the windows stores into instead: of the same length and layout.
/// Nothing in it is the device's before it is copied into the window of a record that was admitted.
#[derive(Clone, Copy, Debug)]
pub struct WindowCopy<'a> {
    memory: &'a Mapping,
    at: usize,
}

impl<'a> WindowCopy<'a> {
    /// The copy of `engine`'s windows that begins at `at` of `memory`; `None` if it is not all there.
    #[must_use]
    pub fn of(engine: &KvEngine, memory: &'a Mapping, at: usize) -> Option<Self> {
        let bytes = engine.window_memory().map_or(0, |windows| windows.len());
        at.checked_add(bytes).filter(|end| *end <= memory.len())?;
        Some(Self { memory, at })
    }

    /// Copies bytes of the windows' memory.
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) {
        let copied = self.memory.read_at(self.at + at, into);
        debug_assert!(copied.is_ok(), "the copy is as long as the windows");
    }
}

/// An open window.
pub(crate) struct Window {
    /// Position in the stream that corresponds to position 0 of the cursors.
    base: u64,
    cursor: WindowCursor,
    /// Values are copied from here to the shared stream: there are too few segments for this window to have one.
    is_copied: bool,
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
        self.log.home().windows.clone()
    }

    /// Where a window is within [`window_memory`](Self::window_memory). Positions are taken modulo its length.
    #[must_use]
    pub fn window_range(&self, window: WindowId) -> Range<usize> {
        let bytes = self.log.layout().window_bytes;
        usize::from(window.0) * bytes..(usize::from(window.0) + 1) * bytes
    }

    /// Segment size of both cursors: no record in place spans a multiple of it.
    #[must_use]
    pub fn window_segment_bytes(&self) -> u64 {
        self.log.layout().window_bytes as u64 / 2
    }

    /// Bytes of the pages that a window is written to flash in.
    #[must_use]
    pub fn window_page_bytes(&self) -> usize {
        self.log.layout().page_bytes
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
        if usize::from(window.0) >= self.windows.len() {
            return Err(KvError::NoWindow(window.0));
        }
        self.end_lease_of(store, usize::from(window.0));
        let is_copied = self.windows_beside(window) >= self.log.layout().windows_in_segments();
        let base = if is_copied { 0 } else { self.next_base(store, window, at_ps)? };
        let cursor = WindowCursor::new(segment_bytes);
        self.windows[usize::from(window.0)] = Some(Window { base, cursor, is_copied });
        Ok(())
    }

    /// Moves the stream of a window on to where the window's memory begins.
    fn next_base<S: PageStore>(
        &mut self,
        store: &mut S,
        window: WindowId,
        at_ps: &mut u64,
    ) -> Result<u64, KvError> {
        let bytes = self.log.layout().window_bytes as u64;
        self.make_room(store, (bytes >> self.log.layout().segment_shift) as usize, at_ps)?;
        let passed_from = self.log.stream(stream_of(window)).wp();
        let base = self.log.skip_to_multiple(store, stream_of(window), bytes, at_ps)?;
        self.log.drop_notes_at(stream_of(window), base);
        self.unsaved.add(base - passed_from);
        store.order(SyncPoint::WindowSlot)?;
        Ok(base)
    }

    /// Other windows that have a segment, or may take one.
    pub(super) fn windows_beside(&self, window: WindowId) -> usize {
        let shift = self.log.layout().segment_shift;
        let takes = |(i, open): (usize, &Option<Window>)| {
            let stream = self.log.stream(FIRST_WINDOW + i);
            i != usize::from(window.0)
                && (open.as_ref().is_some_and(|open| !open.is_copied)
                    || self.log.segments().find(stream.id(), stream.tail() >> shift).is_some())
        };
        self.windows.iter().enumerate().filter(|window| takes(*window)).count()
    }

    /// Closes a window: what is in it stays, stores to it are refused.
    pub fn close_window(&mut self, window: WindowId) {
        if let Some(slot) = self.windows.get_mut(usize::from(window.0)) {
            *slot = None;
        }
    }

    /// Where the value of the next record stands in [`window_memory`](Self::window_memory); `None` where the window is not
    /// open, or no record is so long.
    #[must_use]
    pub fn next_value_at(&self, window: WindowId, key: &Key, value_len: u64) -> Option<usize> {
        let open = self.windows.get(usize::from(window.0))?.as_ref()?;
        let header_bytes = record_header_bytes(key.len()) as u64;
        let start = open.cursor.peek(header_bytes.checked_add(value_len)?)?;
        Some(self.place_in_memory(window, open.base + start + header_bytes))
    }

    /// Offset of a window's stream position in the memory of all windows.
    fn place_in_memory(&self, window: WindowId, position: u64) -> usize {
        let ring = self.window_range(window);
        ring.start + (position % ring.len() as u64) as usize
    }

    /// Stores a value that the host has stored in a window, but for its first bytes, `head`, which came with the
    /// command (none for plain `cxl`).
    ///
    /// # Errors
    /// As [`put`](Self::put); [`KvError::NoWindow`]; [`KvError::WindowBehind`]. A refused store has taken its place
    /// all the same. After a flash error the window is closed, and the value may or may not have been stored.
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
        let stored = Stored { head, copy: None };
        self.put_stored(store, window, (key, value_len), stored, how, |_, _, _| false, at_ps)
    }

    /// As [`put_in_place`](Self::put_in_place), for a value in the window or in a [`WindowCopy`]. A step that fails is done
    /// again if `make_room` says that it has made room; so the record keeps its place, and the window stays open.
    ///
    /// # Errors
    /// As [`put_in_place`](Self::put_in_place).
    #[expect(clippy::too_many_arguments, reason = "a put and where it is")]
    pub fn put_stored<S: PageStore>(
        &mut self,
        store: &mut S,
        window: WindowId,
        (key, value_len): (&Key, u64),
        brought: Stored<'_>,
        how: StoreHow,
        mut make_room: impl FnMut(&mut Self, &mut S, &KvError) -> bool,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.counted(|engine| {
            let segment_bytes = engine.window_segment_bytes();
            let open = engine.open_one(window)?;
            let record_bytes = record_header_bytes(key.len()) as u64 + value_len;
            let too_long = KvError::ValueTooLong { len_bytes: value_len, limit_bytes: segment_bytes };
            let start = open.base + open.cursor.place(record_bytes).ok_or(too_long)?;
            if open.is_copied {
                return engine.with_room(store, &mut make_room, |engine, store| {
                    engine.put_copy(store, window, (key, value_len), (start, brought), how, at_ps)
                });
            }
            let stored = engine.with_room(store, &mut make_room, |engine, store| {
                let over = engine.admit_in_place(store, window, start, (key, value_len), how, at_ps)?;
                let draft = engine.draft(key, Kind::Value, value_len as u32, Placement::Dma);
                let address =
                    engine.log.append_in_place(store, stream_of(window), &draft, start, brought, at_ps)?;
                engine.enter(store, &draft, address, over, Value::Unknown, at_ps);
                Ok(())
            });
            match stored {
                Ok(()) => engine.empty_window(store, window, &mut make_room, at_ps),
                Err(refused) => {
                    engine.void(store, window, key, value_len as u32, start, at_ps);
                    Err(refused)
                }
            }
        })
    }

    /// Does a step, and once more if it fails and room was made for it.
    fn with_room<S: PageStore>(
        &mut self,
        store: &mut S,
        make_room: &mut impl FnMut(&mut Self, &mut S, &KvError) -> bool,
        mut step: impl FnMut(&mut Self, &mut S) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        match step(self, store) {
            Err(error) if make_room(self, store, &error) => {
                // What was done to make room is no part of the put.
                self.log.begin_work();
                self.index.begin_work();
                step(self, store)
            }
            done => done,
        }
    }

    /// As [`admit`](Self::admit), for a record that begins at `start` of the window.
    fn admit_in_place<S: PageStore>(
        &mut self,
        store: &mut S,
        window: WindowId,
        start: u64,
        (key, value_len): (&Key, u64),
        how: StoreHow,
        at_ps: &mut u64,
    ) -> Result<Over, KvError> {
        self.check_store(store, value_len)?;
        let reach = self.reach_from(stream_of(window), start, value_len);
        self.admit_to(store, key, value_len, how, reach, at_ps)
    }

    /// Copies a value from a window to the shared stream.
    fn put_copy<S: PageStore>(
        &mut self,
        store: &mut S,
        window: WindowId,
        (key, value_len): (&Key, u64),
        (start, brought): (u64, Stored<'_>),
        how: StoreHow,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let at = self.place_in_memory(window, start + record_header_bytes(key.len()) as u64);
        let mut value = vec![0; value_len as usize];
        match brought.copy {
            Some(copy) => copy.read(at, &mut value),
            None => store.read_window(self.log.home(), at, &mut value),
        }
        let head_bytes = brought.head.len().min(value.len());
        value[..head_bytes].copy_from_slice(&brought.head[..head_bytes]);
        self.put_one(store, key, value_len, how, pieces_of(&value), at_ps)
    }

    /// Stores a value by DMA into a window, on a 4 KiB boundary. The row goes to the host's DMA log table; without one the
    /// value found no place in the window, or the window was closed, and it went to the shared log, which the host's cursor
    /// does not see. A stored value whose window cannot be written to flash leaves it open if `make_room` makes room, as in
    /// [`put_stored`](Self::put_stored).
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
        mut make_room: impl FnMut(&mut Self, &mut S, &KvError) -> bool,
        at_ps: &mut u64,
    ) -> Result<Option<WindowEntry>, E> {
        self.counted(|engine| {
            engine.check_store(store, value_len)?;
            let is_open = engine.open_one(window).is_ok_and(|open| !open.is_copied);
            let draft = engine.draft(key, Kind::Value, value_len as u32, Placement::Dma);
            let start = engine.log.dma_start(stream_of(window), &draft).filter(|_| is_open);
            let reach = match start {
                Some(start) => engine.reach_from(stream_of(window), start, value_len),
                None => engine.reach_in_shared(value_len, Placement::Dma),
            };
            let over = engine.admit_to(store, key, value_len, how, reach, at_ps)?;
            let draft = engine.draft(key, Kind::Value, value_len as u32, Placement::Dma);
            let Some(start) = start else {
                let address = engine.log.append(store, SHARED, &draft, fill, at_ps)?;
                engine.enter(store, &draft, address, over, Value::Unknown, at_ps);
                return Ok(None);
            };
            let address = engine.log.append_by_dma(store, stream_of(window), &draft, start, fill, at_ps)?;
            engine.enter(store, &draft, address, over, Value::Unknown, at_ps);
            let row = engine.note_dma(window, start, record_header_bytes(key.len()) as u64 + value_len)?;
            engine.empty_window(store, window, &mut make_room, at_ps)?;
            Ok(Some(row))
        })
    }

    /// Enters a value that was moved by DMA in the DMA log table of the window's cursor.
    fn note_dma(&mut self, window: WindowId, start: u64, len: u64) -> Result<WindowEntry, KvError> {
        let open = self.open_one(window)?;
        let noted =
            start.checked_sub(open.base).filter(|position| open.cursor.note_dma(*position, len).is_ok());
        noted.map(|position| WindowEntry { position, len }).ok_or_else(|| {
            self.close_window(window);
            KvError::WindowBehind
        })
    }

    /// Writes full pages to flash: once the store's completion is posted, the host may use their room again. A window that
    /// cannot be emptied is closed.
    fn empty_window<S: PageStore>(
        &mut self,
        store: &mut S,
        window: WindowId,
        make_room: &mut impl FnMut(&mut Self, &mut S, &KvError) -> bool,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let stream = stream_of(window);
        let before = self.log.stream(stream).written_to();
        let mut emptied =
            self.with_room(store, make_room, |engine, store| engine.log.settle(store, stream, at_ps));
        if emptied.is_ok() && self.log.stream(stream).written_to() > before {
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
        let marked =
            self.log.append_in_place(store, stream_of(window), &draft, start, Stored::default(), at_ps);
        self.next_seq.pass(draft.seq);
        // The host goes on behind it, over pages that are full now.
        if marked.is_err() || self.empty_window(store, window, &mut |_, _, _| false, at_ps).is_err() {
            self.close_window(window);
        }
        // It is dead, and given back once replays begin behind it.
        self.unsaved.add(draft.record_bytes());
    }

    fn open_one(&mut self, window: WindowId) -> Result<&mut Window, KvError> {
        let slot = self.windows.get_mut(usize::from(window.0));
        slot.and_then(Option::as_mut).ok_or(KvError::NoWindow(window.0))
    }
}

fn stream_of(window: WindowId) -> usize {
    FIRST_WINDOW + usize::from(window.0)
}
