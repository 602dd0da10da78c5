//! POSIX asynchronous I/O as the C library does it: by one thread of its own for each descriptor, behind one lock.
//!
//! There for programs that are compared with it, and for systems that have nothing else: commands overlap with the program
//! but not with each other, and `threads` does more with less. Read, Write and Flush go to the C library; the rest is done
//! by system calls when it is submitted. There is no descriptor for event loops: the library reports completions by
//! signals and by threads, which are the program's own affair. Lists of commands (`lio_listio`) are not used: they save an
//! uncontended lock of each command and cost an allocation each, and the library's thread does one after the other anyway
//! (docs/decisions/0018).
//!
//! **Giving up.** What the library has not begun is taken back at once, by
//! [`cancel`](byway_core::BackendQueue::cancel) or because its time is over; what it is doing finishes when it does, as it
//! does, and keeps its memory until then. That a time is over is noticed when the queue is looked at. A synchronous call is
//! done in the caller's thread, as by `psync`.

mod device;
mod queue;

pub use device::{CLibraryAio, PosixAio};
pub use queue::PosixAioQueue;
