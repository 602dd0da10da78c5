//! Windows of device memory, and their bindings to queues.

use std::sync::Arc;

use byway_kv::RECORD_HEADER_BYTES;
use byway_spec::Status;
use byway_sys::Mapping;

use super::{NO_NAMESPACE, Subsystem};
use crate::error::CommandError;
use crate::limits::MAX_NAMESPACES;
use crate::namespace::Namespace;
use crate::queue::BoundWindow;

/// Windows of device memory that each key-value namespace has, and the rule by which records stand in them
/// (`byway_queue::WindowCursor`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowShape {
    /// Number of windows.
    pub count: u32,
    /// Bytes of each.
    pub window_bytes: u64,
    /// No record spans a multiple of this.
    pub segment_bytes: u32,
    /// Room before each value, without the key.
    pub header_bytes: u32,
    /// Records begin at multiples of this.
    pub align_bytes: u32,
    /// Page size: the contents of a page are needed until the write pointer has left it.
    pub page_bytes: u32,
}

impl Subsystem {
    /// Shape of the windows that every key-value namespace has.
    pub fn window_shape(&self) -> WindowShape {
        let format = self.options.kv_format;
        WindowShape {
            count: u32::from(format.windows),
            window_bytes: u64::from(format.window_bytes),
            segment_bytes: format.window_bytes / 2,
            header_bytes: RECORD_HEADER_BYTES as u32,
            align_bytes: 1,
            page_bytes: self.flash.geometry().page_bytes,
        }
    }

    /// Binds a free window of namespace `nsid`. Its place in device memory is its number over all namespaces, which
    /// [`Subsystem::window_place`] gives.
    ///
    /// # Errors
    /// Invalid Namespace; a namespace that is not key-value; no window is free.
    pub fn bind_window(&mut self, nsid: u32) -> Result<BoundWindow, CommandError> {
        let (announced, binding) = (self.window_shape(), self.bindings + 1);
        let (namespace, flash) = self.namespace_mut(nsid).ok_or(NO_NAMESPACE)?;
        let kv = namespace.kv()?;
        if kv.window_shape() != announced {
            return Err(OTHER_WINDOWS);
        }
        let window = kv.bind_window(flash, binding)?;
        self.bindings = binding;
        Ok(window)
    }

    /// Number of window `index` of namespace `nsid` over all namespaces: device memory holds them in this order.
    pub fn window_place(&self, nsid: u32, index: u16) -> u32 {
        (nsid - 1) * self.window_shape().count + u32::from(index)
    }

    /// Whether a window is still bound as it was: the namespace was neither formatted nor deleted since.
    pub fn is_bound(&self, window: BoundWindow) -> bool {
        matches!(self.namespace(window.nsid), Some(Namespace::Kv(kv)) if kv.is_bound(window))
    }

    /// Device memory of every key-value namespace: its first window's number over all, and the memory.
    pub fn window_memory(&mut self) -> Vec<(u32, Arc<Mapping>)> {
        let announced = self.window_shape();
        let mut areas = Vec::new();
        for nsid in 1..=MAX_NAMESPACES {
            let Some((Namespace::Kv(kv), _)) = self.namespace_mut(nsid) else { continue };
            // Windows of another shape are not at the places that were announced to hosts.
            let memory = kv.window_memory().filter(|_| kv.window_shape() == announced);
            let first = self.window_place(nsid, 0);
            areas.extend(memory.map(|memory| (first, memory)));
        }
        areas
    }

    /// Gives back a window of device memory, if it is still bound as it was.
    pub fn unbind_window(&mut self, window: BoundWindow) {
        if let Some((Namespace::Kv(kv), _)) = self.namespace_mut(window.nsid) {
            kv.unbind_window(window);
        }
    }
}

const OTHER_WINDOWS: CommandError =
    CommandError::new(Status::OPERATION_DENIED, "the namespace was made with windows of another shape");
