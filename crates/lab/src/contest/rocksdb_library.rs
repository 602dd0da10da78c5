//! The C interface of RocksDB, loaded at run time: the small part that the bench needs, behind safe calls.
//!
//! UNSAFETY: foreign functions. Their types are those of `rocksdb/c.h` since version 7; older libraries lack
//! `rocksdb_batched_multi_get_cf` and are refused. Handles live as long as the [`Rocks`] that made them, and the
//! library stays loaded; RocksDB allows one database, and options that are no longer changed, to be used by many threads.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, CString, c_char, c_double, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::slice;

use anyhow::{Context, Result, bail};
use libloading::Library;

use super::key::Key;

/// File names of the library: of its development package, of Debian 12, Ubuntu 24.04 and Debian 13.
const NAMES: [&str; 4] = ["librocksdb.so", "librocksdb.so.7.8", "librocksdb.so.8.9", "librocksdb.so.9.10"];
/// The one column family.
const FAMILY: &CStr = c"default";
/// Keys of one MultiGet.
const KEYS_MAX: usize = 32;
/// `rocksdb_no_compression`.
const NO_COMPRESSION: c_int = 0;
/// Bits of a filter for each key.
const FILTER_BITS: c_double = 10.0;

/// Something that RocksDB made; never read here.
type Handle = *mut c_void;
/// Where RocksDB leaves the text of an error.
type ErrorText = *mut *mut c_char;

macro_rules! functions {
    ($($name:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the types are those of `rocksdb/c.h`; `load` keeps the library open.
                    $($name: unsafe { *library.get(concat!("rocksdb_", stringify!($name), "\0").as_bytes())? },)*
                })
            }
        }
    };
}

functions! {
    options_create() -> Handle;
    options_destroy(Handle);
    options_set_create_if_missing(Handle, c_uchar);
    options_set_compression(Handle, c_int);
    options_increase_parallelism(Handle, c_int);
    options_set_block_based_table_factory(Handle, Handle);
    block_based_options_create() -> Handle;
    block_based_options_destroy(Handle);
    block_based_options_set_block_cache(Handle, Handle);
    block_based_options_set_filter_policy(Handle, Handle);
    cache_create_lru(usize) -> Handle;
    cache_destroy(Handle);
    filterpolicy_create_bloom_full(c_double) -> Handle;
    readoptions_create() -> Handle;
    readoptions_destroy(Handle);
    writeoptions_create() -> Handle;
    writeoptions_destroy(Handle);
    writeoptions_set_sync(Handle, c_uchar);
    open_column_families(
        Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, ErrorText
    ) -> Handle;
    column_family_handle_destroy(Handle);
    close(Handle);
    put(Handle, Handle, *const u8, usize, *const u8, usize, ErrorText);
    get_pinned(Handle, Handle, *const u8, usize, ErrorText) -> Handle;
    batched_multi_get_cf(
        Handle, Handle, Handle, usize, *const *const u8, *const usize, *mut Handle, *mut *mut c_char, bool
    );
    pinnableslice_value(Handle, *mut usize) -> *const u8;
    pinnableslice_destroy(Handle);
    writebatch_create() -> Handle;
    writebatch_destroy(Handle);
    writebatch_put(Handle, *const u8, usize, *const u8, usize);
    write(Handle, Handle, Handle, ErrorText);
    create_iterator(Handle, Handle) -> Handle;
    iter_seek(Handle, *const u8, usize);
    iter_valid(Handle) -> c_uchar;
    iter_next(Handle);
    iter_key(Handle, *mut usize) -> *const u8;
    iter_value(Handle, *mut usize) -> *const u8;
    iter_get_error(Handle, ErrorText);
    iter_destroy(Handle);
    free(*mut c_void);
}

/// An open database.
pub struct Rocks {
    functions: Functions,
    database: Handle,
    family: Handle,
    read: Handle,
    write: Handle,
}

// SAFETY: RocksDB's databases are safe to use from several threads at once, and the options are only read.
unsafe impl Sync for Rocks {}

/// Loads the library, to see whether it can be used.
///
/// # Errors
/// No library, or one too old; which package has it.
pub fn check() -> Result<()> {
    load().map(drop)
}

fn load() -> Result<Functions> {
    // SAFETY: what the library does when it is loaded is to set up its own statics.
    let found = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
    let library =
        found.context("the library of rocksdb is not there: install Debian's package librocksdb-dev")?;
    let functions = Functions::find(&library).context("the library of rocksdb is older than version 7")?;
    // Its background threads live as long as the process, and so must their code.
    std::mem::forget(library);
    Ok(functions)
}

