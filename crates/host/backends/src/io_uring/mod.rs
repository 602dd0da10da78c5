//! Files and block devices behind io_uring: submission and completion rings in memory shared with the kernel, so that one
//! system call starts many commands, and none is needed to reap completions.
//!
//! The fastest interface to an asynchronous device, at any depth. For data in memory (page cache, RAM disks) the submitting
//! system call executes the command, and `psync` has less overhead at depth 1. For a file system that cannot know
//! beforehand whether it would block (tmpfs), the kernel passes commands to worker threads, and each costs a wakeup.
//!
//! **System calls.** `submit` makes one only if the submission ring is full. `start`, `wait`, `sleep`, and a
//! `next_finished` without a completion start the submitted commands; one call starts and waits.
//!
//! **Commands executed by the calling thread.** Compare, Verify and Copy, which io_uring has no operation for, and what a
//! file system or a device cannot do by `fallocate`: in `start`, or when completions are reaped. They block the thread,
//! while the kernel continues with other commands: for data in memory as long as a read of the same length (measured on two
//! virtual cores: 5 to 8 µs for 4 KiB, 35 to 60 µs for 128 KiB, 3 to 10 ms for a Verify of 32 MiB), else as long as the
//! device needs, one part after the other. A thread per queue, woken for every such command, would cost more than the
//! short ones; `threads` is the backend for a program with many long ones.
//!
//! **Waiting.** If recent completions arrived within microseconds, the thread polls for as long before it sleeps; a queue
//! on a slow device burns no core.
//!
//! **Threads.** A queue may move between threads with outstanding commands, unless it was opened for one
//! ([`IoUringOptions::one_thread`]): then it belongs to its first user, and other threads are refused. That is not the
//! default, as a program that moves such a queue would lose its outstanding commands.

mod device;
mod finish;
mod queue;

pub use crate::io_uring_options::IoUringOptions;
pub(crate) use device::refused;
pub use device::{IoUring, Rings};
pub use queue::IoUringQueue;
