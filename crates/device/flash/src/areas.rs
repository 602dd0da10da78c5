//! Protected areas: memory that other crates reserve by name, kept like an SSD's DRAM behind capacitors.
//!
//! An area belongs to a namespace (or to the device, number 0), has a fixed size, is zero at first, and takes its disk
//! room when it is added.

use std::sync::Arc;

use byway_sys::{Mapping, MappingReader};

use crate::bit_repair::{RepairLog, repair_bit};
use crate::error::FlashError;
use crate::finding::{Finding, Remedy};
use crate::image::layout::{AREA_ENTRY_BYTES, AREA_SLOTS, Layout, Range};
use crate::protected::{Backing, Protected};
use crate::word;

/// Areas start and end at multiples of this, so that each can be mapped.
const ALIGN: u64 = 4096;
const PLACE: u64 = 3 << 60;

const IN_USE: u64 = 1;

/// Name of an area among those of its namespace; chosen by the room that keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AreaId(pub u32);

/// An area that is here: found or added once, then used without looking it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AreaRef(u16);

#[derive(Debug)]
enum Memory {
    Own(Protected),
    Shared(Arc<Mapping>),
}

#[derive(Debug)]
struct Area {
    nsid: u32,
    id: AreaId,
    /// In the file.
    range: Range,
    len: usize,
    memory: Memory,
    /// Beside a writer, its memory of the area; `memory` is a copy of this process's.
    live: Option<MappingReader>,
}

#[derive(Debug)]
pub(crate) struct AreaTable {
    table: Protected,
    region: Range,
    backing: Backing,
    areas: Vec<Option<Area>>,
}

impl AreaTable {
    /// Reads the table and maps every area; the inner error names the entry that is damaged. With a repair log, what can be
    /// set right is, and an entry that cannot is left out.
    pub(crate) fn open(
        backing: &Backing,
        layout: &Layout,
        mut repair_log: RepairLog<'_>,
    ) -> Result<Result<Self, String>, FlashError> {
        let mut table = backing.map(layout.area_table)?;
        let mut areas = Vec::with_capacity(AREA_SLOTS);
        for slot in 0..AREA_SLOTS {
            if let Some(findings) = &mut repair_log {
                findings.extend(repair(&mut table, slot, layout.areas.len));
            }
            let entry = match load(&table, slot, layout.areas.len) {
                Some(entry) => entry,
                None if repair_log.is_some() => None,
                None => return Ok(Err(format!("entry {slot} of the table of protected areas"))),
            };
            areas.push(entry.map(|entry| entry.map(backing, layout.areas)).transpose()?);
        }
        Ok(Ok(Self { table, region: layout.areas, backing: backing.clone(), areas }))
    }

    pub(crate) fn find(&self, nsid: u32, id: AreaId) -> Option<AreaRef> {
        let named =
            |area: &Option<Area>| area.as_ref().is_some_and(|area| (area.nsid, area.id) == (nsid, id));
        self.areas.iter().position(named).map(|slot| AreaRef(slot as u16))
    }

    /// Adds an area of zeroes to the image, with its disk room.
    pub(crate) fn add(&mut self, nsid: u32, id: AreaId, len_bytes: usize) -> Result<AreaRef, FlashError> {
        let backing = self.backing.clone();
        self.add_in(&backing, nsid, id, len_bytes)
    }

    /// Adds an area of zeroes that is there as long as the device is open.
    pub(crate) fn add_in_memory(
        &mut self,
        nsid: u32,
        id: AreaId,
        len_bytes: usize,
    ) -> Result<AreaRef, FlashError> {
        self.add_in(&Backing::Memory, nsid, id, len_bytes)
    }

