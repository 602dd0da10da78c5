//! The observer of one file, and the cut.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use byway_sys::FileEvents;
use rustix::fs::{SeekFrom, seek};

use crate::random::Random;

const PAGE_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
const ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Pages that are looked at at once.
const PAGES_AT_ONCE: usize = 16;

/// One in this many events is a moment that pages may be kept as of, beside the last sync and the cut.
const EVENTS_A_MOMENT: u64 = 4;

type Page = Arc<[u8]>;

/// A sector that changed since the last sync.
#[derive(Debug, Clone, Copy)]
pub struct Sector<'a> {
    /// Its first byte in the file.
    pub at: u64,
    /// What it was at the sync.
    pub synced: &'a [u8],
    /// What was stored last.
    pub stored: &'a [u8],
}

/// Watches a file and knows what a power cut may leave of it.
#[derive(Debug)]
pub struct Forgetful {
    path: PathBuf,
    memory: Mutex<Memory>,
}

#[derive(Debug)]
struct Memory {
    random: Random,
    /// Pages with content, as last seen.
    seen: BTreeMap<u64, Page>,
    /// What each page that changed since the last sync was, first as of the sync.
    versions: BTreeMap<u64, Vec<Page>>,
    /// Pages that may change unseen.
    mapped: Vec<Range<u64>>,
    /// Pages of which it was told that they change, since the last sync; and since that which is under way began.
    told: BTreeSet<u64>,
    told_lately: BTreeSet<u64>,
    events: u64,
    cut: Option<Cut>,
    cuts: Option<Cuts>,
    syncs: u64,
    /// Pages of room that was given back, as they were on the disk.
    given_back: Vec<Page>,
    /// What is read goes here.
    room: Vec<u8>,
}

/// A cut to come.
#[derive(Debug)]
struct Cut {
    at_event: u64,
    to: PathBuf,
}

/// A cut at each event.
struct Cuts {
    folder: PathBuf,
    reached: Box<dyn Fn(&Sector<'_>) -> bool + Send>,
    /// What the last image was made of.
    last: Option<u64>,
    left: Vec<PathBuf>,
}

impl fmt::Debug for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuts").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Forgetful {
    /// Watches the file at `path`, which may not be there yet. What it holds now counts as synced.
    #[must_use]
    pub fn new(path: &Path, seed: u64) -> Arc<Self> {
        let memory = Memory {
            random: Random::new(seed),
            seen: BTreeMap::new(),
            versions: BTreeMap::new(),
            mapped: Vec::new(),
            told: BTreeSet::new(),
            told_lately: BTreeSet::new(),
            events: 0,
            cut: None,
            cuts: None,
            syncs: 0,
            given_back: Vec::new(),
            room: Vec::new(),
        };
        let watched = Self { path: path.to_path_buf(), memory: Mutex::new(memory) };
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
        memory.told = std::mem::take(&mut memory.told_lately);
        memory.syncs += 1;
    }
}

/// The pages that bytes are in.
fn pages_of(at: u64, len_bytes: u64) -> Range<u64> {
    at / PAGE_BYTES as u64..(at + len_bytes).div_ceil(PAGE_BYTES as u64)
}

impl Memory {
    /// Pages change soon.
    fn tell(&mut self, pages: Range<u64>) {
        self.told.extend(pages.clone());
        self.told_lately.extend(pages);
    }

    /// Looks at what may have changed: such pages have one more version.
    fn look(&mut self, path: &Path) {
        let file = File::open(path).unwrap();
        let told: Vec<u64> = self.told.iter().copied().collect();
        let told = told.chunk_by(|page, next| page + 1 == *next).map(|run| run[0]..run[run.len() - 1] + 1);
        for pages in self.mapped.clone().into_iter().chain(told) {
            self.note_data(&file, &pages);
        }
    }

    /// Looks at the whole file, whatever it was told: what changed untold since the last sync is found by the next cut at the
    /// latest.
    fn look_at_all(&mut self, path: &Path) {
        let file = File::open(path).unwrap();
        let mut after_data = 0;
        for data in data_ranges(&file) {
            self.note_hole(after_data..data.start);
            self.note_data(&file, &data);
            after_data = data.end;
        }
        self.note_hole(after_data..u64::MAX);
    }

    fn note_data(&mut self, file: &File, pages: &Range<u64>) {
        let mut room = std::mem::take(&mut self.room);
        room.resize(PAGES_AT_ONCE * PAGE_BYTES, 0);
        for first in pages.clone().step_by(PAGES_AT_ONCE) {
            let count = (pages.end - first).min(PAGES_AT_ONCE as u64) as usize;
            let bytes = &mut room[..count * PAGE_BYTES];
            read_to(file, first * PAGE_BYTES as u64, bytes);
            (first..).zip(bytes.chunks_exact(PAGE_BYTES)).for_each(|(page, content)| self.see(page, content));
        }
        self.room = room;
    }

    fn see(&mut self, page: u64, content: &[u8]) {
        let same = match self.seen.get(&page) {
            Some(seen) => **seen == *content,
            None => *content == ZEROES,
        };
        if !same {
            self.note(page, content.into());
        }
    }

    /// Pages without room on the disk are zeroes.
    fn note_hole(&mut self, pages: Range<u64>) {
        let gone: Vec<u64> = self.seen.range(pages).map(|(page, _)| *page).collect();
        for page in gone {
            self.see(page, &ZEROES);
            self.seen.remove(&page);
        }
    }

    fn note(&mut self, page: u64, content: Page) {
        let before = self.seen.insert(page, Arc::clone(&content));
        let versions = self.versions.entry(page);
        let versions = versions.or_insert_with(|| vec![before.unwrap_or_else(|| ZEROES.as_slice().into())]);
        versions.push(content);
    }

