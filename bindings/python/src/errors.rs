//! Errors of the library as Python's exceptions: a class for each kind.

use byway::{Error, ErrorKind, Origin, Retry};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Why a call came to nothing.
#[derive(Debug)]
pub enum Fault {
    /// What it is to be done with was closed.
    Closed(&'static str),
    /// The library, the kernel or the device says so.
    Error(Box<Error>),
}

impl Fault {
    /// As an error of the library, for what runs within it.
    pub fn into_error(self) -> Error {
        match self {
            Self::Closed(what) => Error::host(ErrorKind::NotFound, format!("the {what} is closed")),
            Self::Error(error) => *error,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Error(Box::new(error))
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        Python::attach(|py| {
            let raised = match &fault {
                Fault::Closed(what) => exception(py, "ClosedError", &format!("the {what} is closed"), None),
                Fault::Error(error) => of_error(py, error),
            };
            raised.map_or_else(|error| error, PyErr::from_value)
        })
    }
}

/// A failure found here, before anything was sent.
pub fn invalid(said: impl Into<std::borrow::Cow<'static, str>>) -> PyErr {
    refused(ErrorKind::InvalidArgument, said)
}

/// A failure of this kind found here, before anything was sent.
pub fn refused(kind: ErrorKind, said: impl Into<std::borrow::Cow<'static, str>>) -> PyErr {
    Fault::from(Error::host(kind, said)).into()
}

/// The exception that tells of an error.
pub fn of_error<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    exception(py, class_of(error.kind()), &error.to_string(), Some(error))
}

fn exception<'py>(
    py: Python<'py>,
    class: &str,
    said: &str,
    error: Option<&Error>,
) -> PyResult<Bound<'py, PyAny>> {
    let told = PyDict::new(py);
    if let Some(error) = error {
        told.set_item("origin", origin(error.origin()))?;
        told.set_item("retry", retry(error.retry()))?;
        told.set_item("status", error.nvme_status().map(|status| status.code().0))?;
    }
    class_named(py, class)?.call((said,), Some(&told))
}

fn class_named<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("byway._errors").map(Bound::unbind))?;
    module.bind(py).getattr(class)
}

/// Whether an exception tells of an error of this kind.
pub fn is_of(py: Python<'_>, raised: &PyErr, kind: ErrorKind) -> bool {
    class_named(py, class_of(kind)).is_ok_and(|class| raised.is_instance(py, &class))
}

/// The exception's class; that of all errors for a kind that came later.
fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidArgument => "InvalidArgumentError",
        ErrorKind::TooLarge => "TooLargeError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::KeyNotFound => "KeyNotFoundError",
        ErrorKind::KeyExists => "KeyExistsError",
        ErrorKind::CapacityExceeded => "CapacityExceededError",
        ErrorKind::OutOfRange => "OutOfRangeError",
        ErrorKind::QueueFull => "QueueFullError",
        ErrorKind::Busy => "BusyError",
        ErrorKind::Denied => "DeniedError",
        ErrorKind::Media => "MediaError",
        ErrorKind::Mismatch => "MismatchError",
        ErrorKind::Cancelled => "CancelledError",
        ErrorKind::TimedOut => "TimedOutError",
        ErrorKind::DeviceLost => "DeviceLostError",
        ErrorKind::Protocol => "ProtocolError",
        ErrorKind::Device => "DeviceError",
        ErrorKind::System => "KernelError",
        _ => "Error",
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Host => "host",
        Origin::Kernel => "kernel",
        Origin::Device => "device",
    }
}

fn retry(retry: Retry) -> &'static str {
    match retry {
        Retry::Never => "never",
        Retry::Later => "later",
        Retry::Once => "once",
    }
}
