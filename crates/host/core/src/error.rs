//! The one error of the API: what kind, from where, what was being done.
//!
//! An error is made where it is found with the bare fact ("value of 20000000 bytes is over the device's limit
//! of 16777216 bytes"), and given what was being done on its way up ([`Error::doing`]). A device's refusal costs no
//! allocation: a key that is not there is an ordinary answer.

use std::borrow::Cow;
use std::fmt;

use byway_spec::base::status::sct;
use byway_spec::{KeyError, Status};
use byway_sys::OwnerProcess;

/// A result of this API.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of failure, whatever its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is wrong whatever the device: an empty key, a length of zero.
    InvalidArgument,
    /// A length is over a limit: of keys, or one that the device announced.
    TooLarge,
    /// The device or the backend does not do this.
    Unsupported,
    /// There is no such device, namespace or file.
    NotFound,
    /// The key does not exist.
    KeyNotFound,
    /// The key exists, and the command wanted that it does not.
    KeyExists,
    /// The namespace has no room left.
    CapacityExceeded,
    /// The address is outside the namespace.
    OutOfRange,
    /// The queue has no room for the command now; the command is given back.
    QueueFull,
    /// Another user has it.
    Busy,
    /// No permission, a read-only device, or a handle that another process opened: a forked child opens its own.
    Denied,
    /// The data is not what was written.
    Media,
    /// A compare command found a difference.
    Mismatch,
    /// The command was given up before it was done.
    Cancelled,
    /// Nothing came within the time given.
    TimedOut,
    /// The device is gone, or reported a fatal state; it must be attached anew.
    DeviceLost,
    /// The peer said something that the specification does not allow.
    Protocol,
    /// Any other failure of the device.
    Device,
    /// Any other failure of the operating system.
    System,
}

/// Origin of a failure. Not `non_exhaustive`: the bindings of other languages have a name for each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// This library, before anything was sent.
    Host,
    /// The operating system.
    Kernel,
    /// The device, by a status or by its silence.
    Device,
}

/// Whether the same call can be expected to succeed later. Not `non_exhaustive`, as [`Origin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// No: the same call fails again.
    Never,
    /// Yes, after something else has finished.
    Later,
    /// Once: it may have been an accident, or the outcome is unknown.
    Once,
}

/// An error of the API: 32 bytes, so that results stay small whatever they hold.
pub struct Error {
    kind: ErrorKind,
    origin: Origin,
    retry: Retry,
    status: Option<Status>,
    /// The bare fact, where its words never vary.
    said: &'static str,
    context: Option<Box<Context>>,
}

/// The context of an error beyond its kind.
#[derive(Default)]
struct Context {
    /// The call that failed, as a verb phrase ("put key 0041"), outermost first.
    doing: Option<Cow<'static, str>>,
    /// The bare fact, in words of its own.
    said: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// The text says all that the source does.
    covers_source: bool,
}

impl Error {
    fn new(kind: ErrorKind, origin: Origin, said: Cow<'static, str>) -> Self {
        let retry = retry_of(kind);
        let mut error = Self { kind, origin, retry, status: None, said: "", context: None };
        match said {
            Cow::Borrowed(said) => error.said = said,
            Cow::Owned(said) => error.context().said = Some(said),
        }
        error
    }

    fn context(&mut self) -> &mut Context {
        self.context.get_or_insert_default()
    }

    /// A failure found by this library.
    #[must_use]
    #[cold]
    pub fn host(kind: ErrorKind, said: impl Into<Cow<'static, str>>) -> Self {
        Self::new(kind, Origin::Host, said.into())
    }

    /// The refusal of an admin command by what has no controller to send it to.
    #[must_use]
    #[cold]
    pub fn no_controller(device: impl fmt::Display) -> Self {
        let said = format!("{device} has no controller that takes admin commands: it is no NVMe device");
        Self::host(ErrorKind::Unsupported, said)
    }

    /// The refusal of a call in a forked child, on a handle that its parent opened.
    #[must_use]
    #[cold]
    pub fn other_process(owner: &OwnerProcess) -> Self {
        Self::host(ErrorKind::Denied, OwnerProcess::refusal("the device", owner.number()))
    }

