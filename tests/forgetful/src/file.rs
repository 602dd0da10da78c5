//! The observer of one file, and the cut.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_sys::FileEvents;
use parking_lot::Mutex;

use crate::memory::{Cut, Cuts, Memory};
use crate::page::{PAGE_BYTES, Sector, chosen};

/// One in this many events is a moment whose pages a cut may leave, besides the last sync and the cut itself.
const EVENTS_A_MOMENT: u64 = 4;

/// Observes a file and computes what a power cut may leave of it.
#[derive(Debug)]
pub struct Forgetful {
    path: PathBuf,
    memory: Mutex<Memory>,
}

impl Forgetful {
    /// Observes the file at `path`, which need not exist yet. Its present content counts as synced.
    #[must_use]
    pub fn new(path: &Path, seed: u64) -> Arc<Self> {
        let watched = Self { path: path.to_path_buf(), memory: Mutex::new(Memory::new(seed)) };
        let mut memory = watched.memory.lock();
        if path.exists() {
            memory.look_at_all(path);
        }
        memory.versions.clear();
        drop(memory);
        Arc::new(watched)
    }

    /// Cuts the power after `events` more events: writes the resulting image to `to`. This file is not affected.
    pub fn cut_after(&self, events: u64, to: &Path) {
        let mut memory = self.memory.lock();
        memory.cut = Some(Cut { at_event: memory.events + events, to: to.to_path_buf() });
    }

    /// Whether a scheduled cut is still to come.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.memory.lock().cut.is_some()
    }

    /// Cuts the power now.
    pub fn cut_now(&self, to: &Path) {
        let mut memory = self.memory.lock();
        memory.cut = None;
        memory.look_at_all(&self.path);
        memory.write_cut(&self.path, to);
    }

    /// Cuts the power now; of the sectors that changed since the last sync, those reached the medium that `reached` says.
    pub fn cut_by(&self, to: &Path, reached: impl Fn(&Sector<'_>) -> bool) {
        let mut memory = self.memory.lock();
        memory.cut = None;
        memory.look_at_all(&self.path);
        memory.write_pages(&self.path, to, |page, versions, _| chosen(page, versions, &reached));
    }

    /// Cuts the power at every event from now on, as [`Forgetful::cut_by`] does; this file is not affected. Writes
    /// the resulting images to `folder`, without repeated ones.
    pub fn cut_at_events(&self, folder: &Path, reached: impl Fn(&Sector<'_>) -> bool + Send + 'static) {
        let cuts =
            Cuts { folder: folder.to_path_buf(), reached: Box::new(reached), last: None, left: Vec::new() };
        self.memory.lock().cuts = Some(cuts);
    }

    /// Cuts the power once more, and at no event from now on. The images that were left.
    pub fn end_cuts(&self) -> Vec<PathBuf> {
        let mut memory = self.memory.lock();
        memory.cut_again(&self.path);
        memory.cuts.take().unwrap().left
    }

    /// Pages of punched ranges, with their synced content at that time. Unsynced content is not included.
    #[must_use]
    pub fn given_back(&self) -> Vec<Vec<u8>> {
        self.memory.lock().given_back.iter().map(|page| page.to_vec()).collect()
    }

    /// Events so far: writes, allocations, punches and syncs.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.memory.lock().events
    }

    fn event(&self) {
        let mut memory = self.memory.lock();
        memory.events += 1;
        memory.cut_again(&self.path);
        let now = memory.events;
        if let Some(cut) = memory.cut.take_if(|cut| cut.at_event <= now) {
            memory.look_at_all(&self.path);
            memory.write_cut(&self.path, &cut.to);
        } else if memory.random.one_in(EVENTS_A_MOMENT) {
            memory.look(&self.path);
        }
    }
}

impl FileEvents for Forgetful {
    fn sees_reads(&self) -> bool {
        false
    }

    fn before_write(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        self.event();
        self.memory.lock().announce(pages_of(at, len_bytes));
        Ok(())
    }

    fn before_allocate(&self, _: u64, _: u64) -> io::Result<()> {
        self.event();
        Ok(())
    }

    fn before_punch(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        self.event();
        let mut memory = self.memory.lock();
        memory.give_back(&self.path, at / PAGE_BYTES as u64..(at + len_bytes) / PAGE_BYTES as u64);
        memory.announce(pages_of(at, len_bytes));
        Ok(())
    }

    fn mapped(&self, at: u64, len_bytes: u64) {
        self.memory.lock().mapped.push(pages_of(at, len_bytes));
    }

    fn before_sync(&self) -> io::Result<()> {
        self.event();
        self.memory.lock().announced_since_sync_began.clear();
        Ok(())
    }

    fn after_sync(&self) {
        let mut memory = self.memory.lock();
        memory.look(&self.path);
        memory.versions.clear();
        memory.announced = std::mem::take(&mut memory.announced_since_sync_began);
        memory.syncs += 1;
    }
}

