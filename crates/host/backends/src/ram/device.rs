//! A namespace of blocks in memory.

use std::sync::Arc;

use crate::over::Over;
use crate::psync::AtOnce;
use crate::ram::RamDisk;
use crate::synchronous::Synchronous;

/// A namespace of blocks in memory.
pub type Ram = Over<RamDisk, AtOnce>;

impl Ram {
    /// Name of the backend, in JSON and for `backend=`. The URI scheme is `ramdisk:`.
    pub const NAME: &str = "ram";

    /// Commands go to `disk`.
    #[must_use]
    pub fn new(disk: Arc<RamDisk>) -> Self {
        let capabilities = disk.capabilities(false, false);
        Self::with(Self::NAME, disk, capabilities, AtOnce)
    }
}
