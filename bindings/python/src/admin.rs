//! Admin commands: those with names, and any other passed through. They wait for their answer.

use byway::spec::Command as Entry;
use byway::{AdminCommand, Backend, Nsid, Payload, RawData};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Fault, invalid};
use crate::held::Held;
use crate::memory::{Places, gather};

/// Bytes of every Identify structure (Base 2.1, Identify).
pub const IDENTIFY_BYTES: usize = 4096;

/// What a device answered to an admin command.
#[pyclass(frozen, get_all, module = "byway")]
pub struct Answer {
    /// Completion dword 0: the command's own result.
    pub result: u32,
    /// What the device sent, unless memory was given for it.
    pub data: Py<PyBytes>,
}

#[pymethods]
impl Answer {
    fn __repr__(&self, py: Python<'_>) -> String {
        format!("Answer(result={}, data=<{} bytes>)", self.result, self.data.as_bytes(py).len())
    }
}

/// Sends an admin command and waits for it. The memory is the library's own: a device may be late.
pub fn execute(
    py: Python<'_>,
    held: &Held,
    command: impl FnOnce(&byway::Device) -> byway::Result<AdminCommand> + Send,
) -> PyResult<Answer> {
    let outcome = held.with(py, |device| device.admin(command(device)?))?;
    let data = outcome.buffer.as_ref().map_or(&[][..], byway::Buffer::as_slice);
    Ok(Answer { result: outcome.answer.dw0, data: PyBytes::new(py, data).unbind() })
}

/// A namespace's number, where one is given.
pub fn nsid_of(nsid: Option<u32>) -> PyResult<Option<Nsid>> {
    Ok(nsid.map(Nsid::new).transpose().map_err(Fault::from)?)
}

/// Where what a command receives goes.
pub enum Receives {
    /// It receives nothing.
    Nothing,
    /// To bytes.
    Bytes,
    /// To memory of the program's.
    Memory(Places),
}

/// The data of a command: bytes to send, or a number of bytes or memory to receive. Either memory is one piece or several.
///
/// All of it is copied, once, into or out of memory that the device can use. A device that is late may write after its command
/// was given up, and an admin command that fails does not say whether it was, as its memory does not come back
/// ([`Backend::admin`]): memory of the program's, if it were lent, would have to stay exported for ever after any error.
pub fn data_of(
    py: Python<'_>,
    held: &Held,
    data: Option<&Bound<'_, PyAny>>,
    into: Option<&Bound<'_, PyAny>>,
) -> PyResult<(RawData, Receives)> {
    let Some(into) = into else {
        let sent = sent(py, held, data)?;
        return Ok((data.map_or(RawData::None, |_| RawData::ToDevice(sent)), Receives::Nothing));
    };
    if data.is_some() {
        return Err(invalid("a command sends or receives, not both"));
    }
    let room = |len| held.with(py, |device| device.buffer(len));
    if let Ok(len) = into.extract::<usize>() {
        return Ok((RawData::FromDevice(room(len)?), Receives::Bytes));
    }
    let places = Places::of(into)?;
    Ok((RawData::FromDevice(room(places.len())?), Receives::Memory(places)))
}

impl Receives {
    /// Puts what came where it belongs; the bytes, where that is to bytes.
    pub fn take<'py>(&self, py: Python<'py>, came: &byway::Buffer) -> Option<Bound<'py, PyBytes>> {
        let came = came.as_slice();
        match self {
            Self::Nothing => None,
            Self::Bytes => Some(PyBytes::new(py, came)),
            Self::Memory(places) => {
                places.fill(py, came);
                None
            }
        }
    }
}

/// Memory to send, in one piece or several, copied.
pub fn sent(py: Python<'_>, held: &Held, data: Option<&Bound<'_, PyAny>>) -> PyResult<Payload> {
    let Some(data) = data else { return Ok(Payload::Empty) };
    let copy = gather(data, |len| held.with(py, |device| device.buffer(len)))?;
    Ok(if copy.is_empty() { Payload::Empty } else { Payload::Buffer(copy) })
}

/// Any admin command. What it receives is bytes, unless memory is given for it.
pub fn pass(
    py: Python<'_>,
    held: &Held,
    entry: Entry,
    data: Option<&Bound<'_, PyAny>>,
    into: Option<&Bound<'_, PyAny>>,
) -> PyResult<Answer> {
    let (data, receives) = data_of(py, held, data, into)?;
    let outcome = held.with(py, |device| device.admin(AdminCommand::raw(entry, data)))?;
    let data = outcome.buffer.and_then(|came| receives.take(py, &came));
    let data = data.unwrap_or_else(|| PyBytes::new(py, b""));
    Ok(Answer { result: outcome.answer.dw0, data: data.unbind() })
}
