//! Data of pages: flipped bits set right, by the checksums of its units.

use byway_sys::checksum::{self, flipped_bit};

use crate::finding::{Finding, Remedy};
use crate::flash::Flash;
use crate::geometry::UNIT_BYTES;
use crate::location::{EntryIndex, Location};

impl Flash {
    /// Sets flipped bits right in the page that holds an entry, by the checksums of its units.
    pub(crate) fn repair_data(&mut self, index: EntryIndex) -> Option<RepairedPage> {
        let Ok(Location::Flash(unit)) = self.ftl.map.load(index) else { return None };
        let page = self.ftl.geometry().page_of(unit);
        let spare = self.ftl.spare(page).filter(|spare| !spare.is_made_anew())?;
        let mut data = vec![0; self.ftl.geometry().page_bytes as usize];
        self.ftl.media.read(page, 0, &mut data).ok()?;
        let (mut bits, mut is_whole) = (0, true);
        // What is dead may have been wiped.
        let live = self.ftl.live_in(page, &spare);
        for unit in live.iter().map(|unit| unit as usize) {
            match repair_unit(&mut data[unit * UNIT_BYTES..][..UNIT_BYTES], spare.crc(unit)) {
                Some(repaired) => bits += u32::from(repaired),
                None => is_whole = false,
            }
        }
        if bits == 0 {
            return None;
        }
        let record = self.ftl.media.spare(page).to_vec();
        // The same bytes but for the bits that were flipped: however much of it gets there, nothing is worse.
        self.ftl.media.program(page, &data, &record).ok()?;
        let (block, within) = self.ftl.geometry().place_of(page);
        Some(RepairedPage { place: format!("{within} of block {}", block.0), bits, is_whole })
    }
}

/// What was set right of a page.
pub(crate) struct RepairedPage {
    place: String,
    /// Bits that were flipped: one of a unit at most.
    bits: u32,
    /// Now all of it can be read.
    pub(crate) is_whole: bool,
}

impl RepairedPage {
    pub(crate) fn finding(&self) -> Finding {
        let what = match self.bits {
            1 => "a bit of its data was flipped".to_owned(),
            bits => format!("{bits} bits of its data were flipped"),
        };
        Finding::new("page", &self.place, what, Remedy::Restore)
    }
}

/// Sets right the one bit of a unit that makes it match its checksum; whether there was one to set right, `None` where
/// that does not help.
fn repair_unit(unit: &mut [u8], crc: u32) -> Option<bool> {
    let difference = checksum::crc32c(unit) ^ crc;
    if difference == 0 {
        return Some(false);
    }
    let bit = flipped_bit(unit.len(), difference)?;
    unit[bit / 8] ^= 1 << (bit % 8);
    Some(true)
}
