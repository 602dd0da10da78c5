//! The library `libbyway_tdm.so`, loaded before the C library of an unmodified program: interposes its file functions.
//!
//! UNSAFETY: an FFI edge. Every symbol here has the signature and the contract of the C library's function of that name: pointers and
//! descriptors are the program's, valid by that contract, and are passed on unchanged. A block that reads or writes through one says
//! why it may.
#![expect(unsafe_code, reason = "defines symbols of the C library, and calls those that it stands before")]
#![allow(
    clippy::missing_safety_doc,
    reason = "each interposed function has the C library's own contract, documented there"
)]

mod cancellation;
mod hooks;
mod iovec;
mod path;
mod place;
mod real;
mod start;
mod state;