    fn add_in(
        &mut self,
        backing: &Backing,
        nsid: u32,
        id: AreaId,
        len_bytes: usize,
    ) -> Result<AreaRef, FlashError> {
        if self.find(nsid, id).is_some() {
            return Err(FlashError::AreaExists { nsid, id: id.0 });
        }
        if len_bytes == 0 {
            return Err(FlashError::Misuse("a protected area has at least one byte"));
        }
        let slot = self.areas.iter().position(Option::is_none);
        let slot = slot.ok_or(FlashError::TableFull("protected areas"))?;
        let at = self.place_for(len_bytes as u64).ok_or(FlashError::TableFull("bytes of protected areas"))?;
        let entry = Entry { nsid, id, at, len: len_bytes as u64 };
        backing.allocate(entry.range(self.region))?;
        self.areas[slot] = Some(entry.map(backing, self.region)?);
        entry.store(&mut self.table, slot);
        Ok(AreaRef(slot as u16))
    }

    /// First place between the areas there are that is long enough.
    fn place_for(&self, len_bytes: u64) -> Option<u64> {
        let len = len_bytes.checked_next_multiple_of(ALIGN)?;
        let mut taken: Vec<Range> = self.areas.iter().flatten().map(|area| area.range).collect();
        taken.sort_unstable_by_key(|range| range.at);
        let mut at = self.region.at;
        for range in taken {
            // Areas may overlap in a forged image.
            if range.at.saturating_sub(at) >= len {
                break;
            }
            at = at.max(range.end());
        }
        (self.region.end() - at >= len).then(|| at - self.region.at)
    }

    pub(crate) fn place(&self, area: AreaRef) -> Option<u64> {
        self.areas.get(usize::from(area.0))?.as_ref().map(|area| area.range.at)
    }

    /// Whether memory of an area of `nsid` was given out and is still held.
    pub(crate) fn is_shared(&self, nsid: u32) -> bool {
        self.areas.iter().flatten().filter(|area| area.nsid == nsid).any(|area| match &area.memory {
            Memory::Own(_) => false,
            Memory::Shared(map) => Arc::strong_count(map) > 1,
        })
    }

    /// The areas of a namespace that no one else has the memory of, with their bytes.
    pub(crate) fn of(&self, nsid: u32) -> impl Iterator<Item = (AreaId, &[u8])> {
        let own = move |area: &&Area| area.nsid == nsid;
        self.areas.iter().flatten().filter(own).filter_map(|area| match &area.memory {
            Memory::Own(memory) => Some((area.id, &memory[..area.len])),
            Memory::Shared(_) => None,
        })
    }

    /// Fills every area of a namespace with zeroes, from the front.
    pub(crate) fn wipe(&mut self, nsid: u32) {
        let zeroes = [0; 4096];
        for area in self.areas.iter_mut().flatten().filter(|area| area.nsid == nsid) {
            match &mut area.memory {
                Memory::Own(memory) => memory.fill(0),
                Memory::Shared(map) => {
                    for at in (0..map.len()).step_by(zeroes.len()) {
                        let copied = map.write_at(at, &zeroes[..zeroes.len().min(map.len() - at)]);
                        debug_assert!(copied.is_ok(), "pieces lie inside their mapping");
                    }
                }
            }
        }
    }

    /// Namespaces that have areas; one with several comes several times.
    pub(crate) fn owners(&self) -> impl Iterator<Item = u32> {
        self.areas.iter().flatten().map(|area| area.nsid)
    }

    /// Removes every area of a namespace.
    pub(crate) fn remove_all(&mut self, nsid: u32) -> Result<(), FlashError> {
        for slot in 0..self.areas.len() {
            if let Some(area) = self.areas[slot].take_if(|area| area.nsid == nsid) {
                self.table.set_word(slot * AREA_ENTRY_BYTES, word::seal(0, PLACE | slot as u64));
                self.backing.release(area.range)?;
            }
        }
        Ok(())
    }

    /// The bytes of an area.
    ///
    /// # Panics
    /// When the area was removed or its memory was shared: both end the use of its reference.
    #[inline]
    pub(crate) fn bytes(&self, area: AreaRef) -> &[u8] {
        let (memory, len) = self.own(area);
        &memory[..len]
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self, area: AreaRef) -> &mut [u8] {
        let (memory, len) = self.own_mut(area);
        &mut memory[..len]
    }

