//! A queue whose commands the kernel passes on to the device.

use byway_sys::NvmeNode;

use crate::nvme::NvmeTarget;
use crate::ring::{KernelRing, RingQueue};

/// A queue whose commands the kernel passes on to the device.
pub type IoUringCmdQueue<P = NvmeNode, R = KernelRing<NvmeTarget<P>>> = RingQueue<NvmeTarget<P>, R>;
