//! Samples of files from the shared file table.

use byway_tdm_engine::table::{Counted, Counters, Entry, Timed};
use byway_tdm_policy::{Call, Cap, Counts, Sample};

/// The current state of a file of `size_bytes` bytes.
pub(super) fn sample(entry: &Entry<'_>, size_bytes: u64, cap: Option<Cap>) -> Sample {
    let (counters, times) = (entry.counters(), entry.times());
    let get = |what| counters.get(what);
    let mut sample = Sample {
        counts: Counts {
            reads: get(Counted::Reads),
            read_bytes: get(Counted::ReadBytes),
            writes: get(Counted::Writes),
            written_bytes: get(Counted::WrittenBytes),
            syncs: get(Counted::Syncs),
        },
        size_bytes,
        cap,
        three_syncs_in_ns: three_syncs_in_ns(counters),
        ..Sample::default()
    };
    sample.lower[Call::Read] = times.get(Timed::LowerRead);
    sample.level[Call::Read] = times.get(Timed::LevelRead);
    sample.lower[Call::Write] = times.get(Timed::LowerWrite);
    sample.lower[Call::Sync] = times.get(Timed::LowerSync);
    sample.level[Call::Write] = times.get(Timed::LevelWrite);
    sample.level[Call::Sync] = times.get(Timed::LevelSync);
    sample
}

/// Time in which the last three syncs began, once there were three.
fn three_syncs_in_ns(counters: Counters<'_>) -> Option<u64> {
    let first = counters.get(Counted::ThirdLastSyncNs);
    (first != 0).then(|| counters.get(Counted::LastSyncNs).saturating_sub(first))
}
