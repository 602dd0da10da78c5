//! Real syncs in flight without the lock, beside other calls.

use super::{File, parties};

/// A change without a record, and a sync.
fn change_and_sync(file: &File) {
    let write = file.write_below();
    file.cursor().suspend();
    file.sync();
    file.acknowledge(write);
}

#[test]
fn unrecorded_change_is_not_covered_by_an_earlier_sync() {
    parties(4, File::begin, [File::write_and_sync, change_and_sync]);
    parties(4, File::begin_logged, [File::write_and_sync, change_and_sync]);
}

#[test]
fn concurrent_changes_are_covered_by_later_syncs() {
    parties(3, File::begin, [File::sync, change_and_sync, change_and_sync]);
}
