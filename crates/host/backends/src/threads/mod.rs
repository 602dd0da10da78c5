//! A thread pool that executes commands by synchronous calls: makes a synchronous interface asynchronous.
//!
//! Good for files that are not cached, on systems without a better interface. The queues of a device share its threads.
//! Submitted commands are gathered, and published by one lock and at most one wakeup; a thread that finds more commands
//! than its own wakes the next.
//!
//! A waiting program helps: instead of waking a thread, the waiting thread executes the command itself, as by `psync`,
//! unless it waits for less than [`HELP_FROM`]. Its wait may exceed its timeout by that one command. A synchronous call
//! runs in the calling thread, too.
//!
//! **Cancellation.** A command that no thread has begun is cancelled immediately, by
//! [`cancel`](byway_core::BackendQueue::cancel) or at its deadline; a running one completes normally. Deadlines are checked
//! when the queue is polled, or when a thread takes the command.

mod device;
mod pool;
mod queue;
mod work_list;

pub use device::{ByThreads, Threads, ThreadsOptions};
pub use queue::{HELP_FROM, ThreadsQueue};
