//! Admin commands: those with names, and any other passed through. They wait for their answer.

use byway::spec::Command as Entry;
use byway::{AdminCommand, Backend, Nsid, Payload, RawData};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Fault, invalid};
use crate::held::Held;
use crate::memory::with_bytes;

/// Bytes of every Identify structure (Base 2.1, Identify).
pub const IDENTIFY_BYTES: usize = 4096;

/// What a device answered to an admin command.
#[pyclass(frozen, get_all, module = "byway")]
pub struct Answer {
    /// Completion dword 0: the command's own result.
    pub result: u32,
    /// What the device sent.
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

/// What a command sends, copied; it receives nothing then.
pub fn data_of(data: Option<&Bound<'_, PyAny>>, into: Option<usize>) -> PyResult<Option<Payload>> {
    match data {
        Some(_) if into.is_some() => Err(invalid("a command sends or receives, not both")),
        Some(data) => Ok(Some(with_bytes(data, Payload::copy_of)?.map_err(Fault::from)?)),
        None => Ok(None),
    }
}

/// Any admin command: what it sends is copied, and what it receives is bytes.
pub fn pass(
    py: Python<'_>,
    held: &Held,
    entry: Entry,
    data: Option<&Bound<'_, PyAny>>,
    into: Option<usize>,
) -> PyResult<Answer> {
    let data = data_of(data, into)?;
    let sends = data.is_some();
    let mut answer = execute(py, held, |device| {
        let data = match (data, into) {
            (Some(data), _) => RawData::ToDevice(data),
            (None, Some(len)) => RawData::FromDevice(device.buffer(len)?),
            (None, None) => RawData::None,
        };
        Ok(AdminCommand::raw(entry, data))
    })?;
    if sends {
        answer.data = PyBytes::new(py, b"").unbind();
    }
    Ok(answer)
}
