//! One `pread`, `pwrite`, `fdatasync` or `fallocate` for each command, in the thread that submits it.
//!
//! The least latency at depth 1 where data is at hand (page cache, RAM disks), and nothing to set up; no two commands
//! overlap, so a device that takes its time is used at depth 1. `submit` does the work.

mod device;
pub(crate) mod queue;

pub use device::{AtOnce, Psync};
pub use queue::PsyncQueue;
