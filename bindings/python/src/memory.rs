//! What commands send and fill, out of Python's objects: a [`Buffer`], or memory of the program's by the buffer protocol,
//! without a copy.
//!
//! Memory of the program's is exported for as long as a command holds it: Python frees and resizes nothing that is
//! exported. A program that writes to it meanwhile sends, or sees, torn bytes; that is all.

#![expect(unsafe_code, reason = "lends commands the memory that Python exports")]

use std::ptr::NonNull;

use byway::{Buffers, Payload, SmallBytes};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::buffer::Buffer;
use crate::errors::{Fault, invalid};

/// What a command has of Python's, and what becomes of it when the command is done.
pub enum Keep {
    /// Nothing: what it sends was copied.
    Nothing,
    /// A buffer, which goes back where it came from.
    Buffer(Py<Buffer>),
    /// Memory that Python exports, until this is dropped.
    Lent {
        /// The export; dropped when the command no longer has the memory.
        _exported: PyUntypedBuffer,
    },
    /// One behind the other.
    Parts(Vec<Keep>),
}

/// What a command is to send or to fill, and what keeps it.
pub struct Cargo {
    /// For the command.
    pub memory: Payload,
    /// For the thread that takes its completion.
    pub keep: Keep,
}

impl Keep {
    /// Takes back what a command gives back.
    pub fn take_back(&self, buffer: Option<byway::Buffer>, parts: Buffers) {
        match (self, buffer) {
            (Self::Buffer(home), Some(buffer)) => home.get().give_back(buffer),
            (Self::Parts(keeps), _) => {
                keeps.iter().zip(parts).for_each(|(keep, part)| keep.take_back(Some(part), Buffers::NONE));
            }
            // A lent buffer ends here, before its export does.
            (Self::Buffer(_) | Self::Nothing | Self::Lent { .. }, _) => {}
        }
    }
}

impl Cargo {
    /// Nothing.
    pub fn none() -> Self {
        Self { memory: Payload::Empty, keep: Keep::Nothing }
    }

    /// What `object` holds, to be sent: a buffer, bytes, whatever exports memory, or a list of such. Memory that does not
    /// begin and end on `align_bytes` is copied.
    pub fn to_send(object: &Bound<'_, PyAny>, align_bytes: usize) -> PyResult<Self> {
        Self::of(object, &|one| match one.cast::<Buffer>() {
            Ok(buffer) => Self::of_buffer(buffer),
            Err(_) => Self::of_exported(exported(one)?, align_bytes),
        })
    }

    /// The memory of `object`, to be filled: a buffer, whatever exports memory that can be written, or a list of such.
    pub fn to_fill(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(object, &|one| match one.cast::<Buffer>() {
            Ok(buffer) => Self::of_buffer(buffer),
            Err(_) => writable(one).map(Self::lent),
        })
    }

    /// This buffer.
    pub fn of_buffer(buffer: &Bound<'_, Buffer>) -> PyResult<Self> {
        Self::of_start(buffer, buffer.get().len())
    }

    /// The first `len` bytes of this buffer.
    pub fn of_start(buffer: &Bound<'_, Buffer>, len: usize) -> PyResult<Self> {
        let mut memory = buffer.get().take()?;
        memory.set_len(len);
        Ok(Self { memory: Payload::Buffer(memory), keep: Keep::Buffer(buffer.clone().unbind()) })
    }

    fn of(object: &Bound<'_, PyAny>, one: &dyn Fn(&Bound<'_, PyAny>) -> PyResult<Self>) -> PyResult<Self> {
        if !is_several(object) {
            return one(object);
        }
        let mut whole = Self { memory: Payload::Vectored(Buffers::NONE), keep: Keep::Parts(Vec::new()) };
        for part in object.try_iter()? {
            match part.and_then(|part| one(&part)).and_then(Self::in_a_buffer) {
                Ok(part) => whole.push(part),
                Err(error) => {
                    whole.go_back();
                    return Err(error);
                }
            }
        }
        Ok(whole)
    }

    fn push(&mut self, part: Self) {
        if let (Payload::Vectored(buffers), Keep::Parts(keeps)) = (&mut self.memory, &mut self.keep) {
            buffers.as_vec_mut().extend(part.memory.into_buffer());
            keeps.push(part.keep);
        }
    }

    /// Few bytes, which travel within a command, in a buffer of their own: as one of several they must.
    fn in_a_buffer(self) -> PyResult<Self> {
        let few = match &self.memory {
            Payload::Small(few) => byway::Buffer::copy_of(few.as_slice()),
            Payload::Empty => byway::Buffer::zeroed(0),
            Payload::Buffer(_) | Payload::Vectored(_) => return Ok(self),
        };
        Ok(Self { memory: Payload::Buffer(few.map_err(Fault::from)?), keep: self.keep })
    }

    fn of_exported(exported: PyUntypedBuffer, align_bytes: usize) -> PyResult<Self> {
        let len = exported.len_bytes();
        let is_aligned = (exported.buf_ptr() as usize | len).is_multiple_of(align_bytes.max(1));
        if is_aligned && len > SmallBytes::MAX_BYTES {
            return Ok(Self::lent(exported));
        }
        let memory = Payload::copy_of(&copy_of(&exported)).map_err(Fault::from)?;
        Ok(Self { memory, keep: Keep::Nothing })
    }

    fn lent(exported: PyUntypedBuffer) -> Self {
        let Some(start) = NonNull::new(exported.buf_ptr().cast::<u8>()) else { return Self::none() };
        // SAFETY: the export keeps these bytes valid until it is dropped, which happens after the buffer is: `Keep` is
        // dropped once the completion is taken, or never (`command_queue`). The program must not touch them meanwhile,
        // as everywhere in Python where bytes move with the GIL released; it would find torn bytes, not others'.
        let memory = unsafe { byway::Buffer::lent(start, exported.len_bytes()) };
        Self { memory: Payload::Buffer(memory), keep: Keep::Lent { _exported: exported } }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Puts everything back, because of this.
    pub fn refuse<R>(self, error: PyErr) -> PyResult<R> {
        self.go_back();
        Err(error)
    }

    /// Puts everything back where it came from: nothing is sent.
    pub fn go_back(self) {
        let (buffer, parts) = self.memory.into_buffers();
        self.keep.take_back(buffer, parts);
    }
}

