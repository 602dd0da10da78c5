//! A queue whose commands the kernel works on.

use crate::ring::RingQueue;
use crate::target::Target;

/// A queue whose commands the kernel works on.
pub type IoUringQueue = RingQueue<Target>;
