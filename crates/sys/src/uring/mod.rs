//! io_uring over one file or device: operations go in by a ring of shared memory, and their completions come back
//! by another, many to a system call or none.
//!
//! **Who owns memory.** The ring does: an operation's memory is moved in with it and stays in its place until the kernel
//! has completed the operation, even if its waiter is gone. A ring that is dropped cancels what is under way and waits for
//! it; what does not come back is left allocated for ever.
//!
//! **What is done here rather than by the caller.** A transfer that ended early is gone on with, and one that was
//! interrupted is begun again: an operation completes once, with all that could be moved.

mod buffers;
mod completed;
mod deadline;
mod kept;
mod nvme;
mod operation;
mod options;
mod placing;
mod ring;

pub use buffers::{BufferIndex, RegisteredBuffer};
pub use completed::{Completed, Ending};
pub use deadline::Deadline;
pub use operation::{Asked, Operation};
pub use options::{Sqpoll, UringOptions};
pub use ring::Uring;
