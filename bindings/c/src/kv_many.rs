//! Many keys and values by one call.

use std::ffi::{c_char, c_int, c_void};

use byway::{Key, Result, Unlisted};

use crate::arg::{bytes, invalid, put, want};
use crate::error::{border, c_text, count};
use crate::kv::{byway_key_callback, byway_kv, kv_of};
use crate::sized::{self, crossing};

/// A key with its value. In an array, the first says the size of each.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_pair {
    /// sizeof(byway_pair).
    pub size: usize,
    /// The key.
    pub key: *const c_void,
    /// Length of the key in bytes.
    pub key_bytes: usize,
    /// The value; NULL where only the key is meant.
    pub value: *const c_void,
    /// Length of the value in bytes.
    pub value_bytes: usize,
}
crossing!(byway_pair of 40);

/// What byway_kv_get_many() calls for each key, with its number in the array; `value` is NULL where there is no such key. The
/// value lives until it returns. It must not use the byway_kv that is being read.
pub type byway_value_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, index: u32, value: *const c_void, value_bytes: usize)>;

/// What byway_kv_list_listable() calls for keys that cannot be listed: those behind `after`, from the first where that is NULL,
/// and before `before`, up to the last where that is NULL. `why` is what the device says. All of it lives until it returns.
pub type byway_unlisted_callback = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        after: *const c_void,
        after_bytes: usize,
        before: *const c_void,
        before_bytes: usize,
        why: *const c_char,
    ),
>;

/// Reads the values of `count` keys, many at once on their way, and calls `on` for each, in any order. Values of up to
/// `room_bytes` come together; a longer one is read by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_get_many(
    kv: *mut byway_kv,
    keys: *const byway_pair,
    count: u32,
    room_bytes: usize,
    on: byway_value_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        let on = on.ok_or_else(|| invalid("on is NULL"))?;
        // SAFETY: by the contract.
        let (read, keys) = unsafe { (kv_of(kv)?, keys_of(keys, count)?) };
        read.calling = true;
        let done = read.kv.get_many(&keys, room_bytes, |index, value| {
            let (at, bytes) = value.map_or((std::ptr::null(), 0), |value| (value.as_ptr(), value.len()));
            // SAFETY: the program's own function, called as it is declared; it does not come back to this handle.
            unsafe { on(context, index as u32, at.cast(), bytes) };
        });
        read.calling = false;
        done.map(|()| 0)
    })
}

/// Stores `count` pairs, as many by one command as there is room for, in any order of keys. Each then survives the death of the
/// process. Not atomic: on an error, a first part is stored. `loaded`, how many pairs were, may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_load(
    kv: *mut byway_kv,
    pairs: *const byway_pair,
    count: u32,
    loaded: *mut u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (kv, pairs) = unsafe { (kv_of(kv)?, sized::each(pairs, count)?) };
        let mut loader = kv.kv.loader()?;
        for pair in pairs {
            // SAFETY: by the contract.
            let (key, value) = unsafe { parts(&pair?) }?;
            loader.add(&key, value)?;
        }
        let stored = loader.finish()?;
        if !loaded.is_null() {
            // SAFETY: by the contract.
            unsafe { put(loaded, stored, "loaded") }?;
        }
        Ok(0)
    })
}

/// Stores `count` pairs by one command, or one by one where the device has none such. Not atomic: on an error, a first part is
/// stored. More than the device takes at once is refused: byway_kv_load() takes any number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_put_bulk(kv: *mut byway_kv, pairs: *const byway_pair, count: u32) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (kv, pairs) = unsafe { (kv_of(kv)?, sized::each(pairs, count)?) };
        // SAFETY: by the contract.
        let pairs = pairs.map(|pair| unsafe { parts(&pair?) }).collect::<Result<Vec<_>>>()?;
        kv.kv.put_bulk(&pairs).map(|()| 0)
    })
}

/// Stores a value through the memory of the device's that can be stored into byte by byte (`byte_memory_bytes` of
/// byway_device_get_capabilities()).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_put_by_bytes(
    kv: *mut byway_kv,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (kv, key, value) =
            unsafe { (kv_of(kv)?, bytes(key, key_bytes, "key")?, bytes(value, value_bytes, "value")?) };
        kv.kv.put_by_bytes(key, value).map(|()| 0)
    })
}

/// Calls `on` for the keys in order, as far as a device whose index is damaged can list them, and `miss` for each stretch that
/// it cannot. Returns for how many keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_list_listable(
    kv: *mut byway_kv,
    on: byway_key_callback,
    miss: byway_unlisted_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        let on = on.ok_or_else(|| invalid("on is NULL"))?;
        let miss = miss.ok_or_else(|| invalid("miss is NULL"))?;
        // SAFETY: by the contract.
        let listed = unsafe { kv_of(kv) }?;
        listed.calling = true;
        let keys = listed.kv.listable_keys(|Unlisted { after, before, error }| {
            let part = |key: &Option<Key>| {
                key.as_ref().map_or((std::ptr::null(), 0), |key| (key.as_bytes().as_ptr().cast(), key.len()))
            };
            let ((after, after_bytes), (before, before_bytes)) = (part(&after), part(&before));
            let why = c_text(&error.to_string());
            // SAFETY: the program's own function, called as it is declared; it does not come back to this handle.
            unsafe { miss(context, after, after_bytes, before, before_bytes, why.as_ptr()) };
        });
        let taken = keys.map(|keys| {
            // SAFETY: as above.
            let ends = |key: &Key| unsafe { on(context, key.as_bytes().as_ptr().cast(), key.len()) } != 0;
            keys.iter().position(ends).map_or(keys.len(), |last| last + 1)
        });
        listed.calling = false;
        taken.map(self::count)
    })
}

/// The keys of pairs that are to be read.
///
/// # Safety
/// `pairs` is NULL or points to `count` pairs, each as long as the first says.
pub(crate) unsafe fn keys_of(pairs: *const byway_pair, count: u32) -> Result<Vec<Key>> {
    // SAFETY: the caller's word.
    let pairs = unsafe { sized::each(pairs, count) }?;
    // SAFETY: the caller's word.
    pairs.map(|pair| Ok(unsafe { parts(&pair?) }?.0)).collect()
}

/// The key and the value of a pair.
///
/// # Safety
/// Both point to as many bytes as their lengths say, for as long as `'a`.
pub(crate) unsafe fn parts<'a>(pair: &byway_pair) -> Result<(Key, &'a [u8])> {
    want(pair.key, "byway_pair.key")?;
    // SAFETY: the caller's word.
    unsafe {
        let key = bytes(pair.key, pair.key_bytes, "byway_pair.key")?;
        Ok((Key::new(key)?, bytes(pair.value, pair.value_bytes, "byway_pair.value")?))
    }
}
