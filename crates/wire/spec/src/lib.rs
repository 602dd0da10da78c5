//! NVMe structures in memory and wire layout, used by both sides of a link.
//!
//! Field layout only: nothing here decides, checks a range or touches memory. Every structure is plain bytes
//! (`zerocopy`), every size is asserted at compile time, and every value a peer may send has a representation:
//! enumerations are *open* (a newtype with constants), so an unknown opcode is a value and not undefined behaviour.
//!
//! Names carry their traps: `_z` is a zero-based count (0 means 1), `_bytes` and `_ms` are units.
//!
//! Sources: NVM Express Base Specification 2.1 (modules [`base`], [`fabrics`]), NVM Command Set 1.1 ([`nvm`]), Key Value
//! Command Set 1.0 ([`kv`]), Subsystem Local Memory and Computational Programs Command Sets ([`memory`], [`programs`]), NVMe/TCP Transport Specification 1.1 ([`tcp`]); what Byway adds to them is in [`vendor`].

#![no_std]
#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("NVMe structures are little-endian and read in place: big-endian machines are not supported");

#[macro_use]
mod open_enum;

pub mod authentication;
pub mod base;
pub mod fabrics;
mod key;
pub mod kv;
pub mod memory;
pub mod nvm;
pub mod programs;
pub mod tcp;
pub mod vendor;

pub use base::command::{Cdw0, Command, DataPointer, Direction};
pub use base::completion::Completion;
pub use base::status::Status;
pub use key::{Key, KeyError};
