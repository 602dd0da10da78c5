//! Windows of device memory: which queue's stores land where (BandSlim, CXL-FGT).

use std::sync::Arc;

use byway_flash::Flash;
use byway_kv::{Key, RECORD_HEADER_BYTES, StoreHow, WindowId};
use byway_spec::Status;
use byway_spec::vendor::DmaLogEntry;
use byway_sys::Mapping;

use super::KvNamespace;
use crate::error::CommandError;
use crate::namespace::{Execution, Outcome};
use crate::subsystem::WindowShape;

/// Which windows are bound to a queue.
#[derive(Debug, Clone)]
pub struct Windows {
    bound: Vec<bool>,
}

impl Windows {
    /// `count` windows, none of them bound.
    pub fn new(count: u16) -> Self {
        Self { bound: vec![false; usize::from(count)] }
    }

    /// Whether window `index` is bound.
    pub fn is_bound(&self, index: u16) -> bool {
        self.bound.get(usize::from(index)).copied().unwrap_or(false)
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

    /// Opens a free window; host and device both begin at its position 0.
    ///
    /// # Errors
    /// Operation Denied when none is free; what the flash says.
    pub fn bind_window(&mut self, flash: &mut Flash) -> Result<u16, CommandError> {
        let index = self.windows.bound.iter().position(|bound| !bound).ok_or(NONE_FREE)?;
        self.engine.open_window(flash, WindowId(index as u16), &mut 0)?;
        self.windows.bound[index] = true;
        Ok(index as u16)
    }

    /// Closes a window. What was stored through it stays.
    pub fn unbind_window(&mut self, index: u16) {
        if let Some(bound) = self.windows.bound.get_mut(usize::from(index)) {
            *bound = false;
            self.engine.close_window(WindowId(index));
        }
    }

    /// Stores a value that stands in window `index` already, but for its first bytes, which came with the command.
    ///
    /// # Errors
    /// Command Sequence Error where the window is not open; as any store.
    pub fn store_in_window(
        &mut self,
        execution: &mut Execution<'_, '_>,
        index: u16,
        key: Key,
        len_bytes: usize,
        first: &[u8],
    ) -> Result<Outcome, CommandError> {
        let Execution { flash, port, .. } = execution;
        let head = &first[..first.len().min(len_bytes)];
        let (window, how, mut now_ps) = (WindowId(index), StoreHow::default(), port.meter.cursor_ps());
        self.engine.put_in_place(*flash, window, &key, head, len_bytes as u64, how, &mut now_ps)?;
        port.meter.advance_to(now_ps);
        Ok(Outcome::OK)
    }

    /// Stores a value that comes by DMA on a queue with a window: it lands there, on a page boundary, and the
    /// completion tells the host the row for its DMA log table. Without a row it went to the shared log.
    pub(super) fn place_in_window(
        &mut self,
        flash: &mut Flash,
        (window, key, how): (WindowId, Key, StoreHow),
        value_bytes: usize,
        fill: impl FnMut(&mut [u8]) -> Result<(), CommandError>,
        now_ps: &mut u64,
    ) -> Result<Outcome, CommandError> {
        let row =
            self.engine.put_in_window_by_dma(flash, window, &key, value_bytes as u64, how, fill, now_ps)?;
        let told = row.map_or(DmaLogEntry::default(), |row| DmaLogEntry {
            position: row.position,
            len_bytes: row.len as u32,
        });
        let result = told.into_result();
        Ok(Outcome::Done { dw0: result as u32, dw1: (result >> 32) as u32 })
    }
}

const NONE_FREE: CommandError =
    CommandError::new(Status::OPERATION_DENIED, "every window of the namespace is bound to a queue");
