//! Opening: what the last process left is made whole, and the log since the last checkpoint is replayed.
//!
//! The work is bounded by the memtable (entries) and by [`KvOptions::replay_bytes`], never by the size of the image.

use std::sync::Arc;

use byway_flash::{FlashError, NamespaceRecord};
use tracing::{debug, warn};

use crate::damage::Damage;
use crate::engine::KvEngine;
use crate::engine::compaction::Compaction;
use crate::engine::follow::{self, FollowCounters};
use crate::engine::lease::Leases;
use crate::engine::next_seq::NextSeq;
use crate::engine::power_loss;
use crate::engine::unsaved::Unsaved;
use crate::engine::work::Longest;
use crate::error::KvError;
use crate::index::Index;
use crate::index::entry::Entry;
use crate::index::manifest::Manifest;
use crate::index::short_values::Value;
use crate::layout::Layout;
use crate::lookup_hints::LookupHints;
use crate::options::KvOptions;
use crate::reserve::{INDEX_BYTES_PER_KEY, Reserve};
use crate::store::{Home, PageStore};
use crate::value_log::ValueLog;
use crate::value_log::record::Kind;
use crate::value_log::scan::{Found, Scanner};
use crate::value_log::segment::Use;

/// What opening found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records read from the log into the memtable.
    pub records: u64,
    /// Bytes of those records.
    pub record_bytes: u64,
    /// Full pages that had not reached flash yet.
    pub pages_written: u64,
    /// Bytes at the ends of streams that a loss of power took: no sync had covered them.
    pub torn_bytes: u64,
    /// Segments taken for records that were never committed.
    pub segments_freed: u64,
    /// Stretches of the log that could not be read. Keys stored there, and nowhere later, have lost that store.
    pub damage: Vec<Damage>,
}

/// What an opening read again of the log, as part of [`KvStats`](crate::KvStats): what its time went to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// As [`Recovery::records`].
    pub records: u64,
    /// As [`Recovery::record_bytes`].
    pub record_bytes: u64,
    /// As [`Recovery::torn_bytes`].
    pub torn_bytes: u64,
}

impl Recovery {
    fn replay(&self) -> Replay {
        Replay { records: self.records, record_bytes: self.record_bytes, torn_bytes: self.torn_bytes }
    }

    fn log(&self, nsid: u32) {
        let Self { records, record_bytes, pages_written, torn_bytes, segments_freed, .. } = self;
        debug!(nsid, records, record_bytes, pages_written, torn_bytes, segments_freed, "log replayed");
        for Damage { stream, from, to, .. } in &self.damage {
            warn!(nsid, stream, from, to, "damaged stretch of the log: stores in it are lost");
        }
    }
}

/// Opens an engine; see [`KvEngine::open`].
pub(crate) fn open<S: PageStore>(
    store: &mut S,
    namespace: &NamespaceRecord,
    options: KvOptions,
) -> Result<(KvEngine, Recovery), KvError> {
    let home = store.find_home(namespace).ok_or(KvError::DamagedState("the namespace has no engine"))?;
    if store.is_following() {
        return follow::open(store, &home, namespace, options);
    }
    let opened = open_at(store, &home, namespace.size_bytes, options)?;
    opened.1.log(namespace.nsid);
    Ok(opened)
}

/// The same of an engine in this place, of a namespace of `size_bytes`.
pub(super) fn open_at<S: PageStore>(
    store: &mut S,
    home: &Home,
    size_bytes: u64,
    options: KvOptions,
) -> Result<(KvEngine, Recovery), KvError> {
    let layout = Layout::read_header(store.state(home))?;
    if layout.page_bytes != store.page_bytes() {
        return Err(KvError::DamagedState("the flash has pages of another size"));
    }
    let (mut log, manifest) = load(store, home, &layout, &options)?;
    let mut recovery = Recovery::default();
    let read_only = store.is_read_only();
    settle_log(store, &mut log, &manifest, &mut recovery)?;
    let mut index = Index::new(manifest, home, &layout, options.budget());
    if index.manifest().is_overcounted && !read_only {
        index.recount(&mut log, store);
    }
    let seq = replay(store, &mut log, &mut index, &mut recovery)?;
    recovery.damage.iter().for_each(|damage| index.note_lost(damage.to - damage.from));
    index.after_change(&mut log);
    let mut engine = KvEngine {
        compaction: Compaction::default(),
        capacity_bytes: crate::reserve::capacity(&layout, size_bytes),
        size_bytes,
        reserve: Reserve::of(&layout),
        value_max_bytes: layout.value_max_bytes(),
        windows: (0..layout.windows).map(|_| None).collect(),
        leases: Leases::new(layout.windows),
        next_seq: Arc::new(NextSeq::after(seq)),
        unsaved: Unsaved::replayed(recovery.record_bytes + recovery.records * INDEX_BYTES_PER_KEY),
        replay: recovery.replay(),
        log,
        index,
        options,
        read_only,
        follow: FollowCounters::default(),
        is_half_way: false,
        lookup_hints: LookupHints::default(),
        longest: Longest::default(),
        upkeep_failed_at_bytes: None,
        upkeep_ran: false,
    };
    engine.note_leases(store, false);
    engine.unsaved.set_flush_at(engine.flush_due_bytes());
    engine.refresh_marks();
    Ok((engine, recovery))
}

