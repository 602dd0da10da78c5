//! Level changes while a file is written and synced.

use byway_tdm_policy::Reason;

use super::file::File;
use super::parties;

#[test]
fn pass_write_overtaken_by_a_log_needs_a_real_sync() {
    let absorb_and_sync = |file: &File| {
        file.absorb(1);
        file.sync();
    };
    parties(3, File::begin, [File::write_and_sync, absorb_and_sync], File::check);
    let absorb_and_write = |file: &File| {
        file.absorb(1);
        file.sync();
        file.write_and_sync();
    };
    parties(3, File::begin, [File::write_and_sync, absorb_and_write], File::check);
}

#[test]
fn pass_write_overtaken_by_a_log_and_a_sync_needs_a_real_sync() {
    let absorb = |file: &File| {
        file.absorb(1);
    };
    parties(3, File::begin, [File::write_and_sync, absorb, File::sync], File::check);
}

#[test]
fn write_synced_during_a_release_is_durable() {
    parties(4, File::begin_absorbed, [File::write_and_sync, File::release], File::check);
}

#[test]
fn write_synced_during_a_change_of_logs_is_durable() {
    let absorb_anew = |file: &File| {
        file.release();
        file.absorb(2);
        file.sync();
    };
    parties(3, File::begin_absorbed, [File::write_and_sync, absorb_anew], File::check);
}

#[test]
fn bypassing_sync_does_not_end_a_newer_log() {
    let absorb_anew = |file: &File| {
        file.release();
        file.absorb(2);
        file.sync();
        file.write_and_sync();
    };
    parties(3, File::begin_absorbed, [File::sync_in_bypass, absorb_anew], File::check);
}

#[test]
fn unrecorded_write_after_a_bar_is_durable_after_any_sync() {
    let bar_and_write = |file: &File| {
        file.served().bar(Reason::Mapped);
        let write = file.write_below();
        file.sync();
        file.acknowledge(write);
    };
    parties(3, File::begin_absorbed, [File::write_and_sync, bar_and_write], File::check);
}
