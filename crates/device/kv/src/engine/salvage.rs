//! What can be recovered of a damaged index: its readable entries, and for the rest the records in the log.
//!
//! Of an index page that does not match its checksums, the parts count that match those of their flash page. Keys between
//! are looked for in the log: there each record says its key and its sequence number, and the counts of live bytes say
//! in which segments such records are missing from the index, and how many bytes of them are nowhere to be found.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use byway_flash::{Cause, Finding, Hit, Remedy, Watch};
use byway_spec::Key;

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::cache::PageName;
use crate::index::entry::Entry;
use crate::index::page;
use crate::index::page::PARTS;
use crate::index::run::Run;
use crate::store::PageStore;
use crate::value_log::read::Wanted;
use crate::value_log::record::Kind;
use crate::value_log::scan::{Found, Scanner};
use crate::value_log::segment::Use;

/// Entries held in RAM at once; a larger index is gone over in several passes.
const PASS_ENTRIES: u64 = 4 << 20;

/// Keys whose entries cannot be read.
type Gap = RangeInclusive<Key>;

/// Recoverable part of a damaged index.
pub(crate) struct Salvage {
    gaps: Vec<Gap>,
    /// Bytes of each segment that are counted as alive but that no entry was read of.
    missing: Vec<i64>,
    /// Bytes of each segment in records that only the log knows.
    found: Vec<i64>,
    found_keys: u64,
    /// Entries that the runs have and that cannot be read.
    unread: u64,
    /// The counts of live bytes may be too high.
    is_overcounted: bool,
    pub(crate) passes: u64,
}

/// The newest entry of each key of a pass.
pub(crate) struct Newest {
    pub(crate) entries: HashMap<Key, Entry>,
    /// Keys that a walk over whole pages did not come by.
    unseen: HashSet<Key>,
}

/// An entry of a run, as a walk over what can be read comes by it.
#[derive(Clone, Copy)]
struct FoundEntry {
    entry: Entry,
    /// Its page, and all pages above that, can be read as a whole.
    by_whole_pages: bool,
}

impl KvEngine {
    /// Findings of a check, as a repair would have them: keys that only the log has, their unreadable records, and how much
    /// is nowhere to be found.
    pub(crate) fn foretell<S: PageStore>(
        &mut self,
        store: &mut S,
        nsid: u32,
        watch: Watch<'_>,
    ) -> Vec<Finding> {
        let mut salvage = Salvage::survey(self, store);
        let mut findings = Vec::new();
        for pass in 0..salvage.passes {
            watch("index", pass, salvage.passes);
            let newest = salvage.newest(self, store, pass);
            let unseen = newest.unseen.iter().filter_map(|key| newest.entries.get(key));
            let mut unseen: Vec<&Entry> = unseen.collect();
            unseen.sort_unstable_by_key(|entry| entry.key());
            for entry in unseen {
                findings.extend(self.record_finding(store, nsid, entry));
            }
        }
        findings.extend(salvage.findings(nsid));
        findings
    }

    /// What is wrong with the record of an entry, if something is: header, key and value are read, each by its checksum.
    pub(crate) fn record_finding<S: PageStore>(
        &mut self,
        store: &mut S,
        nsid: u32,
        entry: &Entry,
    ) -> Option<Finding> {
        if entry.shape().kind() != Kind::Value {
            return None;
        }
        let error = self.read_through(store, entry).err()?;
        let place = format!("of namespace {nsid}, address {:#x}", entry.address());
        if self.log.repair_record_at(store, entry.address()) && self.read_through(store, entry).is_ok() {
            return Some(Finding::new("record", place, "a bit of it was flipped", Remedy::Restore));
        }
        let hit = Hit::Key { nsid, key: entry.key().as_bytes().to_vec() };
        Some(Finding::new("record", place, error.to_string(), Remedy::Drop).hitting(hit))
    }

    /// Reads the record of an entry for its checksums alone.
    pub(crate) fn read_through<S: PageStore>(&mut self, store: &mut S, entry: &Entry) -> Result<(), KvError> {
        let wanted = Wanted::part(0, u64::from(entry.shape().value_len()));
        let into = &mut |_: &[u8], _: &mut u64| Ok::<(), KvError>(());
        self.log.read_value(store, entry, wanted, Cause::Host, into, &mut 0)
    }

