//! After a loss of real power: each stream ends before the first record that did not reach the medium.
//!
//! What a sync covered is there: in the ring, whose slots are used again only after a sync, or on flash. Behind it the
//! write pointer may cover records that are torn or gone. They are found by their checksums, and nothing of them is
//! left where a later record could be taken for them.

use byway_flash::{Cause, SyncPoint};

use crate::engine::recovery::Recovery;
use crate::error::KvError;
use crate::index::entry::Entry;
use crate::index::manifest::Manifest;
use crate::layout::LOSSES_AT;
use crate::sealed;
use crate::store::{Home, PageStore};
use crate::value_log::ValueLog;
use crate::value_log::batch::BatchPart;
use crate::value_log::read::Wanted;
use crate::value_log::record::{Kind, Preamble};
use crate::value_log::scan::{Found, Scanner, is_of_host};

/// Whether the device lost power since the engine last dealt with that.
pub(crate) fn is_to_be_dealt_with<S: PageStore>(store: &mut S, home: &Home) -> bool {
    sealed::read(store.state(home), LOSSES_AT) != Some(store.power_losses())
}

/// Notes that every loss of power so far is dealt with. What was done for that is on the medium first: records that were cut
/// off must not come back behind others that take the place of the first.
pub(crate) fn note_dealt_with<S: PageStore>(store: &mut S, home: &Home) -> Result<(), KvError> {
    store.order(SyncPoint::TailCut)?;
    let losses = sealed::seal(store.power_losses(), LOSSES_AT);
    store.commit_u64(home, LOSSES_AT, losses);
    Ok(())
}

/// Truncates every stream to the records that survived.
pub(crate) fn cut_tails<S: PageStore>(
    store: &mut S,
    log: &mut ValueLog,
    manifest: &Manifest,
    recovery: &mut Recovery,
) -> Result<(), KvError> {
    for stream in 0..log.stream_count() {
        log.distrust_programs(store, stream);
        let (from, wp) = (manifest.replay_from[stream].position, log.stream(stream).wp());
        // The pointer may have become durable without its segment's table entry.
        let whole_to = whole_to(store, log, stream, from, wp)?;
        let end = log.taken_before(stream, whole_to).max(from);
        recovery.torn_bytes += wp - end;
        log.cut_back(store, stream, end)?;
        drop_torn_regions(store, log, stream)?;
        log.clear_behind(store, stream);
    }
    if !store.is_read_only() {
        log.trim_free(store)?;
    }
    Ok(())
}

/// The end of the last record before which everything is whole, or damage that a sync had covered. A page that the host
/// cannot read now ends it: to go on would be to lose its records for good.
fn whole_to<S: PageStore>(
    store: &mut S,
    log: &mut ValueLog,
    stream: usize,
    from: u64,
    wp: u64,
) -> Result<u64, KvError> {
    let mut scanner = Scanner::new(log, stream, from, wp);
    let torn = first_torn(store, log, stream, &mut scanner)?;
    scanner.refusal().map_or(Ok(torn.unwrap_or(wp)), Err)
}

/// Positions of a batch whose records so far are whole, in bytes of its stream.
struct OpenBatch {
    /// Of its header.
    start: u64,
    /// Where its next record begins.
    next: u64,
    end: u64,
}

impl OpenBatch {
    /// The batch that begins with the part at a position.
    fn begun_by(part: BatchPart, preamble: &Preamble, position: u64) -> Option<Self> {
        let BatchPart::Header { bytes } = part else { return None };
        let next = position + preamble.shape.record_bytes();
        Some(Self { start: position, next, end: next + bytes })
    }

    /// The batch with the record at its next position, or `None` if that was its last.
    fn with(self, preamble: &Preamble) -> Option<Self> {
        let next = self.next + preamble.shape.record_bytes();
        (next < self.end).then_some(Self { next, ..self })
    }
}

/// Where to cut a stream: the position of the first torn record that no sync had covered, or of the header of its batch.
fn first_torn<S: PageStore>(
    store: &mut S,
    log: &mut ValueLog,
    stream: usize,
    scanner: &mut Scanner,
) -> Result<Option<u64>, KvError> {
    let synced_to = log.stream(stream).synced_to();
    let mut batch: Option<OpenBatch> = None;
    while let Some(found) = scanner.next(log, store, &mut 0) {
        match found {
            Found::Damage { from, .. } if from >= synced_to => {
                return Ok(Some(batch.map_or(from, |batch| batch.start)));
            }
            Found::Damage { .. } | Found::Nothing => {}
            Found::Record { preamble, position } => {
                if let Some(batch) = batch.as_ref().filter(|batch| position != batch.next) {
                    // A lost sector may read as padding: a gap in a batch is a lost record.
                    return Ok(Some(batch.start));
                }
                let is_new = position + preamble.shape.record_bytes() > synced_to;
                if is_new && !is_whole(store, log, stream, &preamble, position)? {
                    return Ok(Some(batch.map_or(position, |batch| batch.start)));
                }
                let part = BatchPart::of(&preamble).filter(|_| is_new);
                batch = match (batch, part) {
                    (Some(batch), _) => batch.with(&preamble),
                    // The header was lost, and read as padding.
                    (None, Some(BatchPart::Link { distance })) => return Ok(position.checked_sub(distance)),
                    (None, part) => part.and_then(|part| OpenBatch::begun_by(part, &preamble, position)),
                };
            }
        }
    }
    // The log ends inside a batch.
    Ok(batch.map(|batch| batch.start))
}

fn is_whole<S: PageStore>(
    store: &mut S,
    log: &mut ValueLog,
    stream: usize,
    preamble: &Preamble,
    position: u64,
) -> Result<bool, KvError> {
    let Some(address) = log.address(stream, position) else { return Ok(false) };
    if preamble.shape.kind() != Kind::Value || preamble.shape.value_len() == 0 {
        return Ok(true);
    }
    let entry = Entry::new(&preamble.key, preamble.shape, address, preamble.seq);
    let wanted = Wanted::part(0, u64::from(preamble.shape.value_len()));
    let mut nowhere = |_: &[u8], _: &mut u64| Ok::<(), KvError>(());
    match log.read_value(store, &entry, wanted, Cause::Metadata, &mut nowhere, &mut 0) {
        Err(error) if is_of_host(&error) => Err(error),
        read => Ok(read.is_ok()),
    }
}

fn drop_torn_regions<S: PageStore>(store: &mut S, log: &mut ValueLog, stream: usize) -> Result<(), KvError> {
    let regions: Vec<_> = log.stream(stream).regions().iter().copied().collect();
    for region in regions {
        let whole = match log.region_record(store, stream, region.start, region.end, &mut 0)? {
            Found::Record { preamble, position } => is_whole(store, log, stream, &preamble, position)?,
            Found::Damage { .. } | Found::Nothing => false,
        };
        if !whole {
            log.drop_region(store, stream, region);
        }
    }
    Ok(())
}
