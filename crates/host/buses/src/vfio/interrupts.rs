//! Interrupts: MSI-X vectors, all of them set up at once and without a descriptor, as older kernels cannot add any later; each
//! has its descriptor while a thread waits on it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use byway_driver::BusError;
use byway_sys::vfio::VfioDevice;

use crate::interrupts::{Signals, Vectors};

/// VFIO's number of MSI-X.
const MSIX: u32 = 2;

/// Vectors that are set up at most: one for each queue that a driver may want.
const VECTORS_MAX: u32 = 129;

impl Signals for Arc<VfioDevice> {
    fn signal(&self, vector: u16, fd: Option<BorrowedFd<'_>>) -> Result<(), BusError> {
        self.arm(MSIX, u32::from(vector), &[fd])
            .map_err(|cause| BusError::NoEvent { vector, why: format!("it cannot be armed: {cause}") })
    }
}

impl Vectors<Arc<VfioDevice>> {
    /// As many as the device has, or as the machine gives it.
    ///
    /// # Errors
    /// When that is less than two: one for commands, one for administration.
    pub(crate) fn of(device: Arc<VfioDevice>) -> Result<Self, BusError> {
        let has = device.irqs(MSIX);
        let has = has.map_err(|cause| BusError::Unready(format!("interrupts cannot be counted: {cause}")))?;
        let count = set_up(&device, has.min(VECTORS_MAX)).map_err(|cause| {
            BusError::Unready(format!(
                "of {has} MSI-X interrupts, of which 2 are needed, none can be set up: {cause}"
            ))
        })?;
        let vectors = Self::new(device, count as u16);
        // The admin queue's has its descriptor for good: what an open device takes of the process's is known, however long its
        // first admin commands take.
        vectors.sleep_on(0)?;
        Ok(vectors)
    }

    /// Sleeps until the interrupt comes; says whether it did. One that was not armed before may have come already: it
    /// returns at once, so that the caller looks.
    pub(crate) fn wait(&self, vector: u16, timeout: Duration) -> Result<bool, BusError> {
        let Some(wakeup) = self.sleep_on(vector)? else { return Ok(false) };
        let came = wakeup.wait(timeout);
        let came = came.map_err(|cause| BusError::NoEvent { vector, why: cause.to_string() })?;
        if came {
            wakeup.lower();
        }
        Ok(came)
    }
}

/// Sets vectors up, and halves their number while the machine has too few; returns the number.
fn set_up(device: &VfioDevice, mut count: u32) -> io::Result<u32> {
    if count < 2 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    loop {
        match device.arm(MSIX, 0, &vec![None; count as usize]) {
            Ok(()) => return Ok(count),
            Err(cause) if count == 2 => return Err(cause),
            Err(_) => count = (count / 2).max(2),
        }
    }
}
