//! Interrupts: MSI-X vectors, all of them set up at once and without a descriptor, as older kernels cannot add any later; each
//! gets its descriptor when somebody first sleeps on it.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use byway_driver::BusError;
use byway_sys::Wakeup;
use byway_sys::vfio::VfioDevice;

/// VFIO's number of MSI-X.
const MSIX: u32 = 2;

/// Vectors that are set up at most: one for each queue that a driver may want.
const VECTORS_MAX: u32 = 129;

/// The vectors of a device.
#[derive(Debug)]
pub(crate) struct Vectors {
    device: Arc<VfioDevice>,
    armed: Box<[Mutex<Option<Arc<Wakeup>>>]>,
}

impl Vectors {
    /// As many as the device has, or as the machine gives it.
    ///
    /// # Errors
    /// When that is less than two: one for commands, one for administration.
    pub(crate) fn new(device: Arc<VfioDevice>) -> Result<Self, BusError> {
        let has = device.irqs(MSIX);
        let has = has.map_err(|cause| BusError::Unready(format!("interrupts cannot be counted: {cause}")))?;
        let count = set_up(&device, has.min(VECTORS_MAX)).map_err(|cause| {
            BusError::Unready(format!(
                "of {has} MSI-X interrupts, of which 2 are needed, none can be set up: {cause}"
            ))
        })?;
        Ok(Self { device, armed: (0..count).map(|_| Mutex::default()).collect() })
    }

    pub(crate) fn count(&self) -> u16 {
        self.armed.len() as u16
    }

    /// Sleeps until the interrupt comes; says whether it did. One that was not armed before may have come already: it
    /// returns at once, so that the caller looks.
    pub(crate) fn wait(&self, vector: u16, timeout: Duration) -> Result<bool, BusError> {
        let (wakeup, is_new) = self.arm(vector)?;
        if is_new {
            return Ok(false);
        }
        let came = wakeup.wait(timeout);
        let came = came.map_err(|cause| BusError::NoEvent { vector, why: cause.to_string() })?;
        if came {
            wakeup.lower();
        }
        Ok(came)
    }

    /// The descriptor of an interrupt, which can be read at first.
    pub(crate) fn listen(&self, vector: u16) -> Result<Arc<Wakeup>, BusError> {
        let (wakeup, _) = self.arm(vector)?;
        wakeup.raise();
        Ok(wakeup)
    }

    /// Makes it unreadable.
    pub(crate) fn hush(&self, vector: u16) {
        self.with(vector, Wakeup::lower);
    }

    /// Makes it readable.
    pub(crate) fn call(&self, vector: u16) {
        self.with(vector, Wakeup::raise);
    }

    fn with(&self, vector: u16, act: impl FnOnce(&Wakeup)) {
        let Some(place) = self.armed.get(usize::from(vector)) else { return };
        if let Some(wakeup) = &*place.lock().unwrap_or_else(PoisonError::into_inner) {
            act(wakeup);
        }
    }

    fn arm(&self, vector: u16) -> Result<(Arc<Wakeup>, bool), BusError> {
        let no = |why: String| BusError::NoEvent { vector, why };
        let place = self.armed.get(usize::from(vector));
        let place = place.ok_or_else(|| no(format!("the device has {} interrupts", self.armed.len())))?;
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wakeup) = &*place {
            return Ok((Arc::clone(wakeup), false));
        }
        let wakeup = Arc::new(Wakeup::new().map_err(|cause| no(cause.to_string()))?);
        let armed = self.device.arm(MSIX, u32::from(vector), &[Some(wakeup.as_fd())]);
        armed.map_err(|cause| no(format!("it cannot be armed: {cause}")))?;
        *place = Some(Arc::clone(&wakeup));
        Ok((wakeup, true))
    }
}

/// Sets vectors up, half as many where the machine has not so many left; returns how many.
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
