//! Bypassing threads, while the lock's holder is stopped at any step.

use super::{File, parties};

/// A bypassing change.
fn change_in_bypass(file: &File) -> u64 {
    let passing = file.cursor().bypass();
    let write = file.write_below();
    drop(passing);
    write
}

/// A bypassing sync.
fn sync_in_bypass(file: &File) {
    let absorber = file.absorber();
    let begun = absorber.begin_bypass();
    file.sync_below();
    absorber.synced_in_bypass(begun, Ok(()), || true).expect("a sync");
}

fn sync_and_write(file: &File) {
    file.sync();
    file.write_and_sync();
}

#[test]
fn record_of_a_stopped_holder_undoes_no_bypassing_sync() {
    let change_and_sync_past = |file: &File| {
        let write = change_in_bypass(file);
        sync_in_bypass(file);
        file.acknowledge(write);
    };
    parties(4, File::begin_logged, [File::write_and_sync, change_and_sync_past]);
}

#[test]
fn bypassing_sync_and_log_resume_see_each_other() {
    parties(4, File::begin, [sync_and_write, sync_in_bypass]);
}

#[test]
fn log_resumes_after_a_kill_in_a_bypassing_sync() {
    let begin_bypass = |file: &File| {
        let _ = file.absorber().begin_bypass();
    };
    parties(4, File::begin, [sync_and_write, begin_bypass]);
}

#[test]
fn bypassing_change_is_durable_after_a_locked_sync() {
    let change_past_and_sync = |file: &File| {
        let write = change_in_bypass(file);
        file.sync();
        file.acknowledge(write);
    };
    parties(4, File::begin, [File::write_and_sync, change_past_and_sync]);
}

#[test]
fn bypassing_change_of_a_killed_thread_is_kept_by_later_syncs() {
    let be_killed = |file: &File| {
        std::mem::forget(file.cursor().bypass());
        let write = file.write_below();
        file.sync();
        file.acknowledge(write);
    };
    parties(4, File::begin, [File::write_and_sync, be_killed]);
}

#[test]
fn position_moved_by_a_bypass_is_in_no_record() {
    let seek_past = |file: &File| {
        let passing = file.cursor().bypass();
        file.below().position = 64;
        drop(passing);
    };
    parties(4, File::begin_logged, [File::write_and_sync, seek_past]);
}
