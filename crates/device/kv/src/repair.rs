//! An engine's state set right before it is opened, as far as a bit was flipped or there is a second copy.

use byway_flash::{Finding, Hit, NamespaceRecord, Remedy};

use crate::index::manifest;
use crate::index::manifest::Manifest;
use crate::layout::{HEADER_BYTES, HEADER_USED_BYTES, KvFormat, Layout, ROOT_AT};
use crate::sealed;
use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::packing::Packing;
use crate::value_log::region::TABLE_ROWS;
use crate::value_log::scan::{Found, Scanner};
use crate::value_log::stream::{PROGRAMMED_AT, SYNCED_AT, TABLE_AT, TAGS_AT};

/// Whether an engine was made in a namespace: its owner marked the record, or its state begins with something.
pub fn was_made<S: PageStore>(store: &mut S, namespace: &NamespaceRecord) -> bool {
    if namespace.owner_state[0] != 0 {
        return true;
    }
    let home = store.find_home(namespace);
    home.is_some_and(|home| store.state(&home).iter().take(HEADER_START_BYTES).any(|byte| *byte != 0))
}

/// Bytes at the start of a state that are not all zero once it has a header.
const HEADER_START_BYTES: usize = 8;

/// Sets right what of an engine's state can be, in the store, and says what that was and what could not be.
///
/// Each step is one small change that makes a structure valid, so it may end after any of them.
pub fn repair_state<S: PageStore>(store: &mut S, namespace: &NamespaceRecord) -> Vec<Finding> {
    let page_bytes = store.page_bytes();
    let Some(home) = store.find_home(namespace) else {
        let what = "its state area is not there";
        let hit = Hit::Namespace { nsid: namespace.nsid };
        return vec![Finding::new("key-value state", "", what, Remedy::None).hitting(hit)];
    };
    let mut repair = StateRepair { nsid: namespace.nsid, state: store.state(&home), findings: Vec::new() };
    let Some(layout) = repair.header(page_bytes, namespace.size_bytes) else {
        return repair.findings;
    };
    repair.streams(&layout);
    repair.segments(&layout);
    repair.manifests(&layout);
    repair.findings
}

/// Sets flipped bits right in what of a log is not on flash yet, in the store, and says where. For a state that
/// [was repaired](repair_state).
pub fn repair_log<S: PageStore>(store: &mut S, namespace: &NamespaceRecord) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(home) = store.find_home(namespace) else { return findings };
    let Ok(layout) = Layout::read_header(store.state(&home)) else { return findings };
    if layout.page_bytes != store.page_bytes() {
        return findings;
    }
    let Ok(mut log) = ValueLog::open(store, &home, &layout, Packing::default()) else { return findings };
    let Ok(manifest) = Manifest::load(store.state(&home), &layout, log.segments_mut()) else {
        return findings;
    };
    for stream in 0..log.stream_count() {
        let from = manifest.replay_from.get(stream).map_or(u64::MAX, |from| from.position);
        for position in repair_stream(store, &mut log, stream, from) {
            let place = format!("of namespace {}, stream {stream}, byte {position}", namespace.nsid);
            findings.push(Finding::new("log", place, "a bit of it was flipped", Remedy::Restore));
        }
    }
    findings
}

/// Repairs what an opening would read of a stream; says where.
fn repair_stream<S: PageStore>(store: &mut S, log: &mut ValueLog, stream: usize, from: u64) -> Vec<u64> {
    let mut repaired = Vec::new();
    let wp = log.stream(stream).wp();
    let mut scanner = Scanner::new(log, stream, from.min(wp), wp);
    while let Some(found) = scanner.next(log, store, &mut 0) {
        let Found::Damage { from, to } = found else { continue };
        if log.repair_record(store, stream, from) || log.repair_padding(store, stream, from, to) {
            repaired.push(from);
            scanner = Scanner::new(log, stream, from, wp);
        }
    }
    let regions: Vec<_> = log.stream(stream).regions().iter().copied().collect();
    for region in regions {
        let found = log.region_record(store, stream, region.start, region.end, &mut 0);
        if matches!(found, Ok(Found::Damage { .. })) && log.repair_record(store, stream, region.start) {
            repaired.push(region.start);
        }
    }
    repaired
}

struct StateRepair<'a> {
    nsid: u32,
    state: &'a mut [u8],
    findings: Vec<Finding>,
}