    #[inline]
    pub(crate) fn commit(&mut self, area: AreaRef, at: usize, value: u64) {
        self.own_mut(area).0.set_word(at, value);
    }

    #[inline]
    pub(crate) fn word(&self, area: AreaRef, at: usize) -> u64 {
        self.own(area).0.word(at)
    }

    /// Whether words of an area are other than the writer of the image has them now, where it is read beside one.
    #[inline]
    pub(crate) fn is_stale(&self, area: AreaRef, part: std::ops::Range<usize>) -> bool {
        let Some(Area { memory: Memory::Own(memory), live: Some(live), .. }) =
            &self.areas[usize::from(area.0)]
        else {
            return false;
        };
        part.step_by(8).any(|at| live.load_u64(at).is_ok_and(|word| word != memory.word(at)))
    }

    /// Copies bytes of an area from the writer of the image, where it is read beside one.
    pub(crate) fn refresh(&mut self, area: AreaRef, part: std::ops::Range<usize>) {
        let Some(Area { memory: Memory::Own(memory), live: Some(live), .. }) =
            &mut self.areas[usize::from(area.0)]
        else {
            return;
        };
        let at = part.start;
        if let Some(into) = memory.get_mut(part) {
            let copied = live.copy_at(at, into);
            debug_assert!(copied.is_ok(), "areas are mapped whole");
        }
    }

    /// As [`refresh`](Self::refresh), of an area whose memory [was given out](Self::share).
    pub(crate) fn refresh_shared(&self, shared: &Arc<Mapping>, part: std::ops::Range<usize>) {
        let found = self.areas.iter().flatten().find_map(|area| match (&area.memory, &area.live) {
            (Memory::Shared(map), Some(live)) if Arc::ptr_eq(map, shared) => Some(live),
            _ => None,
        });
        let Some(live) = found else { return };
        let (mut bytes, mut at) = ([0; 4096], part.start);
        while at < part.end {
            let piece = &mut bytes[..(part.end - at).min(4096)];
            let copied = live.copy_at(at, piece).and_then(|()| shared.write_at(at, piece));
            debug_assert!(copied.is_ok(), "pieces lie inside their area");
            at += piece.len();
        }
    }

    #[inline]
    fn own(&self, area: AreaRef) -> (&Protected, usize) {
        match &self.areas[usize::from(area.0)] {
            Some(Area { memory: Memory::Own(memory), len, .. }) => (memory, *len),
            _ => panic!("a protected area is used after it was removed or shared"),
        }
    }

    #[inline]
    fn own_mut(&mut self, area: AreaRef) -> (&mut Protected, usize) {
        match &mut self.areas[usize::from(area.0)] {
            Some(Area { memory: Memory::Own(memory), len, .. }) => (memory, *len),
            _ => panic!("a protected area is used after it was removed or shared"),
        }
    }

    /// The memory of an area, to be mapped as device memory. From here on it is reached through this handle alone.
    pub(crate) fn share(&mut self, area: AreaRef) -> Arc<Mapping> {
        let slot = &mut self.areas[usize::from(area.0)];
        let Some(mut found) = slot.take() else { panic!("a protected area is used after it was removed") };
        let map = match found.memory {
            Memory::Own(memory) => Arc::new(memory.into_mapping().into_shared()),
            Memory::Shared(map) => map,
        };
        found.memory = Memory::Shared(Arc::clone(&map));
        *slot = Some(found);
        map
    }
}

/// An area as the table holds it: use word, names, place in the region, length, checksum.
#[derive(Debug, Clone, Copy)]
struct Entry {
    nsid: u32,
    id: AreaId,
    at: u64,
    len: u64,
}

impl Entry {
    fn range(&self, region: Range) -> Range {
        region.part(self.at, self.len.next_multiple_of(ALIGN))
    }

    fn map(&self, backing: &Backing, region: Range) -> Result<Area, FlashError> {
        let range = self.range(region);
        let (memory, live) = (Memory::Own(backing.map(range)?), backing.live(range)?);
        Ok(Area { nsid: self.nsid, id: self.id, range, len: self.len as usize, memory, live })
    }

