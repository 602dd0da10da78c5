//! NVMe devices behind the kernel's driver: what `nvme_ioctl` and `io_uring_cmd` have in common.
//!
//! A command is passed through as it is; the kernel writes its identifier and its data pointer. So a namespace takes
//! whatever its device takes: the NVM and the Key Value command set, and any opcode passed through raw.
//!
//! **Who failed.** A status is the device's. A refusal of the kernel's is the kernel's error; nothing reached the
//! device then, or it is unknown what became of it.
//!
//! **What is checked here.** The device is given addresses of as much memory as a command brings, and moves as much as the
//! command's fields say; so the two are compared before anything is sent, as far as the command set is known. The kernel
//! decides by the lowest bit of an opcode which way data goes, passes on neither metadata nor fused commands, and sends
//! commands of a namespace's node to that namespace alone: anything else is refused here, by a sentence.
//!
//! **How payloads cross.** Between PRPs and SGLs the kernel chooses. Of a device that announces `piggyback-pt`, a queue that
//! is asked for it (`QueueOptions::transfer`) has the values of stores travel in the commands themselves, as far as the
//! device says; what is longer, or has conditions, goes as the kernel sends it. The commands of one store follow each
//! other, those of several stores overlap. A store that is cancelled or fails between two of them leaves an unfinished
//! payload in the device, which gives way to others there.

mod methods;
mod offer;
mod passage;
mod passed;
mod pieces;
mod target;

pub use byway_sys::{NodeKind, NvmeAnswer, NvmeCommand, NvmeNode, NvmeQueue};
pub use passage::Passage;
pub use passed::Passed;
pub(crate) use passed::outcome;
pub(crate) use pieces::Onward;
pub use target::NvmeTarget;
pub(crate) use target::PIECES_MAX;
