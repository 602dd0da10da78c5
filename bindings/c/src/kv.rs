//! Synchronous calls to a namespace of keys and values.

use std::ffi::{c_int, c_void};

use byway::{Error, ErrorKind, Key, Kv, Result};

use crate::arg::{bytes, bytes_mut, handle, invalid, put, shared, want};
use crate::command::{BYWAY_MUST_EXIST, BYWAY_MUST_NOT_EXIST, BYWAY_UNCOMPRESSED, store_options};
use crate::device::byway_device;
use crate::error::{border, border_quiet, count};
use crate::nvm::nsid_or_first;

/// A namespace of keys and values with a queue of its own, for synchronous calls. One thread at a time uses it.
pub struct byway_kv {
    pub(crate) kv: Kv,
    /// A call that calls the program back has not returned.
    pub(crate) calling: bool,
}

/// What byway_kv_list() and its kin call for each key, which lives until it returns; anything but 0 ends the listing. It must
/// not use the byway_kv that is being listed.
pub type byway_key_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, key: *const c_void, key_bytes: usize) -> c_int>;

/// Opens a namespace of keys and values for synchronous calls: `nsid`, or for 0 the URI's, or the device's first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_open(
    device: *const byway_device,
    nsid: u32,
    kv: *mut *mut byway_kv,
) -> c_int {
    border(|| {
        want(kv, "kv")?;
        // SAFETY: by the contract.
        let opened = unsafe { byway_device::shared(device) }?.kv(nsid_or_first(nsid)?)?;
        let opened = Box::new(byway_kv { kv: opened, calling: false });
        // SAFETY: by the contract.
        unsafe { put(kv, Box::into_raw(opened), "kv") }?;
        Ok(0)
    })
}

/// Closes it; NULL is none. Not from a callback of byway_kv_list().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_close(kv: *mut byway_kv) {
    border_quiet(|| {
        // SAFETY: by the contract.
        if let Ok(closing) = unsafe { kv_of(kv) } {
            // SAFETY: `byway_kv_open` made it, and the program does not use it again.
            drop(unsafe { Box::from_raw(closing) });
        }
    });
}

/// Stores a value, which then survives the death of the process at any instruction. `flags` are 0 or BYWAY_MUST_EXIST,
/// BYWAY_MUST_NOT_EXIST, BYWAY_UNCOMPRESSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_put(
    kv: *mut byway_kv,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    flags: u32,
) -> c_int {
    border(|| {
        if flags & !(BYWAY_MUST_EXIST | BYWAY_MUST_NOT_EXIST | BYWAY_UNCOMPRESSED) != 0 {
            return Err(invalid(format!("flags {flags:#x} are not those of a put")));
        }
        // SAFETY: by the contract.
        let (kv, key, value) =
            unsafe { (kv_of(kv)?, bytes(key, key_bytes, "key")?, bytes(value, value_bytes, "value")?) };
        kv.kv.put_if(key, value, store_options(flags)).map(|()| 0)
    })
}

/// Reads the value of a key into `into`, as much of it as fits; `value_bytes` becomes the whole value's length. Returns 1, or
/// 0 if there is no such key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_get(
    kv: *mut byway_kv,
    key: *const c_void,
    key_bytes: usize,
    into: *mut c_void,
    into_bytes: usize,
    value_bytes: *mut usize,
) -> c_int {
    border(|| {
        want(value_bytes, "value_bytes")?;
        // SAFETY: by the contract.
        let (kv, key, into) =
            unsafe { (kv_of(kv)?, bytes(key, key_bytes, "key")?, bytes_mut(into, into_bytes, "into")?) };
        let got = kv.kv.get_into(key, into)?;
        // SAFETY: by the contract.
        unsafe { put(value_bytes, got.unwrap_or(0), "value_bytes") }?;
        Ok(c_int::from(got.is_some()))
    })
}

