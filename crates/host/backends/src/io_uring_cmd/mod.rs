//! NVMe namespaces by commands passed through an io_uring: the shortest way through the kernel to a device, for commands of
//! every command set.
//!
//! Takes a namespace's character device (`/dev/ng0n1`). Commands go in by a ring of entries of 128 bytes, which a whole
//! command fits, and come back by one of 32 bytes, which has room for the device's own result; many begin with one system
//! call, past block layer and page cache. Linux 6.1 has all of it.
//!
//! **Buffers.** Memory that is no whole number of pages, or not aligned, is copied by the kernel. Buffers of the backend's
//! own ([`byway_core::Backend::buffer`]) are, with [`IoUringOptions::registered_buffers`](crate::IoUringOptions), known to
//! it beforehand.
//!
//! **Admin commands** go on by themselves too, by a ring over the controller's own node ([`IoUringCmd::admin_commands`]).
//!
//! **Cancelling.** This interface cannot abort a command in a device: `cancel` takes back what the kernel has
//! not sent yet, and any other finishes as it does. A command's own time is the kernel's to keep, in milliseconds: it has
//! the device abort the command, and resets the controller if the device does not.
//!
//! **What is done by the caller's thread.** A command with more than 1024 buffers: it goes by `ioctl`, its data in a copy.

mod admin;
mod carried;
mod device;
mod queue;

pub use admin::{AdminTicket, IoUringCmdAdmin};
pub use carried::CachedLayout;
pub use device::{CommandRings, IoUringCmd};
pub use queue::IoUringCmdQueue;