    /// A failure reported by the operating system.
    #[must_use]
    #[cold]
    pub fn kernel(said: impl Into<Cow<'static, str>>, source: std::io::Error) -> Self {
        Self::new(kind_of_io(source.kind()), Origin::Kernel, said.into()).with_source(source)
    }

    /// A failure of the device without a status: silence, a fatal state, an answer out of order.
    #[must_use]
    #[cold]
    pub fn device(kind: ErrorKind, said: impl Into<Cow<'static, str>>) -> Self {
        Self::new(kind, Origin::Device, said.into())
    }

    /// A command that the device completed with a status other than success.
    #[must_use]
    pub fn status(status: Status) -> Self {
        let mut error = Self::new(kind_of_status(status), Origin::Device, Cow::Borrowed(""));
        error.status = Some(status);
        if !status.dnr() && error.kind == ErrorKind::Device {
            error.retry = Retry::Once;
        }
        error
    }

    /// The same error with what was being done ("put key 0041"). The outermost context stands first.
    #[must_use]
    pub fn doing(mut self, what: impl Into<Cow<'static, str>>) -> Self {
        let what = what.into();
        let context = self.context();
        context.doing = Some(match context.doing.take() {
            Some(doing) => Cow::Owned(format!("{what}: {doing}")),
            None => what,
        });
        self
    }

    /// The same error, with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.context().source = Some(source.into());
        self
    }

    /// The same error, whose own words say all that its cause does: the cause is kept as the source, and not printed after them.
    #[must_use]
    pub fn covering_source(mut self) -> Self {
        self.context().covers_source = true;
        self
    }

    /// The same error, of another kind than its cause gives.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        (self.kind, self.retry) = (kind, retry_of(kind));
        self
    }

    /// The same error, of another retry class.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// What kind of failure it was.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Who refused: this library, the operating system or the device.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Whether the same call can be expected to succeed later.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.retry
    }

    /// The NVMe status, when a device completed the command with one.
    #[must_use]
    pub fn nvme_status(&self) -> Option<Status> {
        self.status
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = self.context.as_deref();
        if let Some(doing) = context.and_then(|context| context.doing.as_deref()) {
            write!(out, "{doing}: ")?;
        }
        match (self.status, context.and_then(|context| context.said.as_deref())) {
            (Some(status), _) => write!(out, "the device answered \"{status}\"")?,
            (None, said) => out.write_str(said.unwrap_or(self.said))?,
        }
        match context.filter(|context| !context.covers_source).and_then(|context| context.source.as_ref()) {
            Some(source) => write!(out, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self} [{:?}, {:?}, retry {:?}]", self.kind, self.origin, self.retry)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.context.as_ref()?.source.as_deref().map(|source| source as _)
    }
}

/// Refuses a call in any process but the one that opened the handle.
///
/// # Errors
/// [`ErrorKind::Denied`] in a forked child.
#[inline]
pub fn check_owner(owner: &OwnerProcess) -> Result<()> {
    if owner.is_current() { Ok(()) } else { Err(Error::other_process(owner)) }
}

fn retry_of(kind: ErrorKind) -> Retry {
    match kind {
        ErrorKind::QueueFull | ErrorKind::Busy => Retry::Later,
        ErrorKind::TimedOut | ErrorKind::Cancelled => Retry::Once,
        _ => Retry::Never,
    }
}

fn kind_of_io(kind: std::io::ErrorKind) -> ErrorKind {
    use std::io::ErrorKind as Io;
    match kind {
        Io::NotFound => ErrorKind::NotFound,
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Denied,
        Io::WouldBlock | Io::ResourceBusy => ErrorKind::Busy,
        Io::StorageFull | Io::QuotaExceeded => ErrorKind::CapacityExceeded,
        Io::TimedOut => ErrorKind::TimedOut,
        Io::Unsupported => ErrorKind::Unsupported,
        Io::InvalidInput => ErrorKind::InvalidArgument,
        _ => ErrorKind::System,
    }
}

