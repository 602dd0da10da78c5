//! The check of an engine: every page of every run, every entry's record, every segment and its live bytes.

use std::collections::HashSet;

use byway_flash::{Finding, Remedy, Watch};
use byway_sys::cacheline::LINE_BYTES;

use crate::engine::KvEngine;
use crate::engine::recovery::Recovery;
use crate::index::cache::PageName;
use crate::index::entry::Entry;
use crate::index::filter;
use crate::index::page;
use crate::index::page::FILTER;
use crate::index::run::Run;
use crate::store::PageStore;
use crate::value_log::record::Kind;
use crate::value_log::segment::Use;
use byway_spec::Key;

/// What a check of an engine knows so far.
struct Checker<'a, 'w, S> {
    engine: &'a mut KvEngine,
    store: &'a mut S,
    nsid: u32,
    watch: Watch<'w>,
    findings: Vec<Finding>,
    /// Bytes of records that entries point to, by segment.
    live: Vec<i64>,
    /// Entries seen, and there are by the manifest.
    seen: u64,
    total: u64,
    /// Pages of the tree that were read: one that is pointed to twice is damage, and must not be walked twice.
    read_pages: HashSet<u64>,
    /// Pages of filters that cannot be read: one serves many pages of keys, and is reported once.
    bad_filters: HashSet<u64>,
    /// Limit of record bytes to read: valid records do not overlap, but a forged image may claim it.
    record_bytes_left: u64,
    /// Every entry there is was read, so that live bytes can be compared.
    complete: bool,
}

/// What a walk over a run met.
#[derive(Default)]
struct Walked {
    entries: u64,
    tombstones: u64,
    last: Option<Key>,
}

/// Classes of segments by how much of them is alive: tenths.
pub const FILL_CLASSES: usize = 10;

impl KvEngine {
    /// Segments of the log by how much of them is alive: below a tenth, below two tenths, and so on.
    #[must_use]
    pub fn segments_by_fill(&self) -> [u32; FILL_CLASSES] {
        let mut counts = [0; FILL_CLASSES];
        let layout = self.log.layout();
        for segment in 0..layout.segments {
            if let Some(Use::Log { .. }) = self.log.segments().use_of(segment as u64) {
                let live = self.log.segments().alive_bytes(segment).max(0) as u64;
                let tenth = live * FILL_CLASSES as u64 / layout.segment_bytes();
                counts[(tenth as usize).min(FILL_CLASSES - 1)] += 1;
            }
        }
        counts
    }

    /// Checks everything an engine has: runs (fences, order, filters), the record of each entry with its checksums,
    /// live bytes of each segment, and what opening found damaged. Nothing is changed.
    pub fn check<S: PageStore>(
        &mut self,
        store: &mut S,
        nsid: u32,
        recovery: &Recovery,
        watch: Watch<'_>,
    ) -> Vec<Finding> {
        let runs: Vec<Run> = self.index.manifest().runs.clone();
        let layout = self.log.layout();
        let mut checker = Checker {
            nsid,
            watch: &mut *watch,
            findings: Vec::new(),
            live: vec![0; layout.segments],
            seen: 0,
            total: runs.iter().map(|run| run.entries).sum(),
            read_pages: HashSet::new(),
            bad_filters: HashSet::new(),
            record_bytes_left: 2 * layout.segments as u64 * layout.segment_bytes(),
            complete: true,
            engine: &mut *self,
            store: &mut *store,
        };
        checker.engine.index.settle_all(&mut checker.engine.log, checker.store, &mut 0);
        checker.log(recovery);
        checker.segments();
        checker.memtables();
        runs.iter().for_each(|run| checker.run(run));
        checker.live_bytes();
        let mut findings = checker.findings;
        if findings.iter().any(is_of_index) {
            findings.extend(self.foretell(store, nsid, watch));
        }
        findings
    }
}

impl<S: PageStore> Checker<'_, '_, S> {
    fn note(&mut self, structure: &'static str, place: String, what: impl Into<String>, remedy: Remedy) {
        let place = format!("of namespace {}, {place}", self.nsid);
        self.findings.push(Finding::new(structure, place, what, remedy));
    }

