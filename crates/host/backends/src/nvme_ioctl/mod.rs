//! NVMe devices by `ioctl`: a command is passed through by the thread that submits it, which waits for the answer.
//!
//! Takes every node of an NVMe device: a namespace's as a block device (`/dev/nvme0n1`) or a character device
//! (`/dev/ng0n1`), for commands of any kind, and a controller's (`/dev/nvme0`) for admin commands. No two commands of a
//! queue overlap. A command costs its system call, an interrupt and being woken; `io_uring_cmd` is the faster one for
//! many.
//!
//! **Times.** A command that was given a time is given up by the kernel: it has the device abort the command, and resets
//! the controller if the device does not. A queue's own timeout holds for synchronous calls.

mod device;
mod queue;

pub use device::NvmeIoctl;
pub use queue::NvmeIoctlQueue;
