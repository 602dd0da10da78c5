//! The C language's way to Byway: `byway.h`, `libbyway.so` and `libbyway.a`.
//!
//! Thin: every function turns its arguments into the Rust library's, calls it, and turns the answer back. What a
//! command holds on its way is kept in places that are made with the queue, so that sending one allocates nothing.
//!
//! The contract of every function stands once, at the head of `byway.h` (`cbindgen.toml` has it), and the `SAFETY` arguments here
//! refer to it: a handle is one that this library gave and that was not given back; memory has the length that the
//! argument says; one thread at a time uses a handle, unless its own text says otherwise.

#![expect(unsafe_code, reason = "a foreign interface: its callers vouch for pointers")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract is one for all functions, and stands once, where C programs read it"
)]
#![allow(non_camel_case_types, reason = "named as C names them")]

mod admin;
mod admin_queue;
mod arg;
mod buffer;
mod call;
mod capabilities;
mod command;
mod completion;
mod compute;
mod device;
mod error;
mod image;
mod kv;
mod kv_many;
mod kv_ranges;
mod ledger;
mod nvm;
mod places;
mod query;
mod queue;
mod scan;
mod send;
mod sized;
mod version;

pub use admin::*;
pub use admin_queue::*;
pub use buffer::*;
pub use call::*;
pub use capabilities::*;
pub use command::*;
pub use completion::*;
pub use compute::*;
pub use device::*;
pub use error::*;
pub use image::*;
pub use kv::*;
pub use kv_many::*;
pub use kv_ranges::*;
pub use ledger::*;
pub use nvm::*;
pub use query::*;
pub use queue::*;
pub use scan::*;
pub use send::*;
pub use version::*;