    fn log(&mut self, recovery: &Recovery) {
        for damage in &recovery.damage {
            let place = format!("stream {}, bytes {} to {}", damage.stream, damage.from, damage.to);
            let what =
                "it is neither record nor padding: keys stored there and nowhere later have lost that store";
            self.note("log", place, what, Remedy::Drop);
        }
        let bytes = self.engine.index.manifest().lost_log_bytes;
        if bytes > 0 {
            let what = format!(
                "{bytes} bytes could not be read at an earlier opening: keys stored there and nowhere later have lost \
                 that store"
            );
            self.note("log", "before what is replayed".to_owned(), what, Remedy::Drop);
        }
    }

    /// Whether each piece of the log has one segment. One that is missing shows in the log.
    fn segments(&mut self) {
        for segment in 0..self.engine.log.layout().segments as u64 {
            let Some(Use::Log { stream, ordinal }) = self.engine.log.segments().use_of(segment) else {
                continue;
            };
            if self.engine.log.segments().find(stream, ordinal) != Some(segment as u32) {
                let what = "another segment has the same piece of the log";
                self.note("segment table", format!("row {segment}"), what, Remedy::None);
            }
        }
    }

    fn memtables(&mut self) {
        for entry in self.engine.entries_in_memory() {
            if self.is_found(&entry) {
                self.count_live(&entry);
                self.record(&entry);
            }
        }
    }

    fn run(&mut self, run: &Run) {
        let mut walked = Walked::default();
        let whole = self.page(run, run.root, run.height, None, None, &mut walked);
        self.complete &= whole;
        if !whole {
            return;
        }
        if (walked.entries, walked.tombstones) != (run.entries, run.tombstones) {
            let what = format!(
                "it has {} entries, {} of them deletions; the manifest says {} and {}",
                walked.entries, walked.tombstones, run.entries, run.tombstones
            );
            self.note("index run", format!("run {}", run.id), what, Remedy::Restore);
        }
        if walked.last != Some(run.last) {
            let what = "its last key is not what the manifest says";
            self.note("index run", format!("run {}", run.id), what, Remedy::Restore);
        }
    }

    /// Checks a page and what is below it; whether all of it could be read.
    fn page(
        &mut self,
        run: &Run,
        number: u64,
        level: u8,
        fence: Option<Key>,
        filter: Option<u64>,
        walked: &mut Walked,
    ) -> bool {
        let Some(bytes) = self.read_page(run, number, level, fence) else { return false };
        // A merge may have taken over what the run began with.
        let is_first = |first: Key| fence.map_or(first <= run.first, |fence| first == fence);
        if !first_key(&bytes).is_some_and(is_first) {
            let what = "its first key is not what the page above it says";
            self.note("index page", format!("run {}, page {number}", run.id), what, Remedy::Restore);
            self.complete = false;
        }
        if level == 0 {
            self.filter(run, number, filter, &bytes);
            self.data(run, number, &bytes, walked);
            return true;
        }
        let mut whole = true;
        for i in 0..page::count_of(&bytes) {
            let Some(below) = page::entry_at(&bytes, i) else { continue };
            if page::is_taken_over(&bytes, i, &run.first) {
                continue;
            }
            let filter = (level == 1).then(|| below.seq());
            whole &= self.page(run, below.address(), level - 1, Some(below.key()), filter, walked);
        }
        whole
    }

    /// A page of a run, if it is readable and in a segment of its run.
    fn read_page(&mut self, run: &Run, number: u64, level: u8, from: Option<Key>) -> Option<Vec<u8>> {
        let per_segment = self.engine.log.layout().pages_per_segment();
        let name = PageName { page: number, run: run.id, level };
        let used = self.engine.log.segments().use_of(number / per_segment);
        let stands = matches!(used, Some(Use::Index { run: id, .. }) if id == run.id);
        let is_new = level == FILTER || self.read_pages.insert(number);
        let mut bytes = Vec::new();
        let read = match (stands, is_new) {
            (true, true) => {
                let copied = self.engine.index.copy_page(self.store, name, &mut bytes, &mut 0);
                copied.map_err(|error| error.to_string())
            }
            (false, _) => Err("it stands in a segment that is not its run's".to_owned()),
            (true, false) => Err("another page leads to it too".to_owned()),
        };
        match read {
            Ok(()) => Some(bytes),
            Err(why) => {
                let what = match from {
                    _ if level == FILTER => format!("{why}; it is the filter of keys in other pages"),
                    Some(key) => format!("{why}; not every key from {key} on can be looked up in it"),
                    None => format!("{why}; not every key of the run can be looked up"),
                };
                if level == FILTER {
                    self.bad_filters.insert(number);
                }
                self.note("index page", format!("run {}, page {number}", run.id), what, Remedy::Restore);
                None
            }
        }
    }

