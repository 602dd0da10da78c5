//! A record of each access of a device to host memory. Tests compare it with the ledger.

#[cfg(feature = "record")]
use parking_lot::Mutex;

#[cfg(feature = "record")]
use crate::BusAddr;

/// Direction of an access.
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
    /// Direction.
    pub direction: Direction,
    /// Address of the first byte.
    pub at: BusAddr,
    /// Bytes accessed.
    pub len_bytes: usize,
    /// Bytes that crossed the link: more if the device moves whole pages.
    pub moved_bytes: usize,
}

/// Accesses since the last `take`; recording starts with the first.
#[cfg(feature = "record")]
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<Option<Vec<RecordedAccess>>>);

#[cfg(feature = "record")]
impl Record {
    pub(crate) fn note(&self, access: RecordedAccess) {
        if let Some(accesses) = &mut *self.0.lock() {
            accesses.push(access);
        }
    }

    pub(crate) fn take(&self) -> Vec<RecordedAccess> {
        self.0.lock().replace(Vec::new()).unwrap_or_default()
    }
}
