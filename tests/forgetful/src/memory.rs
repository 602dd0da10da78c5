//! State of an observed file: its pages as last read, and the pages that changed since the last sync.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::page::{Fate, PAGE_BYTES, Page, Sector, ZEROES, chosen};
use crate::sparse::{data_ranges, read_to};
use byway_kit::Random;

/// Pages read at a time.
const PAGES_AT_ONCE: usize = 16;

#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) random: Random,
    /// Pages with content, as last seen.
    seen: BTreeMap<u64, Page>,
    /// Versions of each page that changed since the last sync; the first is the synced one.
    pub(crate) versions: BTreeMap<u64, Vec<Page>>,
    /// Mapped pages: they change without events.
    pub(crate) mapped: Vec<Range<u64>>,
    /// Pages with a write event since the last sync, and those since the current sync began.
    pub(crate) announced: BTreeSet<u64>,
    pub(crate) announced_since_sync_began: BTreeSet<u64>,
    pub(crate) events: u64,
    pub(crate) cut: Option<Cut>,
    pub(crate) cuts: Option<Cuts>,
    pub(crate) syncs: u64,
    /// Pages of punched ranges, with their synced content.
    pub(crate) given_back: Vec<Page>,
    /// Read buffer.
    room: Vec<u8>,
}

/// A scheduled cut.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) at_event: u64,
    pub(crate) to: PathBuf,
}

/// A cut at each event.
pub(crate) struct Cuts {
    pub(crate) folder: PathBuf,
    pub(crate) reached: Box<dyn Fn(&Sector<'_>) -> bool + Send>,
    /// Digest of the last image.
    pub(crate) last: Option<u64>,
    pub(crate) left: Vec<PathBuf>,
}

impl fmt::Debug for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuts").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Memory {
    /// State of a file that was not read yet.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            seen: BTreeMap::new(),
            versions: BTreeMap::new(),
            mapped: Vec::new(),
            announced: BTreeSet::new(),
            announced_since_sync_began: BTreeSet::new(),
            events: 0,
            cut: None,
            cuts: None,
            syncs: 0,
            given_back: Vec::new(),
            room: Vec::new(),
        }
    }

    /// Notes pages that are about to change.
    pub(crate) fn announce(&mut self, pages: Range<u64>) {
        self.announced.extend(pages.clone());
        self.announced_since_sync_began.extend(pages);
    }

    /// Reads pages that may have changed, and adds a version to those that have.
    pub(crate) fn look(&mut self, path: &Path) {
        let file = File::open(path).unwrap();
        let announced: Vec<u64> = self.announced.iter().copied().collect();
        let announced =
            announced.chunk_by(|page, next| page + 1 == *next).map(|run| run[0]..run[run.len() - 1] + 1);
        for pages in self.mapped.clone().into_iter().chain(announced) {
            self.note_data(&file, &pages);
        }
    }

    /// Reads the whole file: finds changes without events, at the latest at the next cut.
    pub(crate) fn look_at_all(&mut self, path: &Path) {
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

    /// Holes read as zeroes.
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

    /// Notes the synced content of punched pages.
    pub(crate) fn give_back(&mut self, path: &Path, pages: Range<u64>) {
        self.look(path);
        let on_disk = self.seen.range(pages).map(|(page, seen)| {
            let synced = self.versions.get(page).and_then(|versions| versions.first());
            Arc::clone(synced.unwrap_or(seen))
        });
        self.given_back.extend(on_disk.filter(|page| **page != ZEROES));
    }

    /// Cuts the power, if every event is a cut.
    pub(crate) fn cut_again(&mut self, from: &Path) {
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

    /// Writes the image after a cut: each changed page, or each of its sectors, as of any moment since the sync.
    pub(crate) fn write_cut(&mut self, from: &Path, to: &Path) {
        let fate = Fate::any(&mut self.random);
        self.write_pages(from, to, |_, versions, random| fate.choose(versions, random));
    }

    /// Writes an image of the synced pages, with the changed pages as `keep` chooses.
    pub(crate) fn write_pages(
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
