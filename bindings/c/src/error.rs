//! Errors as C programs see them: a negative number, and the whole of the last one of each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use byway::spec::Status;
use byway::{Error, ErrorKind, Origin, Result, Retry, SystemCause};

/// The kind of failure, whichever part failed. Functions return the negative of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byway_error_kind {
    /// There was no failure.
    None = 0,
    /// An argument is wrong whatever the device: NULL, an empty key, a length of zero.
    InvalidArgument = 1,
    /// A length is over a limit: of keys, or one that the device announced.
    TooLarge = 2,
    /// The device or the backend does not do this.
    Unsupported = 3,
    /// There is no such device, namespace or file.
    NotFound = 4,
    /// The key does not exist.
    KeyNotFound = 5,
    /// The key exists, and the command wanted that it does not.
    KeyExists = 6,
    /// The namespace has no room left.
    CapacityExceeded = 7,
    /// The address is outside the namespace.
    OutOfRange = 8,
    /// The queue has no room for the command now: take completions, then submit it again.
    QueueFull = 9,
    /// Another process or handle is using it.
    Busy = 10,
    /// No permission, or a read-only device.
    Denied = 11,
    /// The data is not what was written.
    Media = 12,
    /// A compare command found a difference.
    Mismatch = 13,
    /// The command was given up before it was done.
    Cancelled = 14,
    /// Nothing came within the time given.
    TimedOut = 15,
    /// The device is gone, or reported a fatal state; it must be opened anew.
    DeviceLost = 16,
    /// The device said something that its specification does not allow.
    Protocol = 17,
    /// Any other failure of the device.
    Device = 18,
    /// Any other failure of the operating system.
    System = 19,
    /// A defect of this library, which stopped at it: please report what its message says.
    Defect = 20,
}

/// Who failed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byway_origin {
    /// This library, before anything was sent.
    Host = 0,
    /// The operating system; byway_error_errno() returns its error number.
    Kernel = 1,
    /// The device, by a status (byway_error_status()) or by its silence.
    Device = 2,
}

/// Whether the same call can be expected to succeed later.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byway_retry {
    /// No: the same call fails again.
    Never = 0,
    /// Yes, after something else has finished.
    Later = 1,
    /// Once: it may have been an accident, or the outcome is unknown.
    Once = 2,
}

/// An error: of a thread (byway_last_error()) or of a completion.
pub struct byway_error {
    kind: byway_error_kind,
    origin: byway_origin,
    retry: byway_retry,
    status: u16,
    errno: c_int,
    message: CString,
}

thread_local! {
    static LAST: RefCell<Option<Box<byway_error>>> = const { RefCell::new(None) };
}

/// What failed last in this thread, or NULL. It stays until this thread's next failing call: take what is needed at
/// once.
#[unsafe(no_mangle)]
pub extern "C" fn byway_last_error() -> *const byway_error {
    let last = LAST.try_with(|last| last.borrow().as_deref().map(|error| &raw const *error));
    last.ok().flatten().unwrap_or(std::ptr::null())
}

/// What kind of failure it was; BYWAY_ERROR_KIND_NONE for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_error_kind_of(error: *const byway_error) -> byway_error_kind {
    // SAFETY: by the contract NULL or an error of this library.
    unsafe { error.as_ref() }.map_or(byway_error_kind::None, |error| error.kind)
}

/// Who failed; BYWAY_ORIGIN_HOST for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_error_origin(error: *const byway_error) -> byway_origin {
    // SAFETY: by the contract NULL or an error of this library.
    unsafe { error.as_ref() }.map_or(byway_origin::Host, |error| error.origin)
}

/// Whether the same call can be expected to succeed later; BYWAY_RETRY_NEVER for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_error_retry(error: *const byway_error) -> byway_retry {
    // SAFETY: by the contract NULL or an error of this library.
    unsafe { error.as_ref() }.map_or(byway_retry::Never, |error| error.retry)
}

/// The sentence that says what failed and why, in UTF-8; empty for NULL. It lives as long as the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_error_message(error: *const byway_error) -> *const c_char {
    // SAFETY: by the contract NULL or an error of this library.
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// The NVMe status that the device answered: status code type in bits 10:8, status code in bits 7:0, more in bit 13, do
/// not retry in bit 14 (NVM Express Base Specification, Status Field). 0 where no device answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_error_status(error: *const byway_error) -> u16 {
    // SAFETY: by the contract NULL or an error of this library.
    unsafe { error.as_ref() }.map_or(0, |error| error.status)
}

/// The operating system's error (errno), where it is what failed; else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_error_errno(error: *const byway_error) -> c_int {
    // SAFETY: by the contract NULL or an error of this library.
    unsafe { error.as_ref() }.map_or(0, |error| error.errno)
}

impl byway_error {
    /// The error of the API as C programs see it.
    #[cold]
    pub(crate) fn new(error: &Error) -> Self {
        Self {
            kind: kind_of(error.kind()),
            origin: origin_of(error.origin()),
            retry: retry_of(error.retry()),
            status: error.nvme_status().map_or(0, |status| status.0),
            errno: errno_of(error),
            message: c_text(&error.to_string()),
        }
    }

