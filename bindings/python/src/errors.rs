//! Errors of the library as Python's exceptions: a class for each kind.

use std::path::PathBuf;

use byway::{Error, ErrorKind, Origin, Retry, SystemCause};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Why a call failed.
#[derive(Debug)]
pub enum Fault {
    /// What it is to be done with was closed.
    Closed(&'static str),
    /// The library, the kernel or the device says so.
    Error(Box<Error>),
    /// The same, of a file.
    OfFile(Box<Error>, PathBuf),
}

impl Fault {
    /// As an error of the library, for what runs within it.
    pub fn into_error(self) -> Error {
        match self {
            Self::Closed(what) => Error::host(ErrorKind::NotFound, format!("the {what} is closed")),
            Self::Error(error) | Self::OfFile(error, _) => *error,
        }
    }

    /// An error of what was tried with a file.
    pub fn of_file(error: Error, path: PathBuf) -> Self {
        Self::OfFile(Box::new(error), path)
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
                Fault::Closed(what) => class_named(py, "ClosedError")
                    .and_then(|class| class.call1((format!("the {what} is closed"),))),
                Fault::Error(error) => raised_of(py, error, None),
                Fault::OfFile(error, path) => raised_of(py, error, Some(path)),
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

/// The exception class and object for an error.
pub fn of_error<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    raised_of(py, error, None)
}

/// The exception of an error, with what the system said of it and of which file.
fn raised_of<'py>(py: Python<'py>, error: &Error, file: Option<&PathBuf>) -> PyResult<Bound<'py, PyAny>> {
    let attributes = PyDict::new(py);
    attributes.set_item("origin", origin(error.origin()))?;
    attributes.set_item("retry", retry(error.retry()))?;
    attributes.set_item("status", error.nvme_status().map(|status| status.code().0))?;
    let cause = SystemCause::of(error);
    let errno = cause.as_ref().map(|cause| cause.errno);
    if let Some(cause) = &cause {
        attributes.set_item("errno", cause.errno)?;
        attributes.set_item("filename", cause.path.as_ref().or(file).map(|path| path.as_os_str()))?;
    }
    class_named(py, class_of(error.kind(), errno))?.call((error.to_string(),), Some(&attributes))
}

fn class_named<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("byway._errors").map(Bound::unbind))?;
    module.bind(py).getattr(class)
}

/// Whether an exception is of an error of this kind.
pub fn is_of(py: Python<'_>, raised: &PyErr, kind: ErrorKind) -> bool {
    class_named(py, class_of(kind, None)).is_ok_and(|class| raised.is_instance(py, &class))
}

/// Numbers of the system that Python has an exception for: ENOENT and EEXIST (errno(3)).
const MISSING: i32 = 2;
const EXISTS: i32 = 17;

/// The exception's class; that of all errors for a kind that came later.
fn class_of(kind: ErrorKind, errno: Option<i32>) -> &'static str {
    match kind {
        ErrorKind::NotFound if errno == Some(MISSING) => "MissingFileError",
        ErrorKind::System if errno == Some(EXISTS) => "ExistingFileError",
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
