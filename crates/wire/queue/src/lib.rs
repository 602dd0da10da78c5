//! Submission and completion rings, doorbells, slot permits, and the lock under which a device runs.
//!
//! Ring arithmetic lives in [`Ring`] and nowhere else. Host and device each have their half of a queue:
//!
//! | | host | device |
//! |---|---|---|
//! | submission queue | [`SubmissionProducer`] | [`SubmissionConsumer`] |
//! | completion queue | [`CompletionConsumer`] | [`CompletionProducer`] |
//!
//! The halves share no state. All ordering between them is in three places:
//!
//! * **slots** are written, then a **doorbell** is stored with Release; the device loads it with Acquire and may
//!   then read the slots ([`Doorbells`]);
//! * a **completion entry** is written, its last word, which holds the phase, with Release; the host loads that word
//!   with Acquire and may then read the rest ([`EntryMemory`]), and reuse the slots that its head frees;
//! * the **run lock** passes from one holder to the next with Release and Acquire ([`RunLock`]); **readers** and a holder see
//!   each other by a fence on both sides ([`readers`]).
//!
//! [`validated`] copies memory that its owner reuses meanwhile, for readers without the run lock. [`Grants`] are their rights to read.
//! [`Waiting`] holds what is done and not yet known to the owner.
//!
//! Tests under `cfg(loom)` check these in every interleaving and every outcome that the orderings permit:
//! `RUSTFLAGS="--cfg loom" cargo test -p byway-queue --release --lib --target-dir target/loom`.
#![forbid(unsafe_code)]

pub mod completion;
pub mod doorbell;
mod grants;
pub mod memory;
pub mod permit;
pub mod readers;
pub mod ring;
pub mod run_lock;
pub mod submission;
mod sync;
mod validated;
mod waiting;
pub mod window;

#[cfg(all(test, loom))]
mod model;

pub use completion::{CompletionConsumer, CompletionProducer, CompletionSlot};
pub use doorbell::{DoorbellIndex, Doorbells, SharedDoorbells};
pub use grants::{Grant, Grants};
pub use memory::{EntryMemory, SlotMemory};
pub use permit::{CompletionPermit, ResultPermit, SlotPermit};
pub use readers::{MAX_READERS, Reading};
pub use ring::{BadDoorbell, BadSize, Ring, Run};
pub use run_lock::RunLock;
pub use submission::{SubmissionConsumer, SubmissionProducer};
pub use validated::validated;
pub use waiting::Waiting;
pub use window::{BadEntry, WindowCursor};

/// Bytes of one submission queue slot: a command, or a chunk of an inline payload.
pub const SLOT_BYTES: usize = 64;
/// Bytes of one completion queue entry.
pub const ENTRY_BYTES: usize = 16;
