//! The kernel's native asynchronous I/O: `io_submit` begins many commands by one system call, and completions are taken
//! from a ring in the process's own memory, by none.
//!
//! Good for block devices and for files that are opened past the page cache, where the kernel has the device work while
//! the program goes on. Through the page cache `io_submit` does the work itself before it returns. Read, Write and Flush go
//! to the kernel; what it has no operation for is done by system calls when it is submitted.
//!
//! **Giving up.** The kernel takes nothing back that it has begun, and reads or writes a command's memory until it is done
//! with it; so the memory is given back then and not before. A command is given up, with
//! [`TimedOut`](byway_core::ErrorKind::TimedOut) or [`Cancelled`](byway_core::ErrorKind::Cancelled), only while it is
//! gathered; afterwards it finishes when it does, as it does, late or not. A synchronous call is done in the caller's
//! thread, as by `psync`.
//!
//! The processes of a system have `/proc/sys/fs/aio-max-nr` commands together; a queue takes its depth of them.

mod device;
pub(crate) mod queue;

pub use device::{Libaio, NativeAio};
pub use queue::LibaioQueue;
