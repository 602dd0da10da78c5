//! Somebody goes past the lock, whose holder may stand still at any step.

use super::{File, parties};

/// A write without the lock.
fn change_past(file: &File) -> u64 {
    let passing = file.cursor().pass();
    let write = file.write_below();
    drop(passing);
    write
}

/// A sync without the lock.
fn sync_past(file: &File) {
    let absorber = file.absorber();
    let begun = absorber.begin_past();
    file.sync_below();
    absorber.synced_past(begun, Ok(()), || true).expect("a sync");
}

fn sync_and_write(file: &File) {
    file.sync();
    file.write_and_sync();
}

#[test]
fn a_record_that_somebody_stands_still_in_undoes_nothing_that_was_synced_past_him() {
    let change_and_sync_past = |file: &File| {
        let write = change_past(file);
        sync_past(file);
        file.acknowledge(write);
    };
    parties(4, File::begin_logged, [File::write_and_sync, change_and_sync_past]);
}

#[test]
fn who_syncs_past_the_lock_and_who_has_the_log_go_on_see_each_other() {
    parties(4, File::begin, [sync_and_write, sync_past]);
}

#[test]
fn a_log_goes_on_though_somebody_was_killed_in_the_midst_of_a_sync_past_the_lock() {
    let begin_past = |file: &File| {
        let _ = file.absorber().begin_past();
    };
    parties(4, File::begin, [sync_and_write, begin_past]);
}

#[test]
fn what_is_changed_past_the_lock_and_synced_under_it_is_kept() {
    let change_past_and_sync = |file: &File| {
        let write = change_past(file);
        file.sync();
        file.acknowledge(write);
    };
    parties(4, File::begin, [File::write_and_sync, change_past_and_sync]);
}

#[test]
fn what_somebody_changed_past_the_lock_who_was_killed_in_the_midst_of_that_is_kept_by_each_sync_behind() {
    let be_killed = |file: &File| {
        std::mem::forget(file.cursor().pass());
        let write = file.write_below();
        file.sync();
        file.acknowledge(write);
    };
    parties(4, File::begin, [File::write_and_sync, be_killed]);
}

#[test]
fn a_position_that_was_moved_past_the_lock_is_no_record_s() {
    let seek_past = |file: &File| {
        let passing = file.cursor().pass();
        file.below().position = 64;
        drop(passing);
    };
    parties(4, File::begin_logged, [File::write_and_sync, seek_past]);
}
