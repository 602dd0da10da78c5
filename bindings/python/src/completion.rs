//! What came of a command.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyMemoryView, PySlice, PyTuple};

use crate::command_queue::Done;
use crate::errors::of_error;

/// What came of a command: its tag, its result or its error, and its memory.
#[pyclass(frozen, module = "byway")]
pub struct Completion {
    /// The tag that the command was submitted with.
    #[pyo3(get)]
    tag: u64,
    /// Completion dword 0: of a get the length of the whole value.
    #[pyo3(get)]
    result: u32,
    /// Completion dword 1.
    #[pyo3(get)]
    result_high: u32,
    /// Why it failed, if it did.
    #[pyo3(get)]
    error: Option<Py<PyAny>>,
    /// What it read into or sent: the object that it was given, or a new buffer.
    #[pyo3(get)]
    buffer: Option<Py<PyAny>>,
    answers_length: bool,
}

impl Completion {
    /// Of a command that has finished; its callback.
    pub fn of(py: Python<'_>, done: Done) -> PyResult<(Self, Option<Py<PyAny>>)> {
        let (answer, error) = match done.result {
            Ok(answer) => (answer, None),
            Err(error) => (byway::Answer::default(), Some(of_error(py, &error)?.unbind())),
        };
        let flight = done.flight;
        let completion = Self {
            tag: done.tag,
            result: answer.dw0,
            result_high: answer.dw1,
            error,
            buffer: flight.memory,
            answers_length: flight.answers_length,
        };
        Ok((completion, flight.callback))
    }
}

#[pymethods]
impl Completion {
    /// Whether it succeeded.
    #[getter]
    const fn ok(&self) -> bool {
        self.error.is_none()
    }

    /// The memory of what it read into or sent, without a copy; of a get as much of it as the value is long. None for a command
    /// without memory in one piece.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(buffer) = self.buffer.as_ref().map(|buffer| buffer.bind(py)) else { return Ok(None) };
        if buffer.is_instance_of::<PyList>() || buffer.is_instance_of::<PyTuple>() {
            return Ok(None);
        }
        let bytes = PyMemoryView::from(buffer)?.into_any();
        if !self.answers_length {
            return Ok(Some(bytes));
        }
        let bytes = bytes.call_method1("cast", ("B",))?;
        bytes.get_item(PySlice::new(py, 0, self.result as isize, 1)).map(Some)
    }

    /// The completion itself, if the command succeeded.
    fn check(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        match &slf.get().error {
            Some(error) => Err(PyErr::from_value(error.bind(slf.py()).clone())),
            None => Ok(slf),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        match &self.error {
            Some(error) => Ok(format!("<byway.Completion {}: {}>", self.tag, error.bind(py).str()?)),
            None => Ok(format!("<byway.Completion {}: {}>", self.tag, self.result)),
        }
    }
}
