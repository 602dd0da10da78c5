//! Repairing an engine: keys whose records are lost are dropped, and a damaged index is made anew.
//!
//! The index that is made holds every entry that can be read. Keys whose entries stood in pages that cannot be read are
//! looked for in the log: there each record says its key and its sequence number, and the counts of live bytes say
//! in which segments such records are missing from the index. Storing the new manifest's root word replaces the old
//! index by the new one, so a repair that is cut short leaves the old one.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use byway_flash::{Cause, Finding, Hit, Watch};

use crate::engine::KvEngine;
use crate::error::KvError;
use crate::index::builder::RunBuilder;
use crate::index::cache::PageName;
use crate::index::entry::Entry;
use crate::index::page;
use crate::index::run::Run;
use crate::store::PageStore;
use crate::value_log::read::Wanted;
use crate::value_log::record::Kind;
use crate::value_log::scan::{Found, Scanner};
use crate::value_log::segment::Use;
use byway_spec::Key;

/// Entries held in RAM at once; a larger index is made in several passes, each with a run of its own.
const PASS_ENTRIES: u64 = 4 << 20;

/// Keys whose entries cannot be read.
type Gap = RangeInclusive<Key>;

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Keys that were dropped, as their records cannot be read.
    pub dropped: Vec<Key>,
    /// Keys that were found in the log alone. One of them may have been deleted long before.
    pub found_in_log: u64,
    /// The index was made anew.
    pub rebuilt: bool,
}

impl KvEngine {
    /// Repairs what [`check`](Self::check) found. Keys that are lost are dropped, so that they are not found any more;
    /// an index that is damaged is made anew.
    ///
    /// # Errors
    /// [`KvError::Full`] when there is no room for another index beside the damaged one, errors of the flash. The engine is
    /// then as it was.
    pub fn repair<S: PageStore>(
        &mut self,
        store: &mut S,
        findings: &[Finding],
        watch: Watch<'_>,
    ) -> Result<Repaired, KvError> {
        self.check_writable(store)?;
        let mut repaired = Repaired::default();
        if findings.is_empty() {
            return Ok(repaired);
        }
        self.index.flush(&mut self.log, store, self.next_seq - 1, &mut 0)?;
        self.unsaved_bytes = 0;
        let of_index =
            |finding: &Finding| matches!(finding.structure, "index page" | "index run" | "live bytes");
        if findings.iter().any(of_index) {
            self.rebuild(store, watch, &mut repaired)?;
        } else {
            for key in findings.iter().flat_map(|finding| &finding.hits).filter_map(key_of) {
                self.delete(store, &key, &mut 0)?;
                repaired.dropped.push(key);
            }
            self.flush(store, &mut 0)?;
        }
        self.index.forget_losses(&mut self.log, store, self.next_seq - 1)?;
        Ok(repaired)
    }

    fn rebuild<S: PageStore>(
        &mut self,
        store: &mut S,
        watch: Watch<'_>,
        repaired: &mut Repaired,
    ) -> Result<(), KvError> {
        let mut salvage = Salvage::survey(self, store);
        let entries = self.index.manifest().runs.iter().map(|run| run.entries).sum::<u64>();
        let passes = entries / PASS_ENTRIES + 1;
        let mut runs = Vec::new();
        for pass in 0..passes {
            watch("index", pass, passes);
            let newest = salvage.newest(self, store, pass, passes);
            match self.write_run(store, newest, &mut salvage, repaired) {
                Ok(run) => runs.extend(run),
                Err(error) => {
                    self.index.drop_unlisted(&mut self.log, store)?;
                    return Err(error);
                }
            }
        }
        repaired.rebuilt = true;
        repaired.found_in_log = salvage.found_in_log;
        let keys = runs.iter().map(|run| run.entries).sum();
        self.log.segments.live.set_base_keys(keys);
        self.index.replace_runs(runs, &salvage.live, &mut self.log, store)
    }

    /// Writes a run of the entries whose records can be read.
    fn write_run<S: PageStore>(
        &mut self,
        store: &mut S,
        entries: HashMap<Key, Entry>,
        salvage: &mut Salvage,
        repaired: &mut Repaired,
    ) -> Result<Option<Run>, KvError> {
        let mut entries: Vec<Entry> = entries.into_values().collect();
        entries.sort_unstable_by_key(Entry::key);
        let layout = self.log.layout;
        let mut bytes_left = 2 * layout.segments as u64 * layout.segment_bytes();
        let tier = self.index.manifest().runs.last().map_or(0, |run| run.tier);
        let mut builder = RunBuilder::new(self.index.take_run_number(), tier, self.index.pages.shape);
        for entry in entries {
            if entry.shape().kind() != Kind::Value {
                continue;
            }
            // Records do not overlap, but someone may say so.
            bytes_left = bytes_left.checked_sub(entry.shape().record_bytes()).ok_or(KvError::Full)?;
            let wanted = Wanted { from: 0, to: u64::from(entry.shape().value_len()) };
            let into = &mut |_: &[u8], _: &mut u64| Ok::<(), KvError>(());
            if self.log.read_value(store, &entry, wanted, Cause::Host, into, &mut 0).is_err() {
                repaired.dropped.push(entry.key());
                continue;
            }
            for (segment, bytes) in self.log.segments.pieces(entry.address(), entry.shape().record_bytes()) {
                salvage.live[segment] += bytes;
            }
            builder.push(&entry, &mut self.log, store, &mut 0)?;
        }
        builder.finish(&mut self.log, store, &mut 0)
    }
}

/// What can be had of a damaged index.
struct Salvage {
    gaps: Vec<Gap>,
    /// Bytes of each segment that are counted as alive but that no entry was read of.
    missing: Vec<i64>,
    /// Bytes of each segment that the new index has alive.
    live: Vec<i64>,
    found_in_log: u64,
}

