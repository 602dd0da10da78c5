//! The part of a handle that keeps a device open.

use std::sync::Arc;

use crate::executor::Executor;
use crate::options::Companion;
use crate::threads::DeviceThreads;

/// Keeps a device open, its threads running, and its companion alive.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    // Declared first: dropped before the image is closed.
    _companion: Option<Companion>,
    executor: Arc<Executor>,
    /// The threads run as long as any handle exists.
    _threads: Arc<DeviceThreads>,
}

impl Owner {
    /// An owner of an open device.
    pub fn new(companion: Option<Companion>, executor: Arc<Executor>, threads: Arc<DeviceThreads>) -> Self {
        Self { _companion: companion, executor, _threads: threads }
    }

    /// The executor.
    #[inline]
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// The executor, for a handle that outlives its owner's borrow.
    pub fn shared(&self) -> Arc<Executor> {
        self.executor.clone()
    }
}
