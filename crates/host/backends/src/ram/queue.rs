//! A queue whose commands are finished when `submit` returns.

use crate::psync::PsyncQueue;
use crate::ram::RamDisk;

/// A queue whose commands are finished when `submit` returns.
pub type RamQueue = PsyncQueue<RamDisk>;
