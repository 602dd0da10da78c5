//! Payloads that come in pieces: what the standard's data pointers do not carry.
//!
//! [`inline`] follows its command in the same ring (ByteExpress); [`assembly`] puts together what piggybacked
//! commands bring in queue order (BandSlim); [`payloads`] does the same for the pass-through form, whose fragments
//! name their payload and may come over any queue in any order.

pub mod assembly;
pub mod inline;
pub mod payloads;