/// The pages that bytes are in.
fn pages_of(at: u64, len_bytes: u64) -> Range<u64> {
    at / PAGE_BYTES as u64..(at + len_bytes).div_ceil(PAGE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use byway_sys::ImageFile;

    use super::*;
    use crate::page::SECTOR_BYTES;

    /// A file whose first page was synced as ones, then overwritten with twos and threes.
    fn cut(seed: u64) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let (path, left) = (dir.path().join("file"), dir.path().join("left"));
        let events = Forgetful::new(&path, seed);
        let file = ImageFile::create(&path).unwrap().watched_by(Some(events.clone()));
        file.set_len(3 * PAGE_BYTES as u64).unwrap();
        file.write_at(0, &[1; 2 * PAGE_BYTES]).unwrap();
        file.sync().unwrap();
        for step in 2..12 {
            file.write_at(0, &[step; PAGE_BYTES]).unwrap();
        }
        events.cut_now(&left);
        std::fs::read(left).unwrap()
    }

    #[test]
    fn cut_keeps_synced_pages_and_any_version_of_later_stores() {
        let (mut old, mut new, mut between, mut torn) = (0, 0, 0, 0);
        for seed in 0..64 {
            let left = cut(seed);
            assert!(left[PAGE_BYTES..2 * PAGE_BYTES].iter().all(|byte| *byte == 1));
            let sectors: Vec<u8> = left[..PAGE_BYTES].chunks(SECTOR_BYTES).map(|sector| sector[0]).collect();
            old += u32::from(sectors == [1; 8]);
            new += u32::from(sectors == [11; 8]);
            between += u32::from(sectors.iter().any(|byte| (2..11).contains(byte)));
            torn += u32::from(sectors.iter().any(|byte| *byte != sectors[0]));
        }
        assert!(old > 0 && new > 0 && between > 0 && torn > 0, "{old} {new} {between} {torn}");
    }

    #[test]
    fn a_cut_comes_at_its_event() {
        let dir = tempfile::tempdir().unwrap();
        let (path, left) = (dir.path().join("file"), dir.path().join("left"));
        let events = Forgetful::new(&path, 1);
        let file = ImageFile::create(&path).unwrap().watched_by(Some(events.clone()));
        file.write_at(0, &[1; 10]).unwrap();
        events.cut_after(2, &left);
        file.sync().unwrap();
        assert!(events.is_waiting() && !left.exists());
        file.write_at(0, &[2; 10]).unwrap();
        assert!(!events.is_waiting());
        assert_eq!(std::fs::read(left).unwrap()[..10], [1; 10], "the write had not begun");
    }

    #[test]
    fn a_punched_page_may_be_there_still() {
        let dir = tempfile::tempdir().unwrap();
        let (path, left) = (dir.path().join("file"), dir.path().join("left"));
        let found: Vec<u8> = (0..32)
            .map(|seed| {
                let _ = std::fs::remove_file(&path);
                let events = Forgetful::new(&path, seed);
                let file = ImageFile::create(&path).unwrap().watched_by(Some(events.clone()));
                file.write_at(0, &[1; 2 * PAGE_BYTES]).unwrap();
                file.sync().unwrap();
                file.punch(0, PAGE_BYTES as u64).unwrap();
                events.cut_now(&left);
                std::fs::read(&left).unwrap()[0]
            })
            .collect();
        assert!(found.contains(&0) && found.contains(&1));
    }

    /// A file of three pages that were written, and one that is mapped.
    fn with_a_mapping(dir: &Path) -> (PathBuf, Arc<Forgetful>, ImageFile, byway_sys::ExclusiveMapping) {
        let path = dir.join("file");
        let events = Forgetful::new(&path, 1);
        let file = ImageFile::create(&path).unwrap().watched_by(Some(events.clone()));
        file.set_len(4 * PAGE_BYTES as u64).unwrap();
        file.write_at(0, &[1; 3 * PAGE_BYTES]).unwrap();
        let mapping = file.map(3 * PAGE_BYTES as u64, PAGE_BYTES).unwrap();
        (dir.join("left"), events, file, mapping)
    }

    #[test]
    fn stores_through_a_mapping_are_durable_only_after_a_sync() {
        let dir = tempfile::tempdir().unwrap();
        let (left, events, file, mut mapping) = with_a_mapping(dir.path());
        mapping.fill(2);
        file.sync().unwrap();
        mapping.fill(3);
        events.cut_by(&left, |_| false);
        assert_eq!(std::fs::read(&left).unwrap()[3 * PAGE_BYTES..], [2; PAGE_BYTES]);
    }

    #[test]
    fn change_without_an_event_is_seen_at_the_cut() {
        let dir = tempfile::tempdir().unwrap();
        let (left, events, file, _mapping) = with_a_mapping(dir.path());
        file.sync().unwrap();
        file.file().write_all_at(&[4; PAGE_BYTES], PAGE_BYTES as u64).unwrap();
        file.sync().unwrap();
        events.cut_by(&left, |_| false);
        assert_eq!(std::fs::read(&left).unwrap()[PAGE_BYTES], 1, "no sync is known to have covered it");
    }
}
