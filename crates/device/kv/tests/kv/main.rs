//! The key-value engine from outside. One program: what all share is built once.
#![allow(clippy::unwrap_used)]

mod bad_blocks;
mod batches;
mod bound;
mod common;
mod compaction;
mod crash;
mod follow;
mod leases;
mod model;
mod on_flash;
mod room;
mod upkeep;
mod values;
mod windows;