/// Runs `look` on the bytes of an object. Those of `bytes` are immutable and stay in place; others are copied.
pub fn with_bytes<R>(object: &Bound<'_, PyAny>, look: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    match object.cast::<pyo3::types::PyBytes>() {
        Ok(bytes) => Ok(look(bytes.as_bytes())),
        Err(_) => Ok(look(&copy_of(&exported(object)?))),
    }
}

/// Copies bytes into memory that an object exports.
pub fn fill(object: &Bound<'_, PyAny>, from: &[u8]) -> PyResult<()> {
    Places(vec![writable(object)?]).fill(object.py(), from);
    Ok(())
}

/// Copies what `object` holds, in one piece or a list of several, into the start of what `room` gives for its length.
pub fn gather(
    object: &Bound<'_, PyAny>,
    room: impl FnOnce(usize) -> PyResult<byway::Buffer>,
) -> PyResult<byway::Buffer> {
    let parts = each(object, exported)?;
    let mut whole = room(len_of_all(&parts))?;
    let mut into = whole.as_mut_slice();
    for part in &parts {
        let (here, rest) = into.split_at_mut(part.len_bytes().min(into.len()));
        // SAFETY: the export is of contiguous memory of at least this length, and lasts as long as `parts`; the GIL is held, so
        // that no Python code changes it; the library's memory is none of Python's.
        unsafe { std::ptr::copy_nonoverlapping(part.buf_ptr().cast(), here.as_mut_ptr(), here.len()) };
        into = rest;
    }
    Ok(whole)
}

/// Memory of the program's that is copied to: exported until this is dropped, and the program's all along.
pub struct Places(Vec<PyUntypedBuffer>);

impl Places {
    /// The memory of `object`, in one piece or a list of several.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        each(object, writable).map(Self)
    }

    /// Length of all, in bytes.
    pub fn len(&self) -> usize {
        len_of_all(&self.0)
    }

    /// Copies bytes to them, one behind the other, as much as they hold.
    pub fn fill(&self, _py: Python<'_>, mut from: &[u8]) {
        for part in &self.0 {
            let (here, rest) = from.split_at(part.len_bytes().min(from.len()));
            // SAFETY: the export is of contiguous, writable memory of at least this length, and lasts as long as the borrow;
            // the GIL is held all along; `from` is no memory of Python's.
            unsafe { std::ptr::copy_nonoverlapping(here.as_ptr(), part.buf_ptr().cast(), here.len()) };
            from = rest;
        }
    }
}

/// Length of the memory of an object.
pub fn len_of(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    match object.cast::<Buffer>() {
        Ok(buffer) => Ok(buffer.get().len()),
        Err(_) => Ok(exported(object)?.len_bytes()),
    }
}

fn copy_of(exported: &PyUntypedBuffer) -> Vec<u8> {
    let len = exported.len_bytes();
    let mut copy = Vec::with_capacity(len);
    // SAFETY: the export is of contiguous memory of this length, and lasts as long as the borrow; the GIL is held, so that
    // no Python code changes it; the copy has room for it, and is as long as what was written to it.
    unsafe {
        std::ptr::copy_nonoverlapping(exported.buf_ptr().cast::<u8>(), copy.as_mut_ptr(), len);
        copy.set_len(len);
    }
    copy
}

/// Whether an object is a list or tuple of buffers, not one buffer.
fn is_several(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>()
}

/// What `one` makes of an object, or of each in a list.
fn each(
    object: &Bound<'_, PyAny>,
    one: impl Fn(&Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer>,
) -> PyResult<Vec<PyUntypedBuffer>> {
    if !is_several(object) {
        return Ok(vec![one(object)?]);
    }
    object.try_iter()?.map(|part| one(&part?)).collect()
}

fn len_of_all(parts: &[PyUntypedBuffer]) -> usize {
    parts.iter().map(PyUntypedBuffer::len_bytes).sum()
}

/// The same as [`exported`], of memory that may be written.
fn writable(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let exported = exported(object)?;
    if exported.readonly() {
        return Err(invalid(format!("a {} cannot be read into", object.get_type().name()?)));
    }
    Ok(exported)
}

/// The memory that an object exports, in one piece.
fn exported(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let name = object.get_type().name()?;
    let exported = PyUntypedBuffer::get(object).map_err(|error| {
        // Another error is the object's own: it has bytes, and does not give them now.
        if !error.is_instance_of::<PyTypeError>(object.py()) {
            return error;
        }
        PyTypeError::new_err(format!("expected bytes or another object that holds bytes, not {name}"))
    })?;
    if !exported.is_c_contiguous() {
        return Err(invalid(format!("the bytes of this {name} do not stand one behind the other")));
    }
    Ok(exported)
}