impl Salvage {
    /// Walks over all runs: what cannot be read of them, and which segments it points into.
    fn survey<S: PageStore>(engine: &mut KvEngine, store: &mut S) -> Self {
        let segments = engine.log.layout.segments;
        let mut missing: Vec<i64> = (0..segments).map(|s| engine.log.segments.live.of(s).1).collect();
        let gaps = each_entry(engine, store, |engine, store, entry| {
            // What is overwritten is not counted as alive.
            let newest = engine.index.get(&entry.key(), store, &mut 0);
            let is_newest = newest.is_ok_and(|newest| newest == Some(entry));
            if is_newest && entry.shape().kind() == Kind::Value {
                for (segment, bytes) in
                    engine.log.segments.pieces(entry.address(), entry.shape().record_bytes())
                {
                    missing[segment] -= bytes;
                }
            }
        });
        Self { gaps, missing, live: vec![0; segments], found_in_log: 0 }
    }

    /// The newest entry of each key of a pass.
    fn newest<S: PageStore>(
        &mut self,
        engine: &mut KvEngine,
        store: &mut S,
        pass: u64,
        passes: u64,
    ) -> HashMap<Key, Entry> {
        let is_here = |key: &Key| spread(key) % passes == pass;
        let mut newest: HashMap<Key, Entry> = HashMap::new();
        each_entry(engine, store, |_, _, entry| {
            if is_here(&entry.key()) {
                keep_newest(&mut newest, entry);
            }
        });
        if self.gaps.is_empty() {
            return newest;
        }
        let mut found: HashMap<Key, Entry> = HashMap::new();
        each_record(engine, store, |key, entry| {
            if is_here(key) && self.gaps.iter().any(|gap| gap.contains(key)) {
                keep_newest(&mut found, entry);
            }
        });
        let shift = engine.log.layout.segment_shift;
        found.retain(|_, entry| {
            let missing = self.missing.get((entry.address() >> shift) as usize).copied().unwrap_or(0);
            entry.shape().is_tombstone() || missing > 0
        });
        for entry in found.into_values() {
            self.found_in_log += u64::from(keep_newest(&mut newest, entry));
        }
        newest
    }
}

/// Keeps an entry where there is no newer one of its key; whether it was kept.
fn keep_newest(newest: &mut HashMap<Key, Entry>, entry: Entry) -> bool {
    let held = newest.entry(entry.key()).or_insert(entry);
    let is_newer = entry.seq() > held.seq();
    if is_newer {
        *held = entry;
    }
    is_newer || *held == entry
}

/// Calls `look` with every entry of every run that can be read; the keys between them that cannot.
fn each_entry<S: PageStore>(
    engine: &mut KvEngine,
    store: &mut S,
    mut look: impl FnMut(&mut KvEngine, &mut S, Entry),
) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut read_pages = HashSet::new();
    for run in engine.index.manifest().runs.clone() {
        let mut below = vec![(run.root, run.height, run.first..=run.last)];
        while let Some((number, level, keys)) = below.pop() {
            let name = PageName { page: number, run: run.id, level };
            let mut bytes = Vec::new();
            let read = engine.index.pages.copy(store, name, &mut bytes, &mut 0);
            if read.is_err() || !read_pages.insert(number) {
                gaps.push(keys);
                continue;
            }
            let entries: Vec<Entry> =
                (0..page::count_of(&bytes)).filter_map(|i| page::entry_at(&bytes, i)).collect();
            if level == 0 {
                // A merge may have taken over what the run began with.
                let entries = entries.into_iter().filter(|entry| entry.key() >= run.first);
                entries.for_each(|entry| look(engine, store, entry));
                continue;
            }
            let ends = entries.iter().skip(1).map(Entry::key).chain([*keys.end()]);
            let children = entries.iter().zip(ends).enumerate();
            let children = children.filter(|(i, _)| !page::is_taken_over(&bytes, *i, &run.first));
            below.extend(children.map(|(_, (fence, end))| (fence.address(), level - 1, fence.key()..=end)));
        }
    }
    gaps
}

/// Calls `look` with every committed record of the log that can be read, but for those of refused stores.
fn each_record<S: PageStore>(engine: &mut KvEngine, store: &mut S, mut look: impl FnMut(&Key, Entry)) {
    let shift = engine.log.layout.segment_shift;
    for stream in 0..engine.log.streams.len() {
        let is_here = |_, used: Use| matches!(used, Use::Log { stream: s, .. } if usize::from(s) == stream);
        let mut ordinals: Vec<u64> = engine
            .log
            .segments
            .matching(is_here)
            .into_iter()
            .filter_map(|segment| match engine.log.segments.use_of(u64::from(segment)) {
                Some(Use::Log { ordinal, .. }) => Some(ordinal),
                _ => None,
            })
            .collect();
        ordinals.sort_unstable();
        let wp = engine.log.streams[stream].wp();
        for chain in ordinals.chunk_by(|a, b| a + 1 == *b) {
            let (Some(first), Some(last)) = (chain.first(), chain.last()) else { continue };
            let end = ((last + 1) << shift).min(wp);
            let mut scanner = Scanner::new(&engine.log, stream, first << shift, end);
            while let Some(found) = scanner.next(&mut engine.log, store, &mut 0) {
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

/// A number that spreads keys over passes.
fn spread(key: &Key) -> u64 {
    let number = key.number();
    ((number >> 64) as u64 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

fn key_of(hit: &Hit) -> Option<Key> {
    match hit {
        Hit::Key { key, .. } => Key::new(key).ok(),
        _ => None,
    }
}
