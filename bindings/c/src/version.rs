//! Which version it is.

use std::ffi::c_char;

/// The version of the library that runs, as "0.1.0"; BYWAY_VERSION_MAJOR and its kin are those of this header.
#[unsafe(no_mangle)]
pub extern "C" fn byway_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
