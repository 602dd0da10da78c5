//! What devices touched of host memory, access by access: the other side of a ledger, for tests.

#[cfg(feature = "record")]
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "record")]
use crate::BusAddr;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From host memory to the device.
    Read,
    /// From the device to host memory.
    Write,
}

/// One access by a device.
#[cfg(feature = "record")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedAccess {
    /// Which way.
    pub direction: Direction,
    /// The first byte.
    pub at: BusAddr,
    /// Bytes touched.
    pub len_bytes: usize,
    /// Bytes that crossed the link for them: more where a device moves whole pages.
    pub moved_bytes: usize,
}

/// Accesses since they were last taken; none before they are first asked for.
#[cfg(feature = "record")]
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<Option<Vec<RecordedAccess>>>);

#[cfg(feature = "record")]
impl Record {
    pub(crate) fn note(&self, access: RecordedAccess) {
        if let Some(accesses) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            accesses.push(access);
        }
    }

    pub(crate) fn take(&self) -> Vec<RecordedAccess> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(Vec::new()).unwrap_or_default()
    }
}