    /// Entries that are in no run yet.
    pub(crate) fn entries_in_memory(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        let (tables, _, _) = self.index.places();
        for table in tables.into_iter().flatten() {
            let (mut walk, mut numbers) = (table.walk(None), Vec::new());
            table.next(&mut walk, &mut numbers, 4096, 0);
            while !numbers.is_empty() {
                entries.extend(numbers.iter().filter_map(|number| table.entry(*number as usize)));
                table.next(&mut walk, &mut numbers, 4096, 0);
            }
        }
        entries
    }

    /// Whether a get finds this entry; `None` where the index cannot say.
    pub(crate) fn is_found<S: PageStore>(&mut self, store: &mut S, entry: &Entry) -> Option<bool> {
        match self.index.get(&entry.key(), store, &mut 0) {
            Ok(Some(found)) => Some(found.has_record_of(entry)),
            Ok(None) => Some(true),
            Err(_) => None,
        }
    }
}

impl Salvage {
    /// Walks over all runs: what cannot be read of them, and which segments it points into.
    pub(crate) fn survey<S: PageStore>(engine: &mut KvEngine, store: &mut S) -> Self {
        let segments = engine.log.layout().segments;
        let mut missing: Vec<i64> = (0..segments).map(|s| engine.log.segments().alive_bytes(s)).collect();
        let entries = engine.index.manifest().runs.iter().map(|run| run.entries).sum::<u64>();
        let mut unread = entries;
        let gaps = each_entry(engine, store, |engine, store, found| {
            unread = unread.saturating_sub(1);
            // What is overwritten is not counted as alive.
            if engine.is_found(store, &found.entry) == Some(true) {
                add(&mut missing, engine, &found.entry, -1);
            }
        });
        for entry in engine.entries_in_memory() {
            if engine.is_found(store, &entry) == Some(true) {
                add(&mut missing, engine, &entry, -1);
            }
        }
        Self {
            gaps,
            missing,
            found: vec![0; segments],
            found_keys: 0,
            unread,
            is_overcounted: engine.index.manifest().is_overcounted,
            passes: entries / PASS_ENTRIES + 1,
        }
    }

    /// The newest entry of each key of a pass. Each pass is asked for once.
    pub(crate) fn newest<S: PageStore>(&mut self, engine: &mut KvEngine, store: &mut S, pass: u64) -> Newest {
        let passes = self.passes;
        let is_here = |key: &Key| spread(key) % passes == pass;
        let (mut entries, mut guessed, mut unseen) = (HashMap::new(), HashMap::new(), HashSet::new());
        each_entry(engine, store, |engine, store, FoundEntry { entry, by_whole_pages }| {
            if !is_here(&entry.key()) {
                return;
            }
            if !by_whole_pages {
                unseen.insert(entry.key());
            }
            // What the index cannot say is said by the log, or not at all.
            match engine.is_found(store, &entry) {
                Some(_) => keep_newest(&mut entries, entry),
                None => keep_newest(&mut guessed, entry),
            }
        });
        for entry in engine.entries_in_memory().into_iter().filter(|entry| is_here(&entry.key())) {
            keep_newest(&mut entries, entry);
        }
        let of_index = guessed.clone();
        if !self.gaps.is_empty() {
            each_record(engine, store, |key, entry| {
                if is_here(key) && self.gaps.iter().any(|gap| gap.contains(key)) {
                    keep_newest(&mut guessed, entry);
                }
            });
        }
        let shift = engine.log.layout().segment_shift;
        guessed.retain(|key, entry| {
            let missing = self.missing.get((entry.address() >> shift) as usize).copied().unwrap_or(0);
            let is_known = entries.get(key).is_some_and(|known| known.seq() >= entry.seq());
            !is_known && (entry.shape().is_tombstone() || missing > 0)
        });
        for (key, entry) in &guessed {
            add(&mut self.found, engine, entry, 1);
            let is_of_log = !of_index.get(key).is_some_and(|known| known.has_record_of(entry));
            self.found_keys += u64::from(is_of_log && entry.shape().kind() == Kind::Value);
        }
        unseen.extend(guessed.keys().copied());
        entries.extend(guessed);
        Newest { entries, unseen }
    }

