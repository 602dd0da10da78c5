//! A queue whose commands are finished when `submit` returns.

use byway_sys::NvmeNode;

use crate::nvme::NvmeTarget;
use crate::psync::PsyncQueue;

/// A queue whose commands are finished when `submit` returns.
pub type NvmeIoctlQueue<P = NvmeNode> = PsyncQueue<NvmeTarget<P>>;