impl StateRepair<'_> {
    fn note(&mut self, structure: &'static str, place: String, what: &str, remedy: Remedy) {
        let place = match place.as_str() {
            "" => format!("of namespace {}", self.nsid),
            _ => format!("of namespace {}, {place}", self.nsid),
        };
        let finding = Finding::new(structure, place, what, remedy);
        let lost = remedy == Remedy::None;
        let hit = Hit::Namespace { nsid: self.nsid };
        self.findings.push(if lost { finding.hitting(hit) } else { finding });
    }

    /// The layout, from a header that is sound, off by a bit, or that of the format every namespace is made with.
    fn header(&mut self, page_bytes: usize, extent_bytes: u64) -> Option<Layout> {
        if let Ok(layout) = Layout::read_header(self.state) {
            return Some(layout);
        }
        if self.repair_header_bit() {
            self.note("key-value header", String::new(), "a bit of it was flipped", Remedy::Restore);
            return Layout::read_header(self.state).ok();
        }
        let usual = Layout::plan(page_bytes, extent_bytes, &KvFormat::default()).ok();
        let fits = |layout: &Layout| {
            let state = &*self.state;
            layout.state_bytes() == state.len()
                && sealed::read(state, layout.stream_block_at(0)).is_some_and(|wp| wp > 0)
        };
        if let Some(layout) = usual.filter(fits) {
            layout.write_header(self.state);
            let what = "it does not match its checksum; made anew for the usual format";
            self.note("key-value header", String::new(), what, Remedy::Restore);
            return Some(layout);
        }
        self.note("key-value header", String::new(), "it does not match its checksum", Remedy::None);
        None
    }

    /// The bit is looked for in a copy: should this end on the way, the header is as it was.
    fn repair_header_bit(&mut self) -> bool {
        let Some(mut trial) = self.state.get(..HEADER_BYTES).map(<[u8]>::to_vec) else { return false };
        let flipped = (0..(HEADER_USED_BYTES + 4) * 8).find(|bit| {
            trial[bit / 8] ^= 1 << (bit % 8);
            let is_whole = Layout::read_header_of(&trial, self.state.len()).is_ok();
            trial[bit / 8] ^= 1 << (bit % 8);
            is_whole
        });
        let Some(bit) = flipped else { return false };
        self.state[bit / 8] ^= 1 << (bit % 8);
        true
    }

    fn word(&mut self, structure: &'static str, place: impl Fn() -> String, at: usize) {
        if sealed::repair(self.state, at) {
            self.note(structure, place(), "a bit of it was flipped", Remedy::Restore);
        } else if sealed::read(self.state, at).is_none() {
            self.note(structure, place(), "it does not match its checksum", Remedy::None);
        }
    }

    fn streams(&mut self, layout: &Layout) {
        for stream in 0..layout.streams() {
            let at = layout.stream_block_at(stream);
            self.word("write pointer", || format!("stream {stream}"), at);
            self.word("mark of programmed pages", || format!("stream {stream}"), at + PROGRAMMED_AT);
            self.word("mark of synced bytes", || format!("stream {stream}"), at + SYNCED_AT);
            for row in 0..TABLE_ROWS {
                let place = || format!("stream {stream}, row {row}");
                self.word("DMA log table", place, at + TABLE_AT + 8 * row);
            }
            let slots = layout.ring_bytes.max(layout.window_bytes) / layout.page_bytes;
            for slot in 0..slots {
                self.word("page tag", || format!("stream {stream}, slot {slot}"), at + TAGS_AT + 8 * slot);
            }
        }
    }

    fn segments(&mut self, layout: &Layout) {
        for segment in 0..layout.segments {
            self.word("segment table", || format!("row {segment}"), layout.segment_row_at(segment));
        }
    }

    /// The root word and the manifest it selects. Where the word is gone, the newest manifest that is whole counts.
    fn manifests(&mut self, layout: &Layout) {
        for slot in 0..2 {
            let range = layout.manifest_at(slot)..layout.manifest_at(slot) + layout.manifest_bytes();
            let Some(bytes) = self.state.get_mut(range) else { continue };
            if manifest::repair(bytes, layout) {
                self.note("manifest", format!("slot {slot}"), "a bit of it was flipped", Remedy::Restore);
            }
        }
        if sealed::repair(self.state, ROOT_AT) {
            self.note("root word", String::new(), "a bit of it was flipped", Remedy::Restore);
        }
        if sealed::read(self.state, ROOT_AT).is_some() {
            return;
        }
        let generation = |slot| manifest::generation(self.state, layout, slot);
        match [generation(0), generation(1)].into_iter().flatten().max() {
            Some(newest) => {
                self.state[ROOT_AT..ROOT_AT + 8]
                    .copy_from_slice(&sealed::seal(newest, ROOT_AT).to_le_bytes());
                self.note(
                    "root word",
                    String::new(),
                    "it does not match its checksum; the newest manifest counts",
                    Remedy::Restore,
                );
            }
            None => self.note(
                "root word",
                String::new(),
                "neither it nor a manifest matches its checksum",
                Remedy::None,
            ),
        }
    }
}
