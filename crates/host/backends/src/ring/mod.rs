//! Queues whose commands the kernel works on, in and out by a ring: what `io_uring` and `io_uring_cmd` have in common.

mod boundary;
pub(crate) mod buffers;
mod queue;

pub use boundary::{Ring, RingDevice, Step, Ticket};
pub(crate) use boundary::{cancelled, timed_out};
pub use queue::{KernelRing, RingQueue};
