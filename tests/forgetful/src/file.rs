//! The observer of one file, and the cut.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use byway_sys::FileEvents;

use crate::memory::{Cut, Cuts, Memory};
use crate::page::{PAGE_BYTES, Sector, chosen};

/// One in this many events is a moment that pages may be kept as of, beside the last sync and the cut.
const EVENTS_A_MOMENT: u64 = 4;

/// Watches a file and knows what a power cut may leave of it.
#[derive(Debug)]
pub struct Forgetful {
    path: PathBuf,
    memory: Mutex<Memory>,
}

impl Forgetful {
    /// Watches the file at `path`, which may not be there yet. What it holds now counts as synced.
    #[must_use]
    pub fn new(path: &Path, seed: u64) -> Arc<Self> {
        let watched = Self { path: path.to_path_buf(), memory: Mutex::new(Memory::new(seed)) };
        let mut memory = watched.memory.lock().unwrap();
        if path.exists() {
            memory.look_at_all(path);
        }
        memory.versions.clear();
        drop(memory);
        Arc::new(watched)
    }

    /// Cuts the power `events` events from now on: the image that is left goes to `to`, and this file goes on as if
    /// nothing had happened.
    pub fn cut_after(&self, events: u64, to: &Path) {
        let mut memory = self.memory.lock().unwrap();
        memory.cut = Some(Cut { at_event: memory.events + events, to: to.to_path_buf() });
    }

    /// Whether a cut that was asked for is still to come.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.memory.lock().unwrap().cut.is_some()
    }

    /// Cuts the power now.
    pub fn cut_now(&self, to: &Path) {
        let mut memory = self.memory.lock().unwrap();
        memory.cut = None;
        memory.look_at_all(&self.path);
        memory.write_cut(&self.path, to);
    }

    /// Cuts the power now; of the sectors that changed since the last sync, those reached the medium that `reached` says.
    pub fn cut_by(&self, to: &Path, reached: impl Fn(&Sector<'_>) -> bool) {
        let mut memory = self.memory.lock().unwrap();
        memory.cut = None;
        memory.look_at_all(&self.path);
        memory.write_pages(&self.path, to, |page, versions, _| chosen(page, versions, &reached));
    }

    /// Cuts the power at every event from now on, as [`Forgetful::cut_by`] does, and this file goes on as if nothing had
    /// happened. The images that are left go to `folder`; one that is as the one before is not written.
    pub fn cut_at_events(&self, folder: &Path, reached: impl Fn(&Sector<'_>) -> bool + Send + 'static) {
        let cuts =
            Cuts { folder: folder.to_path_buf(), reached: Box::new(reached), last: None, left: Vec::new() };
        self.memory.lock().unwrap().cuts = Some(cuts);
    }

    /// Cuts the power once more, and at no event from now on. The images that were left.
    pub fn end_cuts(&self) -> Vec<PathBuf> {
        let mut memory = self.memory.lock().unwrap();
        memory.cut_again(&self.path);
        memory.cuts.take().unwrap().left
    }

    /// Pages of room that was given back since it is watched, with what the disk held of them then: what was stored and never
    /// synced is not on it.
    #[must_use]
    pub fn given_back(&self) -> Vec<Vec<u8>> {
        self.memory.lock().unwrap().given_back.iter().map(|page| page.to_vec()).collect()
    }

    /// Events so far: writes, allocations, punches and syncs.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.memory.lock().unwrap().events
    }

    fn event(&self) {
        let mut memory = self.memory.lock().unwrap();
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
    fn before_write(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        self.event();
        self.memory.lock().unwrap().tell(pages_of(at, len_bytes));
        Ok(())
    }

    fn before_allocate(&self, _: u64, _: u64) -> io::Result<()> {
        self.event();
        Ok(())
    }

    fn before_punch(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        self.event();
        let mut memory = self.memory.lock().unwrap();
        memory.give_back(&self.path, at / PAGE_BYTES as u64..(at + len_bytes) / PAGE_BYTES as u64);
        memory.tell(pages_of(at, len_bytes));
        Ok(())
    }

    fn mapped(&self, at: u64, len_bytes: u64) {
        self.memory.lock().unwrap().mapped.push(pages_of(at, len_bytes));
    }

    fn before_sync(&self) -> io::Result<()> {
        self.event();
        self.memory.lock().unwrap().told_lately.clear();
        Ok(())
    }

    fn after_sync(&self) {
        let mut memory = self.memory.lock().unwrap();
        memory.look(&self.path);
        memory.versions.clear();
        memory.reported = std::mem::take(&mut memory.told_lately);
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

    /// A file whose first page was synced as ones and then stored as twos and threes.
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
    fn what_was_synced_stays_and_what_was_not_is_anything_since() {
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
    fn what_is_stored_through_a_mapping_counts_as_synced_after_a_sync_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let (left, events, file, mut mapping) = with_a_mapping(dir.path());
        mapping.fill(2);
        file.sync().unwrap();
        mapping.fill(3);
        events.cut_by(&left, |_| false);
        assert_eq!(std::fs::read(&left).unwrap()[3 * PAGE_BYTES..], [2; PAGE_BYTES]);
    }

    #[test]
    fn what_changes_although_nobody_was_told_is_seen_at_the_cut() {
        let dir = tempfile::tempdir().unwrap();
        let (left, events, file, _mapping) = with_a_mapping(dir.path());
        file.sync().unwrap();
        file.file().write_all_at(&[4; PAGE_BYTES], PAGE_BYTES as u64).unwrap();
        file.sync().unwrap();
        events.cut_by(&left, |_| false);
        assert_eq!(std::fs::read(&left).unwrap()[PAGE_BYTES], 1, "no sync is known to have covered it");
    }
}
