//! POSIX asynchronous I/O of the C library: one library thread per descriptor, behind one lock.
//!
//! For comparisons, and for systems that have nothing else: commands overlap with the program but not with each other, and
//! `threads` is faster at less cost. Read, Write and Flush go to the C library; other commands are executed by system calls at
//! submission. There is no descriptor for event loops: the library reports completions by signals or threads, which belong
//! to the program. Lists of commands (`lio_listio`) are not used: they save an uncontended lock per command and cost an
//! allocation each, and the library's thread executes one command at a time anyway (docs/decisions/0018).
//!
//! **Cancellation.** A command that the library has not begun is taken back immediately, by
//! [`cancel`](byway_core::BackendQueue::cancel) or at its deadline; a running one completes normally and keeps its memory
//! until then. Deadlines are checked when the queue is polled. A synchronous call runs in the calling thread, as by
//! `psync`.

mod device;
mod queue;

pub use device::{CLibraryAio, PosixAio};
pub use queue::PosixAioQueue;
