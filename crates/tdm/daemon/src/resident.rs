//! Logs that are kept in the cache of a device that has one, ahead of those who write them: no store waits for flash.

use byway_tdm_board::Why;
use byway_tdm_log::RingPlace;
use byway_tdm_region::{Admitted, DeviceRegion, RegionError};

/// Logs that there is room for at least.
const LOGS: u64 = 8;

/// The logs of one slice; of memory without a cache in front of it, nothing has to be done.
#[derive(Debug)]
pub(crate) struct Resident(Option<Admitted>);

impl Resident {
    /// None yet.
    pub(crate) fn of(slice: &dyn DeviceRegion) -> Self {
        Self(slice.stats().cache_bytes.map(|_| Admitted::of(slice)))
    }

    /// How long a log may be for several to be resident.
    pub(crate) fn log_most_bytes(&self) -> u64 {
        self.0.as_ref().map_or(u64::MAX, |admitted| admitted.budget_bytes() / LOGS)
    }

    /// How much of so much room for logs can be resident.
    pub(crate) fn room_bytes(&self, logs_bytes: u64) -> u64 {
        self.0.as_ref().map_or(logs_bytes, |admitted| admitted.budget_bytes().min(logs_bytes))
    }

    /// Has a log brought, and waits for it.
    pub(crate) fn admit(&mut self, slice: &dyn DeviceRegion, ring: RingPlace) -> Result<(), Why> {
        let Some(admitted) = &mut self.0 else { return Ok(()) };
        let ticket = admitted.admit(slice, ring.at..ring.at + ring.len_bytes).map_err(|_| Why::NoRoom)?;
        slice.wait_for(ticket);
        Ok(())
    }

    /// A log is nobody's any more.
    pub(crate) fn release(&mut self, ring: RingPlace) {
        if let Some(admitted) = &mut self.0 {
            admitted.release(ring.at);
        }
    }

    /// Has those brought again that the device let go of.
    pub(crate) fn keep(&self, slice: &dyn DeviceRegion) -> Result<(), RegionError> {
        let Some(admitted) = &self.0 else { return Ok(()) };
        admitted.keep(slice).map(drop)
    }
}

/// Has a range brought into the cache, if there is one, and waits for it.
pub(crate) fn bring(region: &dyn DeviceRegion, at: u64, len_bytes: u64) -> Result<(), RegionError> {
    if region.stats().cache_bytes.is_none() {
        return Ok(());
    }
    let ticket = region.prefetch(at..at + len_bytes)?;
    region.wait_for(ticket);
    Ok(())
}
