//! Windows of device memory: which queue's stores land where (BandSlim, CXL-FGT).

use std::sync::Arc;

use byway_flash::Flash;
use byway_kv::{Key, KvEngine, KvError, RECORD_HEADER_BYTES, StoreHow, Stored, WindowCopy, WindowId};
use byway_link::Lines;
use byway_spec::Status;
use byway_spec::vendor::DmaLogEntry;
use byway_sys::Mapping;

use super::KvNamespace;
use super::store::PutError;
use crate::error::CommandError;
use crate::namespace::{Execution, Outcome};
use crate::port::{DeviceMemory, Port};
use crate::queue::BoundWindow;
use crate::subsystem::WindowShape;

/// Which windows are bound to a queue, by the number of the binding.
#[derive(Debug, Clone)]
pub struct Windows {
    bound: Vec<Option<u64>>,
}

impl Windows {
    /// `count` windows, none of them bound.
    pub fn new(count: u16) -> Self {
        Self { bound: vec![None; usize::from(count)] }
    }

    /// Takes every window from its queue.
    pub fn release_all(&mut self) {
        self.bound.fill(None);
    }
}

impl KvNamespace {
    /// Shape of the windows that the namespace was made with.
    pub fn window_shape(&self) -> WindowShape {
        WindowShape {
            count: u32::from(self.engine.window_count()),
            window_bytes: self.engine.window_range(WindowId(0)).len() as u64,
            segment_bytes: self.engine.window_segment_bytes() as u32,
            header_bytes: RECORD_HEADER_BYTES as u32,
            align_bytes: 1,
            page_bytes: self.engine.window_page_bytes() as u32,
        }
    }

    /// Memory of all windows, one after the other; `None` where the namespace has none.
    pub fn window_memory(&self) -> Option<Arc<Mapping>> {
        self.engine.window_memory()
    }

    /// Opens a free window for binding number `binding`; host and device both begin at its position 0.
    ///
    /// # Errors
    /// Operation Denied when none is free; what the flash says.
    pub fn bind_window(&mut self, flash: &mut Flash, binding: u64) -> Result<BoundWindow, CommandError> {
        let free = self.windows.bound.iter().position(Option::is_none).ok_or(NONE_FREE)?;
        let index = free as u16;
        match self.engine.open_window(flash, WindowId(index), &mut 0) {
            Err(error) if self.reclaims(flash, &error) => {
                self.engine.open_window(flash, WindowId(index), &mut 0)?;
            }
            opened => opened?,
        }
        self.windows.bound[free] = Some(binding);
        Ok(BoundWindow { nsid: self.record.nsid, index, binding })
    }

    /// Whether `window` is bound as it says, and not to another queue since.
    pub fn is_bound(&self, window: BoundWindow) -> bool {
        self.windows.bound.get(usize::from(window.index)) == Some(&Some(window.binding))
    }

    /// Closes a window. What was stored through it stays.
    pub fn unbind_window(&mut self, window: BoundWindow) {
        if self.is_bound(window) {
            self.windows.bound[usize::from(window.index)] = None;
            self.engine.close_window(WindowId(window.index));
        }
    }

    /// Stores a value that the host wrote to `window`, except for its first bytes, which the command carries.
    ///
    /// # Errors
    /// Command Sequence Error where the window is no longer the queue's; as any store.
    pub fn store_in_window(
        &mut self,
        execution: &mut Execution<'_, '_>,
        window: BoundWindow,
        key: Key,
        len_bytes: usize,
        first: &[u8],
    ) -> Result<Outcome, CommandError> {
        if !self.is_bound(window) {
            return Err(WINDOW_GONE);
        }
        let Execution { flash, port, .. } = execution;
        let head = &first[..first.len().min(len_bytes)];
        let window = WindowId(window.index);
        let copy = match port.device_memory {
            DeviceMemory::Windows => None,
            DeviceMemory::Copy(memory) => Some(self.copy_in(memory)?),
            DeviceMemory::Nowhere => return Err(NOT_SHARED),
        };
        if copy.is_some() {
            self.note_store(port, window, &key, (head.len(), len_bytes));
        }
        let (how, mut now_ps) = (StoreHow::default(), port.meter.cursor_ps());
        let stored = Stored { head, copy };
        let Self { engine, deleted, .. } = self;
        let make_room = |engine: &mut KvEngine, flash: &mut Flash, error: &KvError| {
            deleted.reclaims(engine, flash, error)
        };
        engine.put_stored(*flash, window, (&key, len_bytes as u64), stored, how, make_room, &mut now_ps)?;
        port.meter.advance_to(now_ps);
        Ok(Outcome::OK)
    }

    /// The copy of this namespace's windows in memory that is shared with a host.
    fn copy_in<'a>(&self, memory: &'a Mapping) -> Result<WindowCopy<'a>, CommandError> {
        let shape = self.window_shape();
        let at = u64::from(self.record.nsid - 1) * u64::from(shape.count) * shape.window_bytes;
        WindowCopy::of(&self.engine, memory, at as usize).ok_or(NOT_SHARED)
    }

    /// Counts what a host must have stored for the next record: all but `skip` of a value of `len_bytes`.
    fn note_store(
        &self,
        port: &mut Port<'_>,
        window: WindowId,
        key: &Key,
        (skip, len_bytes): (usize, usize),
    ) {
        if let Some(value_at) = self.engine.next_value_at(window, key, len_bytes as u64) {
            port.meter.cxl_stored(Lines::of((value_at + skip) as u64, (len_bytes - skip) as u64));
        }
    }

    /// Stores a value that comes by DMA on a queue with a window: it lands there, on a page boundary, and the completion
    /// returns the row for the host's DMA log table. Without a row it went to the shared log.
    pub(super) fn place_in_window(
        &mut self,
        flash: &mut Flash,
        (window, key, how): (WindowId, Key, StoreHow),
        len_bytes: u64,
        fill: impl FnMut(&mut [u8], &mut u64) -> Result<(), PutError>,
        now_ps: &mut u64,
    ) -> Result<Outcome, PutError> {
        let Self { engine, deleted, .. } = self;
        let make_room = |engine: &mut KvEngine, flash: &mut Flash, error: &KvError| {
            deleted.reclaims(engine, flash, error)
        };
        let row =
            engine.put_in_window_by_dma(flash, window, &key, len_bytes, how, fill, make_room, now_ps)?;
        let entry = row.map_or(DmaLogEntry::default(), |row| DmaLogEntry {
            position: row.position,
            len_bytes: row.len as u32,
        });
        let result = entry.into_result();
        Ok(Outcome::Done { dw0: result as u32, dw1: (result >> 32) as u32 })
    }
}

const WINDOW_GONE: CommandError = CommandError::new(
    Status::COMMAND_SEQUENCE_ERROR,
    "the queue's window went when the namespace was formatted or deleted",
);
const NOT_SHARED: CommandError =
    CommandError::new(Status::DATA_TRANSFER_ERROR, "device memory is not shared with this host");
const NONE_FREE: CommandError =
    CommandError::new(Status::OPERATION_DENIED, "every window of the namespace is bound to a queue");
