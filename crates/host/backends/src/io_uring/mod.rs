//! Files and block devices behind io_uring: commands go in and out by rings of memory that the kernel shares, so that one
//! system call begins many, and none is needed to take what has finished.
//!
//! The fastest interface to a device that works by itself, at any depth. Where the kernel has the data at hand (page
//! cache, RAM disks), a command is done by the call that begins it, and `psync` has less to do at depth 1. Where a file
//! system cannot say beforehand whether it would block (tmpfs), the kernel hands commands to threads of its own, and a
//! command costs what waking one costs.
//!
//! **What enters the kernel.** `submit` does only when the submission ring is full. `start`, `wait`, `sleep`, and a
//! `next_finished` that has nothing to give begin what was submitted; beginning and waiting is one call.
//!
//! **What is done by the caller's thread.** Compare, Verify and Copy, which the interface has no operation for, and what a
//! file system or a device cannot do by `fallocate`: by `start`, or when a completion is asked for. They block it,
//! while the kernel goes on with the others: with the data at hand for what a read of as much takes (measured beside
//! reads on two virtual cores: 5 to 8 µs for 4 KiB, 35 to 60 µs for 128 KiB, 3 to 10 ms for a Verify of 32 MiB), else for
//! as long as the device needs, one part after the other. A thread for each queue, to be woken for every such command,
//! would cost more than the short ones do; `threads` is the backend for a program that sends many long ones.
//!
//! **Waiting.** Where completions have come within some microseconds lately, they are looked for as long before the
//! thread sleeps; a queue that waits for something slow burns no core.
//!
//! **Which thread.** A queue may go from thread to thread with commands under way, unless it was opened for one
//! ([`IoUringOptions::one_thread`]): then it belongs to the first that uses it, and another's use is refused. That is not
//! the default, because a queue that a program moves while commands are under way would lose them.

mod device;
mod finish;
mod options;
mod queue;

pub(crate) use device::refused;
pub use device::{IoUring, Rings};
pub use options::IoUringOptions;
pub use queue::IoUringQueue;