    #[cold]
    fn defect(panic: &(dyn std::any::Any + Send)) -> Self {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it said nothing");
        Self {
            kind: byway_error_kind::Defect,
            origin: byway_origin::Host,
            retry: byway_retry::Never,
            status: 0,
            errno: 0,
            message: c_text(&format!("a defect of this library: {said}")),
        }
    }

    /// The status that a device answered, if one did.
    pub(crate) fn nvme_status(&self) -> Option<Status> {
        (self.status != 0).then_some(Status(self.status))
    }

    /// Makes a copy the last one of this thread; what the function returns.
    pub(crate) fn set_last_again(&self) -> c_int {
        let Self { kind, origin, retry, status, errno, ref message } = *self;
        Self { kind, origin, retry, status, errno, message: message.clone() }.set_last()
    }

    /// Makes it the last one of this thread; what the function returns.
    #[cold]
    fn set_last(self) -> c_int {
        let code = -(self.kind as c_int);
        // A thread that is ending has nowhere to keep it; the number is returned all the same.
        let _ = LAST.try_with(|last| *last.borrow_mut() = Some(Box::new(self)));
        code
    }
}

/// Runs a function of the border: no panic leaves it, and its error becomes the thread's last one.
#[inline(always)]
pub(crate) fn border(body: impl FnOnce() -> Result<c_int>) -> c_int {
    // Unwinding leaves what a handle holds as safe as Rust code leaves it; the error says that it may be
    // wrong. Errors are stored inside, so that no result has to stand in memory.
    match catch_unwind(AssertUnwindSafe(|| body().unwrap_or_else(|error| set_last_error(&error)))) {
        Ok(done) => done,
        Err(panic) => byway_error::defect(&*panic).set_last(),
    }
}

/// As [`border`], for a function that answers nothing.
#[inline]
pub(crate) fn border_quiet(body: impl FnOnce()) {
    border(|| {
        body();
        Ok(0)
    });
}

/// Makes an error the last one of this thread.
#[cold]
pub(crate) fn set_last_error(error: &Error) -> c_int {
    byway_error::new(error).set_last()
}

/// A text for C, which ends at the first zero byte if there is one.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// A count as a function answers it.
#[inline]
pub(crate) fn count(of: usize) -> c_int {
    c_int::try_from(of).unwrap_or(c_int::MAX)
}

fn kind_of(kind: ErrorKind) -> byway_error_kind {
    use byway_error_kind as Kind;
    match kind {
        ErrorKind::InvalidArgument => Kind::InvalidArgument,
        ErrorKind::TooLarge => Kind::TooLarge,
        ErrorKind::Unsupported => Kind::Unsupported,
        ErrorKind::NotFound => Kind::NotFound,
        ErrorKind::KeyNotFound => Kind::KeyNotFound,
        ErrorKind::KeyExists => Kind::KeyExists,
        ErrorKind::CapacityExceeded => Kind::CapacityExceeded,
        ErrorKind::OutOfRange => Kind::OutOfRange,
        ErrorKind::QueueFull => Kind::QueueFull,
        ErrorKind::Busy => Kind::Busy,
        ErrorKind::Denied => Kind::Denied,
        ErrorKind::Media => Kind::Media,
        ErrorKind::Mismatch => Kind::Mismatch,
        ErrorKind::Cancelled => Kind::Cancelled,
        ErrorKind::TimedOut => Kind::TimedOut,
        ErrorKind::DeviceLost => Kind::DeviceLost,
        ErrorKind::Protocol => Kind::Protocol,
        ErrorKind::Device => Kind::Device,
        // A kind that the library distinguishes later is a failure of the system to programs of today.
        _ => Kind::System,
    }
}

fn origin_of(origin: Origin) -> byway_origin {
    match origin {
        Origin::Host => byway_origin::Host,
        Origin::Kernel => byway_origin::Kernel,
        Origin::Device => byway_origin::Device,
    }
}

fn retry_of(retry: Retry) -> byway_retry {
    match retry {
        Retry::Never => byway_retry::Never,
        Retry::Later => byway_retry::Later,
        Retry::Once => byway_retry::Once,
    }
}

fn errno_of(error: &Error) -> c_int {
    SystemCause::of(error).map_or(0, |cause| cause.errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_an_error_with_its_message() {
        std::panic::set_hook(Box::new(|_| {}));
        let code = border(|| panic!("index {} of 3", 7));
        assert_eq!(code, -(byway_error_kind::Defect as c_int));
        // SAFETY: this thread's last error.
        let said = unsafe { std::ffi::CStr::from_ptr(byway_error_message(byway_last_error())) };
        assert_eq!(said, c"a defect of this library: index 7 of 3");
    }

    #[test]
    fn a_kernel_failure_keeps_its_errno() {
        let cause = std::io::Error::from_raw_os_error(13);
        let error = byway_error::new(&Error::kernel("open a.img", cause));
        assert_eq!(
            (error.kind, error.origin, error.errno),
            (byway_error_kind::Denied, byway_origin::Kernel, 13)
        );
    }
}