    /// What all passes came to.
    fn findings(&self, nsid: u32) -> Vec<Finding> {
        let mut findings = Vec::new();
        let place = format!("of namespace {nsid}");
        let beyond = |a: &[i64], b: &[i64]| -> i64 { a.iter().zip(b).map(|(a, b)| (a - b).max(0)).sum() };
        if self.found_keys > 0 {
            let mut what = format!("{} keys are known by their records alone", self.found_keys);
            if beyond(&self.found, &self.missing) > 0 {
                what += "; those among them that had been deleted or overwritten before come back";
            }
            findings.push(Finding::new("index", place.clone(), what, Remedy::Restore));
        }
        let lost = beyond(&self.missing, &self.found);
        if lost > 0 && !self.gaps.is_empty() {
            let keys = self.unread.saturating_sub(self.found_keys).max(1);
            let bytes = if self.is_overcounted { format!("at most {lost}") } else { format!("{lost}") };
            let what = format!(
                "at most {keys} keys {} are neither in the index nor in the log, with {bytes} bytes of records",
                self.gap_text()
            );
            findings.push(Finding::new("index", place, what, Remedy::Drop));
        }
        findings
    }

    /// Between which keys lie all that cannot be looked up.
    fn gap_text(&self) -> String {
        let first = self.gaps.iter().map(|gap| gap.start()).min();
        let last = self.gaps.iter().map(|gap| gap.end()).max();
        match (first, last) {
            (Some(first), Some(last)) => format!("from {first} to {last}"),
            _ => "any".to_owned(),
        }
    }
}

/// Adds `times` times the bytes of a value's record to the sums of the segments that hold it.
fn add(bytes: &mut [i64], engine: &KvEngine, entry: &Entry, times: i64) {
    if entry.shape().kind() != Kind::Value {
        return;
    }
    for (segment, piece) in engine.log.segments().pieces(entry.address(), entry.shape().record_bytes()) {
        if let Some(sum) = bytes.get_mut(segment) {
            *sum += times * piece;
        }
    }
}

/// Keeps an entry where there is no newer one of its key.
fn keep_newest(newest: &mut HashMap<Key, Entry>, entry: Entry) {
    let held = newest.entry(entry.key()).or_insert(entry);
    if entry.seq() > held.seq() {
        *held = entry;
    }
}

/// Calls `look` with every entry of every run that can be read; the keys between them that cannot.
fn each_entry<S: PageStore>(
    engine: &mut KvEngine,
    store: &mut S,
    mut look: impl FnMut(&mut KvEngine, &mut S, FoundEntry),
) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut read_pages = HashSet::new();
    for run in engine.index.manifest().runs.clone() {
        let mut below = vec![(run.root, run.height, run.first..=run.last, true)];
        while let Some((number, level, keys, is_whole)) = below.pop() {
            if !read_pages.insert(number) {
                gaps.push(keys);
                continue;
            }
            let name = PageName { page: number, run: run.id, level };
            let parts = parts_of(engine, store, name);
            let by_whole_pages = is_whole && parts.iter().all(Option::is_some);
            gaps.extend(gaps_between(&parts, &keys));
            let entries: Vec<Entry> = parts.into_iter().flatten().flatten().collect();
            if level == 0 {
                // A merge may have taken over what the run began with.
                let entries = entries.into_iter().filter(|entry| entry.key() >= run.first);
                entries.for_each(|entry| look(engine, store, FoundEntry { entry, by_whole_pages }));
                continue;
            }
            let children = children_of(&entries, &run, *keys.end());
            below.extend(children.into_iter().map(|(page, keys)| (page, level - 1, keys, by_whole_pages)));
        }
    }
    gaps
}

