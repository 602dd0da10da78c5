//! The drive behind a modelled cache: a flash model for timing, garbage collection and counts. The bytes lie in the region's file.

use std::ops::Range;

use byway_flash::{
    Cause, ExtentId, Flash, FlashError, FlashOptions, MIN_SIZE_BYTES, MediaKind, NamespaceKind,
    NamespaceSpec, UNIT_BYTES,
};
use byway_link::HybridProfile;
use byway_sys::zeroes;

/// Units read or written at once: at least a NAND page's.
const RUN_UNITS: usize = 16;

/// The drive.
pub(crate) struct Drive {
    flash: Flash,
    extent: ExtentId,
    /// Bytes programmed at the start.
    filled_bytes: u64,
    overhead_ps: u64,
    is_timed: bool,
    /// Buffer of reads.
    room: Vec<u8>,
}

impl Drive {
    /// A drive of `len_bytes`. With `is_full` all of it has been written before.
    pub(crate) fn new(
        profile: &HybridProfile,
        len_bytes: u64,
        is_timed: bool,
        is_full: bool,
    ) -> Result<Self, FlashError> {
        let size_bytes = len_bytes.max(MIN_SIZE_BYTES);
        let array = profile.drive.flash;
        let options = FlashOptions::new(size_bytes, array, MediaKind::External)
            .timing(false)
            .profile_name(profile.drive.name.to_owned())
            .over_provisioning_percent(array.over_provisioning_percent);
        let kind = NamespaceKind::Nvm { lba_bytes: UNIT_BYTES as u32 };
        let mut flash = Flash::create(options, &[])?;
        let extent = flash.add_namespace(NamespaceSpec { nsid: None, kind, size_bytes: len_bytes })?.extent;
        let overhead_ps =
            if is_timed { profile.miss_overhead_ps(u64::from(profile.cache.page_bytes)) } else { 0 };
        let mut drive = Self {
            flash,
            extent,
            filled_bytes: 0,
            overhead_ps,
            is_timed,
            room: vec![0; RUN_UNITS * UNIT_BYTES],
        };
        if is_full {
            drive.fill(len_bytes / UNIT_BYTES as u64)?;
        }
        drive.flash.set_timing(is_timed);
        Ok(drive)
    }

    fn fill(&mut self, units: u64) -> Result<(), FlashError> {
        self.store(0..units, 0)?;
        self.filled_bytes = self.flash.counters().total().program_bytes;
        Ok(())
    }

    /// Reads units in parallel; returns the end.
    pub(crate) fn fetch(&mut self, units: Range<u64>, at_ps: u64) -> Result<u64, FlashError> {
        let (mut ready_ps, mut unit) = (at_ps, units.start);
        while unit < units.end {
            let run = (units.end - unit).min(RUN_UNITS as u64);
            let mut done_ps = at_ps;
            let into = &mut self.room[..run as usize * UNIT_BYTES];
            self.flash.read(self.extent, unit * UNIT_BYTES as u64, into, Cause::Host, &mut done_ps)?;
            ready_ps = ready_ps.max(done_ps);
            unit += run;
        }
        Ok(ready_ps + self.overhead_ps)
    }

    /// Writes units; returns the end.
    pub(crate) fn store(&mut self, units: Range<u64>, at_ps: u64) -> Result<u64, FlashError> {
        let (mut taken_ps, mut unit) = (at_ps, units.start);
        while unit < units.end {
            let run = (units.end - unit).min(RUN_UNITS as u64);
            let data = &zeroes()[..run as usize * UNIT_BYTES];
            self.flash.write_units(self.extent, unit, data, Cause::Host, &mut taken_ps)?;
            unit += run;
        }
        Ok(if self.is_timed { taken_ps } else { at_ps })
    }

    /// Bytes programmed, including garbage collection.
    pub(crate) fn programmed_bytes(&self) -> u64 {
        self.flash.counters().total().program_bytes - self.filled_bytes
    }
}