fn kind_of_status(status: Status) -> ErrorKind {
    match status.code() {
        Status::KEY_DOES_NOT_EXIST => ErrorKind::KeyNotFound,
        Status::KEY_EXISTS => ErrorKind::KeyExists,
        Status::CAPACITY_EXCEEDED | Status::NAMESPACE_INSUFFICIENT_CAPACITY => ErrorKind::CapacityExceeded,
        Status::LBA_OUT_OF_RANGE => ErrorKind::OutOfRange,
        // Keys and values that are sent are never of a length that is too short.
        Status::INVALID_VALUE_SIZE | Status::INVALID_KEY_SIZE => ErrorKind::TooLarge,
        Status::INVALID_OPCODE | Status::COMMAND_SET_NOT_ENABLED | Status::COMMAND_SET_NOT_SUPPORTED => {
            ErrorKind::Unsupported
        }
        Status::INVALID_FIELD => ErrorKind::InvalidArgument,
        Status::INVALID_NAMESPACE => ErrorKind::NotFound,
        Status::ABORT_REQUESTED | Status::ABORTED_SQ_DELETION | Status::ABORTED_BY_HOST => {
            ErrorKind::Cancelled
        }
        Status::NAMESPACE_NOT_READY | Status::FORMAT_IN_PROGRESS | Status::PAYLOAD_LIMIT_EXCEEDED => {
            ErrorKind::Busy
        }
        Status::COMPARE_FAILURE => ErrorKind::Mismatch,
        Status::ACCESS_DENIED
        | Status::RESERVATION_CONFLICT
        | Status::WRITE_TO_READ_ONLY_RANGE
        | Status::NAMESPACE_WRITE_PROTECTED => ErrorKind::Denied,
        Status::UNRECOVERED_ERROR => ErrorKind::Media,
        code if code.sct() == sct::MEDIA => ErrorKind::Media,
        _ => ErrorKind::Device,
    }
}

impl From<KeyError> for Error {
    /// Bytes that are no key never reach a device.
    fn from(cause: KeyError) -> Self {
        let kind = match cause {
            KeyError::Empty => ErrorKind::InvalidArgument,
            KeyError::TooLong(_) => ErrorKind::TooLarge,
        };
        Self::host(kind, cause.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_outermost_task_stands_first_and_the_fact_last() {
        let error = Error::host(
            ErrorKind::TooLarge,
            "value of 20000000 bytes is over the device's limit of 16777216 bytes",
        )
        .doing("put key 0041");
        assert_eq!(
            error.to_string(),
            "put key 0041: value of 20000000 bytes is over the device's limit of 16777216 bytes"
        );
        assert_eq!(error.doing("import").to_string().split(": ").next(), Some("import"));
    }

    #[test]
    fn key_over_the_limit_is_too_large_and_an_empty_one_is_invalid() {
        let kind = |bytes: &[u8]| Error::from(byway_spec::Key::new(bytes).unwrap_err()).kind();
        assert_eq!((kind(&[7; 17]), kind(b"")), (ErrorKind::TooLarge, ErrorKind::InvalidArgument));
        assert_eq!(Error::status(Status::INVALID_KEY_SIZE).kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn host_kernel_and_device_failures_are_distinguished() {
        let kernel =
            Error::kernel("open disk.img", std::io::Error::from(std::io::ErrorKind::PermissionDenied));
        assert_eq!((kernel.origin(), kernel.kind()), (Origin::Kernel, ErrorKind::Denied));
        let device = Error::status(Status::KEY_DOES_NOT_EXIST.with_dnr());
        assert_eq!((device.origin(), device.kind()), (Origin::Device, ErrorKind::KeyNotFound));
        assert_eq!(device.nvme_status(), Some(Status::KEY_DOES_NOT_EXIST.with_dnr()));
        assert_eq!(Error::host(ErrorKind::QueueFull, "full").retry(), Retry::Later);
    }

    #[test]
    fn a_cause_that_an_error_covers_is_kept_and_not_said() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let error = Error::kernel("a.img does not exist", missing).covering_source().doing("open");
        assert_eq!(error.to_string(), "open: a.img does not exist");
        assert_eq!((error.origin(), error.kind()), (Origin::Kernel, ErrorKind::NotFound));
        assert!(std::error::Error::source(&error).unwrap().is::<std::io::Error>());
    }

    #[test]
    fn a_device_failure_that_may_be_retried_says_so() {
        assert_eq!(Error::status(Status::INTERNAL_ERROR).retry(), Retry::Once);
        assert_eq!(Error::status(Status::INTERNAL_ERROR.with_dnr()).retry(), Retry::Never);
    }
}
