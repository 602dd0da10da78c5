//! io_uring over one file or device: a submission and a completion ring in shared memory, with one system call for many
//! operations or none.
//!
//! **Ownership of memory.** The ring owns it: an operation's memory is moved in with it and stays in place until the kernel
//! has completed the operation, even if its waiter has gone. A dropped ring cancels outstanding operations and waits for
//! them; the memory of those that never complete is leaked.
//!
//! **Short transfers** are continued here, and interrupted ones restarted: an operation completes once, with all bytes that
//! could be moved.

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
