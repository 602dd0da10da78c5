//! A real sync is under way without the lock, and others go on meanwhile.

use super::{File, parties};

/// A write that no record tells of, and a sync of it.
fn change_and_sync(file: &File) {
    let write = file.write_below();
    file.cursor().suspend();
    file.sync();
    file.acknowledge(write);
}

#[test]
fn a_change_that_no_record_tells_of_is_covered_by_no_sync_that_began_before() {
    parties(4, File::begin, [File::write_and_sync, change_and_sync]);
    parties(4, File::begin_logged, [File::write_and_sync, change_and_sync]);
}

#[test]
fn two_changes_are_covered_by_a_sync_behind_both_or_by_two() {
    parties(3, File::begin, [File::sync, change_and_sync, change_and_sync]);
}
