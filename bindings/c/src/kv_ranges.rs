//! Scans and deletions of ranges of keys, and batches.

use std::ffi::{c_int, c_void};

use byway::{Batch, KeyRange, Result, ScanOptions};

use crate::arg::{bytes, invalid, put};
use crate::error::{border, count};
use crate::kv::{byway_kv, kv_of};
use crate::kv_many::{byway_pair, keys_of, parts};
use crate::sized::{self, crossing};

/// A range of keys, and what a scan of it brings. Zeroes, but for the size, are all pairs in ascending order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_key_range {
    /// sizeof(byway_key_range).
    pub size: usize,
    /// Only keys that begin with this; then there is neither a start nor an end.
    pub prefix: *const c_void,
    /// Length of the prefix in bytes.
    pub prefix_bytes: usize,
    /// The first key.
    pub start: *const c_void,
    /// Length of the first key in bytes, 0 for none.
    pub start_bytes: usize,
    /// The first key that is not in the range.
    pub end: *const c_void,
    /// Length of that key in bytes, 0 for none.
    pub end_bytes: usize,
    /// Most pairs of a scan, 0 for all.
    pub limit: u64,
    /// Most bytes of each value of a scan, up to 65,534; 0 for whole values.
    pub value_bytes: u32,
    /// 0, or BYWAY_BACKWARD, BYWAY_KEYS_ONLY.
    pub flags: u32,
}
crossing!(byway_key_range of 72);

/// A scan from the last key to the first.
pub const BYWAY_BACKWARD: u32 = 1;

/// A scan of keys alone: values have no bytes.
pub const BYWAY_KEYS_ONLY: u32 = 2;

/// What byway_kv_scan() calls for each pair, which lives until it returns; anything but 0 ends the scan. It must not use the
/// byway_kv that is being scanned.
pub type byway_pair_callback = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        key: *const c_void,
        key_bytes: usize,
        value: *const c_void,
        value_bytes: usize,
    ) -> c_int,
>;

/// Calls `on` for the pairs of a range in order. Returns for how many. A device with the command Scan gives a page of pairs by
/// one command; from others keys are listed, and values read many at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_scan(
    kv: *mut byway_kv,
    range: *const byway_key_range,
    on: byway_pair_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        let on = on.ok_or_else(|| invalid("on is NULL"))?;
        // SAFETY: by the contract.
        let (scanned, given) = unsafe { (kv_of(kv)?, sized::read(range)?) };
        // SAFETY: by the contract.
        let (range, options) = (unsafe { range_of(&given) }?, options_of(&given)?);
        scanned.calling = true;
        let pairs = scan(&mut scanned.kv, range, options, |key, value| {
            // SAFETY: the program's own function, called as it is declared; it does not come back to this handle.
            unsafe { on(context, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len()) }
        });
        scanned.calling = false;
        pairs.map(count)
    })
}

fn scan(
    kv: &mut byway::Kv,
    range: KeyRange,
    options: ScanOptions,
    mut on: impl FnMut(&[u8], &[u8]) -> c_int,
) -> Result<usize> {
    let (mut scan, mut pairs) = (kv.scan_with(range, options), 0);
    while let Some((key, value)) = scan.next_pair()? {
        pairs += 1;
        if on(key, value) != 0 {
            break;
        }
    }
    Ok(pairs)
}

/// Deletes the keys of a range; `deleted`, how many there were, may be NULL. Limit, value bytes and flags are zero. Not atomic:
/// on an error, a part of the keys is deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_delete_range(
    kv: *mut byway_kv,
    range: *const byway_key_range,
    deleted: *mut u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (kv, given) = unsafe { (kv_of(kv)?, sized::read(range)?) };
        if given.limit != 0 || given.value_bytes != 0 || given.flags != 0 {
            return Err(invalid("a deletion of a range has no limit, value bytes or flags"));
        }
        // SAFETY: by the contract.
        let keys = kv.kv.delete_range(unsafe { range_of(&given) }?)?;
        if !deleted.is_null() {
            // SAFETY: by the contract.
            unsafe { put(deleted, keys, "deleted") }?;
        }
        Ok(0)
    })
}

/// Deletes `count` keys; one that is not there is deleted already. Not atomic.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_delete_many(
    kv: *mut byway_kv,
    keys: *const byway_pair,
    count: u32,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (kv, keys) = unsafe { (kv_of(kv)?, keys_of(keys, count)?) };
        kv.kv.delete_many(&keys).map(|()| 0)
    })
}

/// Stores `count` pairs, all or none of them, through any crash. A pair whose `value` is NULL deletes its key; of several changes
/// of one key the last counts. A device without atomic Store Many refuses, and one that takes no batch as long
/// (BYWAY_ERROR_KIND_UNSUPPORTED).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_commit(kv: *mut byway_kv, pairs: *const byway_pair, count: u32) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (kv, pairs) = unsafe { (kv_of(kv)?, sized::each(pairs, count)?) };
        let mut batch = Batch::new();
        for pair in pairs {
            let pair = pair?;
            // SAFETY: by the contract.
            let (key, value) = unsafe { parts(&pair) }?;
            match pair.value.is_null() {
                true => batch.delete(key.as_bytes())?,
                false => batch.put(key.as_bytes(), value)?,
            }
        }
        kv.kv.commit(&batch).map(|()| 0)
    })
}

/// The range that a program names.
///
/// # Safety
/// Its keys point to as many bytes as their lengths say.
unsafe fn range_of(given: &byway_key_range) -> Result<KeyRange> {
    // SAFETY: the caller's word.
    let (prefix, start, end) = unsafe {
        let prefix = bytes(given.prefix, given.prefix_bytes, "byway_key_range.prefix")?;
        let start = bytes(given.start, given.start_bytes, "byway_key_range.start")?;
        (prefix, start, bytes(given.end, given.end_bytes, "byway_key_range.end")?)
    };
    match (prefix.is_empty(), start.is_empty(), end.is_empty()) {
        (_, true, true) => KeyRange::prefix(prefix),
        (false, ..) => Err(invalid("a range has a prefix, or a start and an end")),
        (true, false, true) => KeyRange::new(start..),
        (true, true, false) => KeyRange::new(..end),
        (true, false, false) => KeyRange::new(start..end),
    }
}

fn options_of(given: &byway_key_range) -> Result<ScanOptions> {
    if given.flags & !(BYWAY_BACKWARD | BYWAY_KEYS_ONLY) != 0 {
        return Err(invalid(format!("flags {:#x} are not those of a scan", given.flags)));
    }
    let value_bytes = u16::try_from(given.value_bytes)
        .map_err(|_| invalid(format!("{} bytes of a value are over 65534", given.value_bytes)))?;
    Ok(ScanOptions::default()
        .backward(given.flags & BYWAY_BACKWARD != 0)
        .keys_only(given.flags & BYWAY_KEYS_ONLY != 0)
        .value_bytes(Some(value_bytes).filter(|bytes| *bytes > 0))
        .limit(Some(given.limit).filter(|most| *most > 0)))
}