    /// Notes what the disk holds of pages.
    fn give_back(&mut self, path: &Path, pages: Range<u64>) {
        self.look(path);
        let on_disk = self.seen.range(pages).map(|(page, seen)| {
            let synced = self.versions.get(page).and_then(|versions| versions.first());
            Arc::clone(synced.unwrap_or(seen))
        });
        self.given_back.extend(on_disk.filter(|page| **page != ZEROES));
    }

    /// Cuts the power, where that is done at every event.
    fn cut_again(&mut self, from: &Path) {
        let Some(mut cuts) = self.cuts.take() else { return };
        self.look(from);
        let mut made_of = DefaultHasher::new();
        self.syncs.hash(&mut made_of);
        for (page, versions) in &self.versions {
            (page, chosen(*page, versions, &cuts.reached)).hash(&mut made_of);
        }
        let made_of = Some(made_of.finish());
        if cuts.last != made_of {
            let to = cuts.folder.join(format!("cut-{}", cuts.left.len()));
            self.write_pages(from, &to, |page, versions, _| chosen(page, versions, &cuts.reached));
            (cuts.last, cuts.left) = (made_of, [cuts.left, vec![to]].concat());
        }
        self.cuts = Some(cuts);
    }

    /// Writes what the cut leaves: each page that changed, or each of its sectors, as of any moment since the sync.
    fn write_cut(&mut self, from: &Path, to: &Path) {
        let fate = Fate::any(&mut self.random);
        self.write_pages(from, to, |_, versions, random| fate.choose(versions, random));
    }

    /// Writes a file of what was synced, and of what `keep` leaves of pages that changed since.
    fn write_pages(
        &mut self,
        from: &Path,
        to: &Path,
        keep: impl Fn(u64, &[Page], &mut Random) -> [u8; PAGE_BYTES],
    ) {
        let out = File::create(to).unwrap();
        out.set_len(File::open(from).unwrap().metadata().unwrap().len()).unwrap();
        for (page, content) in &self.seen {
            if !self.versions.contains_key(page) {
                out.write_all_at(content, page * PAGE_BYTES as u64).unwrap();
            }
        }
        for (page, versions) in &self.versions {
            let kept = keep(*page, versions, &mut self.random);
            if kept != ZEROES {
                out.write_all_at(&kept, page * PAGE_BYTES as u64).unwrap();
            }
        }
    }
}

/// What is left of a page of which some sectors reached the medium.
fn chosen(page: u64, versions: &[Page], reached: impl Fn(&Sector<'_>) -> bool) -> [u8; PAGE_BYTES] {
    let mut kept = ZEROES;
    let (Some(synced), Some(stored)) = (versions.first(), versions.last()) else { return kept };
    let sectors = synced.chunks(SECTOR_BYTES).zip(stored.chunks(SECTOR_BYTES));
    for ((synced, stored), within) in sectors.zip((0..).step_by(SECTOR_BYTES)) {
        let sector = Sector { at: page * PAGE_BYTES as u64 + within as u64, synced, stored };
        let is_new = synced != stored && reached(&sector);
        kept[within..within + SECTOR_BYTES].copy_from_slice(if is_new { stored } else { synced });
    }
    kept
}

/// How a cut treats what changed: pieces of that size are old, new or something between, with these odds in 16.
struct Fate {
    piece_bytes: usize,
    old: u64,
    new: u64,
}

impl Fate {
    fn any(random: &mut Random) -> Self {
        let piece_bytes = if random.one_in(2) { PAGE_BYTES } else { SECTOR_BYTES };
        let (old, new) = [(15, 1), (8, 8), (6, 6), (1, 15), (2, 2)][random.below(5) as usize];
        Self { piece_bytes, old, new }
    }

    fn choose(&self, versions: &[Page], random: &mut Random) -> [u8; PAGE_BYTES] {
        let mut kept = ZEROES;
        for at in (0..PAGE_BYTES).step_by(self.piece_bytes) {
            let last = versions.len() - 1;
            let version = match random.below(16) {
                odds if odds < self.old => 0,
                odds if odds < self.old + self.new => last,
                _ => random.below(versions.len() as u64) as usize,
            };
            let piece = at..at + self.piece_bytes;
            kept[piece.clone()].copy_from_slice(&versions[version][piece]);
        }
        kept
    }
}

/// Copies an image, holes as holes.
///
/// # Panics
/// Where a file cannot be read or written.
pub fn copy_sparse(from: &Path, to: &Path) {
    let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
    to.set_len(from.metadata().unwrap().len()).unwrap();
    let mut page = [0; PAGE_BYTES];
    for at in data_ranges(&from).into_iter().flatten() {
        read_to(&from, at * PAGE_BYTES as u64, &mut page);
        if page != ZEROES {
            to.write_all_at(&page, at * PAGE_BYTES as u64).unwrap();
        }
    }
}

/// Reads up to the end of the file.
fn read_to(file: &File, at: u64, into: &mut [u8]) {
    let mut have = 0;
    while have < into.len() {
        match file.read_at(&mut into[have..], at + have as u64).unwrap() {
            0 => break,
            more => have += more,
        }
    }
    into[have..].fill(0);
}

/// The pages that have room on the disk.
fn data_ranges(file: &File) -> Vec<Range<u64>> {
    let (mut ranges, mut at) = (Vec::new(), 0);
    while let Ok(data) = seek(file, SeekFrom::Data(at)) {
        let end = seek(file, SeekFrom::Hole(data)).unwrap();
        ranges.push(data / PAGE_BYTES as u64..end.div_ceil(PAGE_BYTES as u64));
        at = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use byway_sys::ImageFile;

    use super::*;

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