    /// Writes the entry and then, by one store, that it is in use.
    fn store(&self, table: &mut Protected, slot: usize) {
        let at = slot * AREA_ENTRY_BYTES;
        table.set_word(at + 8, u64::from(self.nsid) | u64::from(self.id.0) << 32);
        table.set_word(at + 16, self.at);
        table.set_word(at + 24, self.len);
        let crc = crc32c::crc32c(&table[at + 8..at + 32]);
        table.set_word(at + 32, u64::from(crc));
        table.set_word(at, word::seal(IN_USE, PLACE | slot as u64));
    }
}

/// Sets a damaged entry right, if one bit of it was flipped.
fn repair(table: &mut Protected, slot: usize, region_bytes: u64) -> Option<Finding> {
    if load(table, slot, region_bytes).is_some() {
        return None;
    }
    let (at, place) = (slot * AREA_ENTRY_BYTES, PLACE | slot as u64);
    let used = table.word(at);
    if word::unseal(used, place).is_none() {
        // A slot that was never used is zeroes, which are no word.
        let was_unused =
            used.is_power_of_two() && table[at + 8..at + AREA_ENTRY_BYTES].iter().all(|byte| *byte == 0);
        let repaired = if was_unused { Some(0) } else { word::repaired(used, place) };
        table.set_word(at, repaired.unwrap_or(used));
    }
    let good = |bytes: &[u8]| u64::from(crc32c::crc32c(&bytes[..24])).to_le_bytes() == bytes[24..];
    let body = &mut table[at + 8..at + 40];
    if !good(body) {
        repair_bit(body, good);
    }
    let place = format!("entry {slot}");
    Some(match load(table, slot, region_bytes) {
        Some(_) => Finding::new("area table", place, "a bit of it was flipped", Remedy::Restore),
        None => Finding::new("area table", place, "it does not match its checksum", Remedy::None),
    })
}

/// Makes the checksums of entries fit, for fuzzers.
pub(crate) fn reseal(region: &mut [u8]) {
    for (slot, bytes) in region.chunks_exact_mut(AREA_ENTRY_BYTES).enumerate() {
        word::reseal(&mut bytes[..8], PLACE | slot as u64);
        let crc = u64::from(crc32c::crc32c(&bytes[8..32]));
        bytes[32..40].copy_from_slice(&crc.to_le_bytes());
    }
}

/// `None` when the entry is damaged; `Some(None)` when it is free.
fn load(table: &Protected, slot: usize, region_bytes: u64) -> Option<Option<Entry>> {
    let at = slot * AREA_ENTRY_BYTES;
    let used = table.word(at);
    if used == 0 || word::unseal(used, PLACE | slot as u64)? == 0 {
        return Some(None);
    }
    if u64::from(crc32c::crc32c(&table[at + 8..at + 32])) != table.word(at + 32) {
        return None;
    }
    let names = table.word(at + 8);
    let entry = Entry {
        nsid: names as u32,
        id: AreaId((names >> 32) as u32),
        at: table.word(at + 16),
        len: table.word(at + 24),
    };
    let end = entry.at.checked_add(entry.len.checked_next_multiple_of(ALIGN)?)?;
    (entry.len > 0 && entry.at.is_multiple_of(ALIGN) && end <= region_bytes).then_some(Some(entry))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn flipped_bit_of_an_unused_slot_is_corrected() {
        let len = (AREA_SLOTS * AREA_ENTRY_BYTES) as u64;
        let mut table = Backing::Memory.map(Range { at: 0, len }).unwrap();
        for slot in 0..AREA_SLOTS {
            for bit in 0..64 {
                table.set_word(slot * AREA_ENTRY_BYTES, 1 << bit);
                let found = repair(&mut table, slot, 1 << 20);
                assert!(found.is_some_and(|found| found.remedy == Remedy::Restore), "slot {slot}, bit {bit}");
                assert_eq!(table.word(slot * AREA_ENTRY_BYTES), 0);
            }
        }
    }
}
