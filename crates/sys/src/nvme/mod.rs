//! NVMe devices behind the kernel's driver: commands passed through as they are, by `ioctl` or by an io_uring.
//!
//! The kernel gives the device the addresses of as much memory as a command is said to have, and no more. A device moves
//! as much as the command's own fields say, in its own units: a caller that passes commands through makes the two
//! agree, or a device reads and writes beyond.

mod abi;
mod command;
mod node;

pub(crate) use abi::{UringPassthrough, uring};
pub use command::{NvmeAnswer, NvmeCommand, NvmeQueue};
pub use node::{NodeKind, NvmeNode};
