//! A file goes from one level to another while it is written and synced.

use super::file::File;
use super::parties;
use crate::table::level::Why;

#[test]
fn a_write_at_pass_that_a_log_overtook_is_acknowledged_by_a_real_sync_that_covers_it() {
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
fn a_write_at_pass_that_a_log_and_another_s_sync_overtook_is_acknowledged_by_a_real_sync() {
    let absorb = |file: &File| {
        file.absorb(1);
    };
    parties(3, File::begin, [File::write_and_sync, absorb, File::sync], File::check);
}

#[test]
fn what_is_written_and_synced_while_a_file_is_let_go_is_kept() {
    parties(4, File::begin_absorbed, [File::write_and_sync, File::let_go], File::check);
}

#[test]
fn what_is_written_and_synced_while_a_file_gets_another_log_is_kept() {
    let absorb_anew = |file: &File| {
        file.let_go();
        file.absorb(2);
        file.sync();
    };
    parties(3, File::begin_absorbed, [File::write_and_sync, absorb_anew], File::check);
}

#[test]
fn who_syncs_past_the_lock_ends_no_log_that_the_file_got_meanwhile() {
    let absorb_anew = |file: &File| {
        file.let_go();
        file.absorb(2);
        file.sync();
        file.write_and_sync();
    };
    parties(3, File::begin_absorbed, [File::sync_past, absorb_anew], File::check);
}

#[test]
fn what_is_written_unseen_behind_a_bar_is_kept_by_whoever_syncs_it() {
    let bar_and_write = |file: &File| {
        file.served().bar(Why::Mapped);
        let write = file.write_below();
        file.sync();
        file.acknowledge(write);
    };
    parties(3, File::begin_absorbed, [File::write_and_sync, bar_and_write], File::check);
}
