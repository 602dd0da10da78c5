//! A pool of threads that do commands by synchronous calls: every interface that has nothing but those becomes one whose
//! commands overlap.
//!
//! Good for files whose blocks must be fetched, on systems without a better interface. The queues of a device share its
//! threads. Submitted commands are gathered, and published by one lock and at most one wakeup; a thread that finds more
//! than it can do wakes the next.
//!
//! A program that waits has nothing else to do: the command that would wake a thread is done by the waiting thread
//! itself, as by `psync`, unless it waits for less than [`HELP_FROM`]. Such a wait may last longer than its time by that
//! one command. A synchronous call is done by its caller, too.
//!
//! **Giving up.** A command that no thread has begun is given up at once, by [`cancel`](byway_core::BackendQueue::cancel)
//! or because its time is over; what a thread is doing finishes as it does. That a time is over is noticed when the queue
//! is looked at, or a thread comes to the command.

mod device;
mod pool;
mod queue;
mod work_list;

pub use device::{ByThreads, Threads, ThreadsOptions};
pub use queue::{HELP_FROM, ThreadsQueue};
