//! The library `libbyway_tdm.so`, loaded before the C library of an unmodified program: interposes its file functions.
//!
//! UNSAFETY: an edge of the foreign kind. Every symbol here has the C library's signature and its contract: pointers and
//! descriptors are what the program would have given to that, and are handed on to it unchanged. Where one is looked at here too,
//! the place says why it may be.
#![expect(unsafe_code, reason = "defines symbols of the C library, and calls those that it stands before")]
#![allow(
    clippy::missing_safety_doc,
    clippy::undocumented_unsafe_blocks,
    reason = "each function and block hands on what the C library's own contract is about: said once, above"
)]

mod cancellation;
mod hooks;
mod iovec;
mod path;
mod place;
mod real;
mod start;
mod state;