/// Runs a program over the value of a key, in the device, with `input`, and writes its output to `into`, as much of it as fits;
/// `output_bytes` becomes the whole output's length. `operation` is the identifier that the program was loaded with
/// (`byway_programs_load`), or the number of one of the device's own. Which programs may run is said where the device is opened, by
/// `exec=` in its URI. Returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_exec(
    kv: *mut byway_kv,
    key: *const c_void,
    key_bytes: usize,
    operation: u32,
    input: *const c_void,
    input_bytes: usize,
    into: *mut c_void,
    into_bytes: usize,
    output_bytes: *mut usize,
) -> c_int {
    border(|| {
        want(output_bytes, "output_bytes")?;
        // SAFETY: by the contract.
        let (kv, key, input, into) = unsafe {
            let (key, input) = (bytes(key, key_bytes, "key")?, bytes(input, input_bytes, "input")?);
            (kv_of(kv)?, key, input, bytes_mut(into, into_bytes, "into")?)
        };
        let len = kv.kv.exec(key, operation, input, into)?;
        // SAFETY: by the contract.
        unsafe { put(output_bytes, len, "output_bytes") }?;
        Ok(0)
    })
}

/// Deletes a key; one that is not there is deleted already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_delete(kv: *mut byway_kv, key: *const c_void, key_bytes: usize) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (kv, key) = unsafe { (kv_of(kv)?, bytes(key, key_bytes, "key")?) };
        kv.kv.delete(key).map(|()| 0)
    })
}

/// Whether a key is there: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_exists(kv: *mut byway_kv, key: *const c_void, key_bytes: usize) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (kv, key) = unsafe { (kv_of(kv)?, bytes(key, key_bytes, "key")?) };
        kv.kv.exists(key).map(c_int::from)
    })
}

/// The namespace's identifier; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_nsid(kv: *const byway_kv) -> u32 {
    // SAFETY: by the contract.
    unsafe { shared(kv, "kv") }.map_or(0, |kv| kv.kv.nsid().get())
}

/// Calls `on` for the keys in order, from `start` on, or from the first where `start_bytes` is 0. Returns for how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_list(
    kv: *mut byway_kv,
    start: *const c_void,
    start_bytes: usize,
    on: byway_key_callback,
    context: *mut c_void,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { byway_kv_list_prefix(kv, std::ptr::null(), 0, start, start_bytes, on, context) }
}

/// As byway_kv_list(), of the keys that begin with `prefix`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_list_prefix(
    kv: *mut byway_kv,
    prefix: *const c_void,
    prefix_bytes: usize,
    start: *const c_void,
    start_bytes: usize,
    on: byway_key_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        let on = on.ok_or_else(|| invalid("on is NULL"))?;
        // SAFETY: by the contract.
        let (listed, prefix, start) = unsafe {
            let listed = kv_of(kv)?;
            (listed, bytes(prefix, prefix_bytes, "prefix")?, bytes(start, start_bytes, "start")?)
        };
        let start = if start.is_empty() { None } else { Some(Key::new(start)?) };
        listed.calling = true;
        // SAFETY: the program's own function, called as it is declared; it does not come back to this handle.
        let listing = list(&mut listed.kv, prefix, start, |key| unsafe {
            on(context, key.as_bytes().as_ptr().cast(), key.as_bytes().len())
        });
        listed.calling = false;
        listing.map(count)
    })
}

fn list(kv: &mut Kv, prefix: &[u8], start: Option<Key>, mut on: impl FnMut(&Key) -> c_int) -> Result<usize> {
    let mut reported = 0;
    for key in kv.keys_with_prefix(prefix, start)? {
        reported += 1;
        if on(&key?) != 0 {
            break;
        }
    }
    Ok(reported)
}

/// The namespace behind a handle, unless a call to it that calls the program back is going on.
///
/// # Safety
/// NULL, or a handle that no other thread uses during `'a`.
pub(crate) unsafe fn kv_of<'a>(kv: *mut byway_kv) -> Result<&'a mut byway_kv> {
    want(kv, "kv")?;
    // SAFETY: the caller's word; a field of its own, that such a call does not borrow.
    if unsafe { (*kv).calling } {
        return Err(Error::host(
            ErrorKind::Busy,
            "a call to this namespace that calls back has not returned",
        ));
    }
    // SAFETY: the caller's word.
    unsafe { handle(kv, "kv") }
}
