//! Logs and resident files pinned in the device's cache, if it has one: no store waits for flash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byway_tdm_engine::log::RingPlace;
use byway_tdm_engine::table::Reason;
use byway_tdm_region::{Admitted, DeviceRegion, RegionError};

/// Logs that must fit.
const LOGS: u64 = 8;

/// Cache room left, shared by all users' partitions.
#[derive(Debug, Clone)]
pub(crate) struct CacheRoom(Arc<AtomicU64>);

impl CacheRoom {
    /// All that may be pinned of a device's cache.
    pub(crate) fn of(region: &dyn DeviceRegion) -> Self {
        Self(Arc::new(AtomicU64::new(Admitted::of(region).budget_bytes())))
    }

    fn take(&self, bytes: u64) -> Result<(), Reason> {
        let less = |left: u64| left.checked_sub(bytes);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.map(drop).map_err(|_| Reason::NoRoom)
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Pins of one partition. Does nothing for memory without a cache.
#[derive(Debug)]
pub(crate) struct CachePins(Option<InCache>);

#[derive(Debug)]
struct InCache {
    admitted: Admitted,
    room: CacheRoom,
}

impl CachePins {
    /// No pins.
    pub(crate) fn of(partition: &dyn DeviceRegion, room: &CacheRoom) -> Self {
        let in_cache = |_| InCache { admitted: Admitted::of(partition), room: room.clone() };
        Self(partition.stats().cache_bytes.map(in_cache))
    }

    /// Longest log of which [`LOGS`] fit.
    pub(crate) fn log_most_bytes(&self) -> u64 {
        self.0.as_ref().map_or(u64::MAX, |cache| cache.admitted.budget_bytes() / LOGS)
    }

    /// Part of `logs_bytes` that fits.
    pub(crate) fn room_bytes(&self, logs_bytes: u64) -> u64 {
        self.0.as_ref().map_or(logs_bytes, |cache| cache.admitted.budget_bytes().min(logs_bytes))
    }

    /// Loads a place into the cache and pins it.
    pub(crate) fn admit(&mut self, partition: &dyn DeviceRegion, place: RingPlace) -> Result<(), Reason> {
        let Some(InCache { admitted, room }) = &mut self.0 else { return Ok(()) };
        room.take(place.len_bytes)?;
        match admitted.admit(partition, place.at..place.at + place.len_bytes) {
            Ok(ticket) => {
                partition.wait_for(ticket);
                Ok(())
            }
            Err(_) => {
                room.give_back(place.len_bytes);
                Err(Reason::NoRoom)
            }
        }
    }

    /// Unpins a place.
    pub(crate) fn release(&mut self, place: RingPlace) {
        let Some(InCache { admitted, room }) = &mut self.0 else { return };
        let before_bytes = admitted.admitted_bytes();
        admitted.release(place.at);
        room.give_back(before_bytes - admitted.admitted_bytes());
    }

    /// Loads pinned places again that the device evicted.
    pub(crate) fn keep(&self, partition: &dyn DeviceRegion) -> Result<(), RegionError> {
        let Some(cache) = &self.0 else { return Ok(()) };
        cache.admitted.keep(partition).map(drop)
    }
}

/// Loads a range into the device's cache, if it has one, and waits for it.
pub(crate) fn load_range(region: &dyn DeviceRegion, at: u64, len_bytes: u64) -> Result<(), RegionError> {
    if region.stats().cache_bytes.is_none() {
        return Ok(());
    }
    let ticket = region.prefetch(at..at + len_bytes)?;
    region.wait_for(ticket);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use byway_tdm_region::{Opening, open};

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn partitions_pin_no_more_than_the_devices_cache_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("region");
        let described = format!("emu:{}?size=32M&profile=cmm-h&cache=8M&clock=virtual", path.display());
        let region = open(&described, &Opening::default()).unwrap();
        let room = CacheRoom::of(region.as_ref());
        let me = rustix::process::geteuid().as_raw();
        let partitions = [0, 16].map(|at| region.partition(at * MIB..(at + 16) * MIB, me).unwrap());
        let mut residents = partitions.each_ref().map(|partition| CachePins::of(partition.as_ref(), &room));
        let place = |n: u64| RingPlace { at: n * MIB, len_bytes: MIB, identity: 0 };
        let mut admit =
            |partition: usize, n| residents[partition].admit(partitions[partition].as_ref(), place(n));
        let admitted = (0..16).filter(|n| admit(0, *n).is_ok() | admit(1, *n).is_ok()).count();
        assert_eq!(admitted, 4, "of seven that have room, three had one of each");
        assert_eq!(region.stats().evictions, 0);
        residents[1].release(place(0));
        residents[1].release(place(0));
        assert_eq!(residents[0].admit(partitions[0].as_ref(), place(9)), Ok(()));
        assert_eq!(residents[0].admit(partitions[0].as_ref(), place(10)), Err(Reason::NoRoom));
    }
}
