//! Memory for commands that Python sees as well: a buffer of the library under Python's buffer protocol.
//!
//! The memory stays where it is, and its length what it is, for as long as the Python object lives. While a command holds
//! the buffer, the object has only the address: views that were made before go on showing the memory, whose bytes are
//! then anybody's guess, and no new ones are made.

#![expect(unsafe_code, reason = "hands out addresses by Python's buffer protocol")]

use std::any::Any;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway::ErrorKind;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::errors::{Fault, refused};

/// Page-aligned memory that commands read into and write from without a copy.
#[pyclass(frozen, module = "byway")]
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    /// None while a command holds it. Locked for an instant at a time.
    memory: Mutex<Option<byway::Buffer>>,
    /// The pages, which views may show after a command has taken the buffer to its end.
    _pages: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: the address is handed on and read under the GIL alone; the buffer itself is `Send` and behind a mutex.
unsafe impl Send for Buffer {}
// SAFETY: as for `Send`.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Python's face of `memory`.
    pub fn over(memory: byway::Buffer) -> Self {
        let pages = memory.memory().map(|pages| Arc::clone(pages) as Arc<dyn Any + Send + Sync>);
        let (start, len) = (memory.as_ptr(), memory.len());
        Self { start, len, memory: Mutex::new(Some(memory)), _pages: pages }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes the memory for a command.
    pub fn take(&self) -> PyResult<byway::Buffer> {
        let said = "the buffer is in a command that has not finished";
        self.memory().take().ok_or_else(|| refused(ErrorKind::Busy, said))
    }

    /// Copies its first bytes.
    pub fn copy_to(&self, into: &mut [u8]) -> PyResult<()> {
        let memory = self.take()?;
        let bytes = memory.as_slice();
        let copied = into.len().min(bytes.len());
        into[..copied].copy_from_slice(&bytes[..copied]);
        self.give_back(memory);
        Ok(())
    }

    /// Gives the memory back that was taken.
    pub fn give_back(&self, mut memory: byway::Buffer) {
        memory.set_len(self.len);
        *self.memory() = Some(memory);
    }

    fn memory(&self) -> MutexGuard<'_, Option<byway::Buffer>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Buffer {
    /// A buffer of this many zeroes that no device knows yet; `Device.buffer` makes those that its device is quickest with.
    #[new]
    fn zeroed(len: usize) -> PyResult<Self> {
        Ok(Self::over(byway::Buffer::zeroed(len).map_err(Fault::from)?))
    }

    /// Whether a command holds it.
    #[getter]
    fn in_flight(&self) -> bool {
        self.memory().is_none()
    }

    fn __len__(&self) -> usize {
        self.len
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, at: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        PyMemoryView::from(slf)?.get_item(at)
    }

    fn __setitem__(slf: &Bound<'_, Self>, at: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        PyMemoryView::from(slf)?.set_item(at, value)
    }

    fn __repr__(&self) -> String {
        let in_flight = if self.in_flight() { ", in flight" } else { "" };
        format!("<byway.Buffer of {} bytes{in_flight}>", self.len)
    }

    /// # Safety
    /// `view` is Python's, to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        if this.in_flight() {
            return Err(PyBufferError::new_err("the buffer is in a command that has not finished"));
        }
        let len = ffi::Py_ssize_t::try_from(this.len)?;
        // SAFETY: `view` is Python's to be filled. The memory is of this length and stays for as long as `slf`, which the
        // view keeps: `this.memory`, or the command that has it, keeps it allocated, and so does `this._pages`.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), this.start.as_ptr().cast(), len, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