impl Rocks {
    /// Opens, or makes, the database of a folder.
    ///
    /// # Errors
    /// No library, or what it says.
    pub fn open(folder: &Path, cache_bytes: usize, threads: u32, sync: bool) -> Result<Self> {
        let functions = load()?;
        let path = CString::new(folder.as_os_str().as_bytes())?;
        // SAFETY: makers without arguments; each handle is destroyed in `drop`, or below.
        let (read, write) = unsafe { ((functions.readoptions_create)(), (functions.writeoptions_create)()) };
        let (database, family) = (null_mut(), null_mut());
        let mut rocks = Self { functions, database, family, read, write };
        let f = &rocks.functions;
        // SAFETY: `write` was just made, and no call uses it yet.
        unsafe { (f.writeoptions_set_sync)(write, sync.into()) };
        let options = rocks.options(cache_bytes, threads);
        let (names, mut family) = ([FAMILY.as_ptr()], null_mut());
        // SAFETY: the options are whole, and the texts end with a zero. There is one name, one set of options and place
        // for one handle.
        let opened = rocks.checked(|error| unsafe {
            (f.open_column_families)(
                options,
                path.as_ptr(),
                1,
                names.as_ptr(),
                &raw const options,
                &raw mut family,
                error,
            )
        });
        // SAFETY: the database keeps a copy of its options.
        unsafe { (f.options_destroy)(options) };
        (rocks.database, rocks.family) = (opened?, family);
        Ok(rocks)
    }

    /// Options of a new database: no compression, a cache, filters; all else as the library has it.
    fn options(&self, cache_bytes: usize, threads: u32) -> Handle {
        let f = &self.functions;
        // SAFETY: each handle is used while it lives; options share the cache and own the filter policy they are given.
        unsafe {
            let (table, cache) = ((f.block_based_options_create)(), (f.cache_create_lru)(cache_bytes));
            (f.block_based_options_set_block_cache)(table, cache);
            (f.block_based_options_set_filter_policy)(table, (f.filterpolicy_create_bloom_full)(FILTER_BITS));
            let options = (f.options_create)();
            (f.options_set_create_if_missing)(options, 1);
            (f.options_set_compression)(options, NO_COMPRESSION);
            (f.options_increase_parallelism)(options, threads as c_int);
            (f.options_set_block_based_table_factory)(options, table);
            (f.block_based_options_destroy)(table);
            (f.cache_destroy)(cache);
            options
        }
    }

    /// Makes a call that may leave the text of an error.
    #[inline]
    fn checked<T>(&self, call: impl FnOnce(ErrorText) -> T) -> Result<T> {
        let mut text: *mut c_char = null_mut();
        let done = call(&raw mut text);
        // SAFETY: null, or the text of the call's error.
        unsafe { self.refused(text) }.map(|()| done)
    }

    /// The error whose text a call left, if it left one. Frees the text.
    ///
    /// # Safety
    /// `text` is null, or RocksDB left it, and it was not freed.
    unsafe fn refused(&self, text: *mut c_char) -> Result<()> {
        if text.is_null() {
            return Ok(());
        }
        // SAFETY: a text that RocksDB leaves ends with a zero, and is the caller's to free.
        let said = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: as above; it was copied.
        unsafe { (self.functions.free)(text.cast()) };
        bail!(said)
    }