/// Reads log and manifest, which have to agree.
fn load<S: PageStore>(
    store: &mut S,
    home: &Home,
    layout: &Layout,
    options: &KvOptions,
) -> Result<(ValueLog, Manifest), KvError> {
    let mut log = ValueLog::open(store, home, layout, options.packing)?;
    log.segments_mut().limit_notes(options.notes_bytes());
    let manifest = Manifest::load(store.state(home), layout, log.segments_mut())?;
    if manifest.replay_from.iter().zip(log.streams()).any(|(from, stream)| from.position > stream.wp()) {
        return Err(KvError::DamagedState("a write pointer is behind its checkpoint"));
    }
    manifest.check_replay(&log)?;
    Ok((log, manifest))
}

/// Sets right what a kill or a loss of power left of the log.
fn settle_log<S: PageStore>(
    store: &mut S,
    log: &mut ValueLog,
    manifest: &Manifest,
    recovery: &mut Recovery,
) -> Result<(), KvError> {
    let lost_power = power_loss::is_to_be_dealt_with(store, log.home());
    if lost_power && store.is_following() {
        // The writer is about to.
        return Err(FlashError::Overtaken.into());
    }
    if lost_power {
        power_loss::cut_tails(store, log, manifest, recovery)?;
    } else {
        log.drop_programmed();
    }
    if store.is_read_only() {
        return Ok(());
    }
    repair(store, log, recovery);
    if lost_power || recovery.segments_freed > 0 {
        power_loss::note_dealt_with(store, log.home())?;
    }
    Ok(())
}

/// Frees what was taken but not committed, and writes full pages to flash.
fn repair<S: PageStore>(store: &mut S, log: &mut ValueLog, recovery: &mut Recovery) {
    for stream in 0..log.stream_count() {
        let s = log.stream(stream);
        s.rewrite_block(store, log.home());
        let (id, last) = (s.id(), s.tail().saturating_sub(1) >> log.layout().segment_shift);
        let unused = log.segments().matching(
            |_, used| matches!(used, Use::Log { stream, ordinal } if stream == id && ordinal > last),
        );
        // The stream takes the same ordinals again: it must not remember where they were.
        log.forget_place(stream);
        for segment in unused {
            // One that stays is taken again when the stream gets there.
            recovery.segments_freed += u64::from(log.release(store, segment).is_ok());
        }
        let before = log.stream(stream).open_full_pages();
        // Pages that cannot be written stay in their ring, and are read from there.
        let _ = log.settle(store, stream, &mut 0);
        recovery.pages_written += before - log.stream(stream).open_full_pages();
    }
}

/// Enters every record since the checkpoint in the index; the highest sequence number there is. Of a page that the medium
/// lost, the records are named as damage. One that the host cannot read now ends it: it may have them the next time, and to
/// go on would be to lose them for good.
fn replay<S: PageStore>(
    store: &mut S,
    log: &mut ValueLog,
    index: &mut Index,
    recovery: &mut Recovery,
) -> Result<u64, KvError> {
    let mut seq = index.manifest().seq;
    for stream in 0..log.stream_count() {
        let from = index.manifest().replay_from[stream].position;
        let mut scanner = Scanner::new(log, stream, from, log.stream(stream).wp());
        while let Some(found) = scanner.next(log, store, &mut 0) {
            seq = seq.max(take(found, stream, log, index, recovery));
        }
        scanner.refusal().map_or(Ok(()), Err)?;
        seq = seq.max(replay_regions(store, log, index, stream, recovery)?);
    }
    Ok(seq)
}

/// Enters the records of a stream that lie ahead of its write pointer; the highest sequence number there is.
pub(super) fn replay_regions<S: PageStore>(
    store: &mut S,
    log: &mut ValueLog,
    index: &mut Index,
    stream: usize,
    recovery: &mut Recovery,
) -> Result<u64, KvError> {
    let mut seq = 0;
    let regions: Vec<_> = log.stream(stream).regions().iter().copied().collect();
    for region in regions {
        let found = log.region_record(store, stream, region.start, region.end, &mut 0)?;
        seq = seq.max(take(found, stream, log, index, recovery));
    }
    Ok(seq)
}

/// Enters what the scan found; its sequence number, 0 for damage.
pub(super) fn take(
    found: Found,
    stream: usize,
    log: &mut ValueLog,
    index: &mut Index,
    recovery: &mut Recovery,
) -> u64 {
    let (preamble, position) = match found {
        Found::Record { preamble, position } => (preamble, position),
        Found::Damage { from, to } => {
            let address = log.address(stream, from).unwrap_or_default();
            recovery.damage.push(Damage { stream: stream as u8, from, to, address });
            return 0;
        }
        Found::Nothing => return 0,
    };
    // A record that was ahead of the write pointer at the checkpoint is in a run already.
    let is_new = preamble.seq > index.manifest().seq;
    if is_new
        && preamble.shape.kind() != Kind::Void
        && let Some(address) = log.address(stream, position)
    {
        let entry = Entry::new(&preamble.key, preamble.shape, address, preamble.seq);
        index.insert(entry, Value::Unknown, log);
        recovery.records += 1;
        recovery.record_bytes += preamble.shape.record_bytes();
    }
    preamble.seq
}
