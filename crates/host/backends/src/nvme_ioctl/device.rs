//! An NVMe device behind `ioctl`.

use std::sync::Arc;

use byway_sys::NvmeNode;

use crate::nvme::{NvmeTarget, Passage};
use crate::over::Over;
use crate::psync::AtOnce;
use crate::synchronous::Synchronous;

/// An NVMe device behind `ioctl`.
pub type NvmeIoctl<P = NvmeNode> = Over<NvmeTarget<P>, AtOnce>;

impl NvmeIoctl {
    /// The interface's name.
    pub const NAME: &str = "nvme_ioctl";
}

impl<P: Passage> NvmeIoctl<P> {
    /// Commands go to `target`.
    #[must_use]
    pub fn new(target: Arc<NvmeTarget<P>>) -> Self {
        let capabilities = target.capabilities(false, false);
        Self::with(NvmeIoctl::NAME, target, capabilities, AtOnce)
    }
}