    fn filter(&mut self, run: &Run, number: u64, filter_ref: Option<u64>, data: &[u8]) {
        let Some(filter_ref) = filter_ref else { return };
        if self.bad_filters.contains(&(filter_ref >> 8)) {
            return;
        }
        let Some(bytes) = self.read_page(run, filter_ref >> 8, FILTER, None) else { return };
        let shape = self.engine.index.page_shape();
        let block = page::block_place((filter_ref & 0xff) as usize, &shape);
        let line = |at: usize| bytes.get(block + at..block + at + LINE_BYTES);
        let may_hold = |entry: &Entry| filter::may_hold(shape.filter_block_bytes, &entry.key(), line);
        let entries = (0..page::count_of(data)).filter_map(|i| page::entry_at(data, i));
        let missing = entries.filter(|entry| !may_hold(entry)).count();
        if missing > 0 {
            let what = format!("its filter denies {missing} of its keys");
            self.note("index page", format!("run {}, page {number}", run.id), what, Remedy::Restore);
        }
    }

    fn data(&mut self, run: &Run, number: u64, bytes: &[u8], walked: &mut Walked) {
        let mut disordered = false;
        for i in 0..page::count_of(bytes) {
            let Some(entry) = page::entry_at(bytes, i) else { continue };
            let key = entry.key();
            if key < run.first {
                // A merge has taken it over.
                continue;
            }
            disordered |= walked.last.is_some_and(|last| last >= key);
            walked.last = Some(key);
            walked.entries += 1;
            walked.tombstones += u64::from(entry.shape().is_tombstone());
            if self.is_found(&entry) {
                self.count_live(&entry);
                self.record(&entry);
            }
            self.seen += 1;
            if self.seen.is_multiple_of(4096) {
                (self.watch)("keys", self.seen, self.total);
            }
        }
        if disordered {
            let what = "its keys are not in order";
            self.note("index page", format!("run {}, page {number}", run.id), what, Remedy::Restore);
        }
    }

    /// Whether a get finds this entry. Where the index cannot say, it is looked at with what the log says.
    fn is_found(&mut self, entry: &Entry) -> bool {
        let is_found = self.engine.is_found(self.store, entry);
        self.complete &= is_found.is_some();
        is_found == Some(true)
    }

    fn count_live(&mut self, entry: &Entry) {
        if entry.shape().kind() != Kind::Value {
            return;
        }
        for (segment, bytes) in
            self.engine.log.segments().pieces(entry.address(), entry.shape().record_bytes())
        {
            if let Some(live) = self.live.get_mut(segment) {
                *live += bytes;
            }
        }
    }

    /// Reads the record of an entry: header, key, value, each by its checksum.
    fn record(&mut self, entry: &Entry) {
        if entry.shape().kind() != Kind::Value {
            return;
        }
        self.record_bytes_left = self.record_bytes_left.saturating_sub(entry.shape().record_bytes());
        if self.record_bytes_left == 0 {
            return;
        }
        let finding = self.engine.record_finding(self.store, self.nsid, entry);
        self.findings.extend(finding);
    }

    fn live_bytes(&mut self) {
        if self.record_bytes_left == 0 {
            self.note(
                "index",
                "its records".to_owned(),
                "they are more than the namespace holds",
                Remedy::Restore,
            );
        }
        if !self.complete {
            return;
        }
        for segment in 0..self.live.len() {
            let (kept, found) = (self.engine.log.segments().alive_bytes(segment), self.live[segment]);
            // An image that says that it may count too much still must not count too little.
            let is_right = kept == found || kept > found && self.engine.index.manifest().is_overcounted;
            if !is_right {
                let what = format!("{found} bytes of records are alive in it, {kept} are counted");
                self.note("live bytes", format!("segment {segment}"), what, Remedy::Restore);
            }
        }
    }
}

/// Whether a finding is such that the index is made anew.
pub(crate) fn is_of_index(finding: &Finding) -> bool {
    matches!(finding.structure, "index page" | "index run" | "live bytes")
}

fn first_key(bytes: &[u8]) -> Option<Key> {
    page::entry_at(bytes, 0).map(|entry| entry.key())
}