/// The pages that the entries of a page above them name, each with its keys.
fn children_of(entries: &[Entry], run: &Run, last: Key) -> Vec<(u64, Gap)> {
    let ends = entries.iter().skip(1).map(Entry::key).chain([last]);
    let children = entries.iter().zip(ends);
    // A merge has taken over the children that end before the run begins.
    let children = children.filter(|(_, end)| *end > run.first || *end == last);
    children.map(|(fence, end)| (fence.address(), fence.key()..=end)).collect()
}

/// The entries of each part of an index page; `None` where a part cannot be read.
fn parts_of<S: PageStore>(engine: &mut KvEngine, store: &mut S, name: PageName) -> Vec<Option<Vec<Entry>>> {
    let mut bytes = Vec::new();
    if engine.index.copy_page(store, name, &mut bytes, &mut 0).is_ok() {
        let entries = (0..page::count_of(&bytes)).filter_map(|i| page::entry_at(&bytes, i));
        return vec![Some(entries.collect())];
    }
    let home = engine.log.home().clone();
    let part_bytes = engine.log.layout().page_bytes / PARTS;
    let mut part = vec![0; part_bytes];
    let mut parts = Vec::new();
    for nth in 0..PARTS {
        let Some(at) = name.page.checked_mul((PARTS * part_bytes) as u64) else { return vec![None] };
        let at = at + (nth * part_bytes) as u64;
        let is_read = store.read(&home, at, &mut part, Cause::Index, &mut 0).is_ok();
        if nth == 0 && is_read && page::check_name(&part, name.run, name.level).is_err() {
            // The part is intact, but its page belongs to another run or level.
            return vec![None];
        }
        parts.push(is_read.then(|| page::entries_of_part(&part, nth)));
    }
    parts
}

/// The keys between those that the parts of a page have.
fn gaps_between(parts: &[Option<Vec<Entry>>], keys: &Gap) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let (mut from, mut is_open) = (*keys.start(), false);
    for part in parts {
        let Some(entries) = part else {
            is_open = true;
            continue;
        };
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { continue };
        if is_open {
            gaps.push(from..=first.key());
        }
        (from, is_open) = (last.key(), false);
    }
    if is_open {
        gaps.push(from..=*keys.end());
    }
    gaps
}

/// Calls `look` with every committed record of the log that can be read, but for those of refused stores.
fn each_record<S: PageStore>(engine: &mut KvEngine, store: &mut S, mut look: impl FnMut(&Key, Entry)) {
    let shift = engine.log.layout().segment_shift;
    for stream in 0..engine.log.stream_count() {
        let ordinals = ordinals_of(engine, stream);
        let wp = engine.log.stream(stream).wp();
        for chain in ordinals.chunk_by(|a, b| a + 1 == *b) {
            let (Some(first), Some(last)) = (chain.first(), chain.last()) else { continue };
            let end = ((last + 1) << shift).min(wp);
            let mut scanner = Scanner::new(&engine.log, stream, first << shift, end);
            while let Some(found) = scanner.next(&mut engine.log, store, &mut 0) {
                // Damage shows as records that are counted as alive and found nowhere.
                let Found::Record { preamble, position } = found else { continue };
                let address = engine.log.address(stream, position);
                if let Some(address) = address.filter(|_| preamble.shape.kind() != Kind::Void) {
                    let entry = Entry::new(&preamble.key, preamble.shape, address, preamble.seq);
                    look(&preamble.key, entry);
                }
            }
        }
    }
}

/// The pieces of a stream that have a segment, in order.
fn ordinals_of(engine: &KvEngine, stream: usize) -> Vec<u64> {
    let is_here = |_, used: Use| matches!(used, Use::Log { stream: s, .. } if usize::from(s) == stream);
    let segments = engine.log.segments().matching(is_here).into_iter();
    let ordinal = |segment: u32| match engine.log.segments().use_of(u64::from(segment)) {
        Some(Use::Log { ordinal, .. }) => Some(ordinal),
        _ => None,
    };
    let mut ordinals: Vec<u64> = segments.filter_map(ordinal).collect();
    ordinals.sort_unstable();
    ordinals
}

/// A number that spreads keys over passes.
fn spread(key: &Key) -> u64 {
    let number = key.number();
    ((number >> 64) as u64 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}
