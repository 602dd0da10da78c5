//! What comes over the border: pointers, looked at once and refused by name.

use std::ffi::{CStr, c_char, c_void};

use byway::{Error, ErrorKind, Result};

/// A handle.
///
/// # Safety
/// It is NULL, or the one live handle of this type, used by no other thread during `'a`.
#[inline]
pub(crate) unsafe fn handle<'a, T>(given: *mut T, name: &'static str) -> Result<&'a mut T> {
    // SAFETY: the caller's word.
    unsafe { given.as_mut() }.ok_or_else(|| null(name))
}

/// A handle or a structure that is only read.
///
/// # Safety
/// It is NULL, or points to a `T` that no thread changes during `'a`.
#[inline]
pub(crate) unsafe fn shared<'a, T>(given: *const T, name: &'static str) -> Result<&'a T> {
    // SAFETY: the caller's word.
    unsafe { given.as_ref() }.ok_or_else(|| null(name))
}

/// Puts an answer where the program wants it.
///
/// # Safety
/// `at` is NULL or has room for a `T`.
#[inline]
pub(crate) unsafe fn put<T>(at: *mut T, value: T, name: &'static str) -> Result<()> {
    if at.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL, and the caller's word.
    unsafe { at.write(value) };
    Ok(())
}

/// Refuses a place for an answer that is none, before anything is done for the answer.
pub(crate) fn want<T>(at: *const T, name: &'static str) -> Result<()> {
    if at.is_null() { Err(null(name)) } else { Ok(()) }
}

/// Bytes that are read. `start` may be NULL where `len` is 0.
///
/// # Safety
/// `start` is NULL, or points to `len` bytes that no thread changes during `'a`.
#[inline]
pub(crate) unsafe fn bytes<'a>(start: *const c_void, len: usize, name: &'static str) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    check(start, len, name)?;
    // SAFETY: not NULL, of a length that can be, and the caller's word.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) })
}

/// Bytes that are written. `start` may be NULL where `len` is 0.
///
/// # Safety
/// `start` is NULL, or points to `len` bytes that no other thread uses during `'a`.
#[inline]
pub(crate) unsafe fn bytes_mut<'a>(
    start: *mut c_void,
    len: usize,
    name: &'static str,
) -> Result<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(start, len, name)?;
    // SAFETY: not NULL, of a length that can be, and the caller's word.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) })
}

/// A text that ends with a zero byte.
///
/// # Safety
/// It is NULL, or ends with a zero byte and is not changed for as long as `'a`.
pub(crate) unsafe fn text<'a>(given: *const c_char, name: &'static str) -> Result<&'a str> {
    want(given, name)?;
    // SAFETY: not NULL, and the caller's word.
    let text = unsafe { CStr::from_ptr(given) };
    text.to_str().map_err(|_| invalid(format!("{name} is no text in UTF-8")))
}

/// As [`text`], or `None` for NULL.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn text_or_none<'a>(given: *const c_char, name: &'static str) -> Result<Option<&'a str>> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's word.
    unsafe { text(given, name) }.map(Some)
}

/// Refuses memory that cannot be.
#[inline]
pub(crate) fn check(start: *const c_void, len: usize, name: &'static str) -> Result<()> {
    want(start, name)?;
    if isize::try_from(len).is_err() {
        return Err(invalid(format!("{name} cannot have {len} bytes")));
    }
    Ok(())
}

#[cold]
pub(crate) fn null(name: &'static str) -> Error {
    invalid(format!("{name} is NULL"))
}

#[cold]
pub(crate) fn invalid(said: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::host(ErrorKind::InvalidArgument, said)
}