    /// Stores a value.
    ///
    /// # Errors
    /// What the library says.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (put, database, write) = (self.functions.put, self.database, self.write);
        // SAFETY: the slices outlive the call, which copies them.
        self.checked(|error| unsafe {
            put(database, write, key.as_ptr(), key.len(), value.as_ptr(), value.len(), error)
        })
    }

    /// Stores values by one batch.
    ///
    /// # Errors
    /// What the library says.
    pub fn put_batch<'a>(&self, pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<()> {
        let f = &self.functions;
        // SAFETY: the batch lives from here to the end of this call, and copies the slices.
        unsafe {
            let batch = (f.writebatch_create)();
            for (key, value) in pairs {
                (f.writebatch_put)(batch, key.as_ptr(), key.len(), value.as_ptr(), value.len());
            }
            let written = self.checked(|error| (f.write)(self.database, self.write, batch, error));
            (f.writebatch_destroy)(batch);
            written
        }
    }

    /// Shows the value of a key where it lies; says whether there is one.
    ///
    /// # Errors
    /// What the library says.
    pub fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let f = &self.functions;
        // SAFETY: the key outlives the call.
        let pinned = self.checked(|error| unsafe {
            (f.get_pinned)(self.database, self.read, key.as_ptr(), key.len(), error)
        })?;
        // SAFETY: the handle was just given, and is used no more.
        Ok(unsafe { self.show(pinned, see) })
    }

    /// Shows the values of keys in their order, by a MultiGet for each 32 keys; says whether all are there.
    ///
    /// # Errors
    /// What the library says of any key.
    pub fn get_batch(&self, keys: &[Key], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut all = true;
        for keys in keys.chunks(KEYS_MAX) {
            all &= self.get_group(keys, see)?;
        }
        Ok(all)
    }

    /// Shows the values of at most [`KEYS_MAX`] keys by one MultiGet.
    fn get_group(&self, keys: &[Key], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let f = &self.functions;
        let (mut starts, mut lens) = ([null(); KEYS_MAX], [0; KEYS_MAX]);
        for ((start, len), key) in starts.iter_mut().zip(&mut lens).zip(keys) {
            (*start, *len) = (key.as_ptr(), key.len());
        }
        let (mut found, mut errors) = ([null_mut(); KEYS_MAX], [null_mut(); KEYS_MAX]);
        let (mut all, mut refused) = (true, None);
        // SAFETY: each array has a place for every key, and the keys outlive the call. Texts and handles are used once.
        unsafe {
            (f.batched_multi_get_cf)(
                self.database,
                self.read,
                self.family,
                keys.len().min(KEYS_MAX),
                starts.as_ptr(),
                lens.as_ptr(),
                found.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
            for (pinned, text) in found.into_iter().zip(errors).take(keys.len()) {
                refused = refused.or(self.refused(text).err());
                all &= self.show(pinned, see);
            }
        }
        refused.map_or(Ok(all), Err)
    }

    /// Shows the value of a pinned slice and releases it; says whether there is one.
    ///
    /// # Safety
    /// `pinned` is null, or this library made it, and it was not released.
    #[inline]
    unsafe fn show(&self, pinned: Handle, see: &mut dyn FnMut(&[u8])) -> bool {
        let f = &self.functions;
        if pinned.is_null() {
            return false;
        }
        // SAFETY: the value stays where it is until the handle is destroyed, which is after it was seen.
        unsafe {
            see(bytes(|len| (f.pinnableslice_value)(pinned, len)));
            (f.pinnableslice_destroy)(pinned);
        }
        true
    }

    /// Shows at most `limit` pairs in order from `from` on; says how many there were. Values are looked at only if
    /// `values`, and are empty otherwise.
    ///
    /// # Errors
    /// What the library says.
    pub fn walk(
        &self,
        from: &[u8],
        limit: u64,
        values: bool,
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let f = &self.functions;
        let mut seen = 0;
        // SAFETY: key and value stay where they are until the iterator moves, which is after they were seen; the
        // iterator lives from here to the end of this call.
        unsafe {
            let iterator = (f.create_iterator)(self.database, self.read);
            (f.iter_seek)(iterator, from.as_ptr(), from.len());
            while seen < limit && (f.iter_valid)(iterator) != 0 {
                let key = bytes(|len| (f.iter_key)(iterator, len));
                see(key, if values { bytes(|len| (f.iter_value)(iterator, len)) } else { &[] });
                (f.iter_next)(iterator);
                seen += 1;
            }
            let ended = self.checked(|error| (f.iter_get_error)(iterator, error));
            (f.iter_destroy)(iterator);
            ended.map(|()| seen)
        }
    }
}

/// The bytes at the pointer that a call returns, of the length that it writes.
///
/// # Safety
/// They are there, and stay, as long as the caller uses the slice.
unsafe fn bytes<'a>(call: impl FnOnce(*mut usize) -> *const u8) -> &'a [u8] {
    let mut len = 0;
    let start = call(&raw mut len);
    if start.is_null() {
        return &[];
    }
    // SAFETY: by the caller's word.
    unsafe { slice::from_raw_parts(start, len) }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        let f = &self.functions;
        // SAFETY: each handle was made by this library and is used no more. A database that could not be opened is null.
        unsafe {
            if !self.database.is_null() {
                (f.column_family_handle_destroy)(self.family);
                (f.close)(self.database);
            }
            (f.readoptions_destroy)(self.read);
            (f.writeoptions_destroy)(self.write);
        }
    }
}
