//! Programs that no library can be loaded into are served in a mount, beside those under the library on the folder below.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;

use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::Order;
use byway_tdm_engine::table::{Counted, FileKey, Level, Reason};
use byway_tdm_tests::{ATTRIBUTE_CHANGES, Actor, Mount, Place, assert_survives};

use crate::{DAEMON, await_listed, mount, place};

/// A static program in the mount with `log` open as `a`, and absorbed.
fn writer(place: &Place, session: &Session, mount: &Mount) -> Actor {
    let mut actor = mount.actor();
    actor.does("open a log wcae; write a 100 1; fdatasync a");
    place.absorb(session, &mut actor, 'a', "log");
    actor
}

fn counted(place: &Place, session: &Session, what: Counted) -> u64 {
    session.file_table().find(place.key("log")).unwrap().counters().get(what)
}

#[test]
fn static_program_saves_syncs_and_keeps_acknowledged_bytes() {
    let Some(place) = place("static_program_saves_syncs_and_keeps_acknowledged_bytes") else {
        return;
    };
    let daemon = place.start_daemon(DAEMON);
    let mount = mount(&place);
    let session = place.session();
    let mut actor = writer(&place, &session, &mount);
    let before = counted(&place, &session, Counted::SavedSyncs);
    for seed in 0..50 {
        actor.does(&format!("write a 200 {seed}; sys_fdatasync a"));
        assert_survives(&place, &session, &place.file("log"));
    }
    assert!(counted(&place, &session, Counted::SavedSyncs) >= before + 40);
    assert_eq!(fs::read(mount.file("log")).unwrap(), fs::read(place.file("log")).unwrap());
    drop(actor);
    mount.end();
    assert_eq!(place.level_state(&session, "log").unwrap().level, Level::Pass);
    daemon.end();
}

#[test]
fn every_way_to_write_that_only_a_mount_sees_is_covered_by_the_log() {
    let Some(place) = place("every_way_to_write_that_only_a_mount_sees_is_covered_by_the_log") else {
        return;
    };
    let _daemon = place.start_daemon(DAEMON);
    let mount = mount(&place);
    let session = place.session();
    let mut actor = writer(&place, &session, &mount);
    actor.does("open b log +e; ftruncate b 40000");
    for line in [
        "ring_write b 300 1 500",
        "mapped b 300 2 9000",
        "sys_pwrite b 300 3 700",
        "write a 300 4",
        "dprintf a 30 5",
        "pwritev b 900 6 100",
        "pwritev2 b 90 7 100 2",
        "ftruncate b 20000",
        "fallocate b 0 0 50000",
        "fallocate b 3 100 200",
        "splice b 200 8",
        "copy_file_range b b 100 30000",
    ] {
        actor.does(line);
        actor.does("fdatasync b");
        assert_survives(&place, &session, &place.file("log"));
    }
    let level_state = place.level_state(&session, "log").unwrap();
    assert_eq!((level_state.level, level_state.is_barred), (Level::Absorb, false));
}

#[test]
fn writes_that_sync_by_themselves_are_absorbed_too() {
    let Some(place) = place("writes_that_sync_by_themselves_are_absorbed_too") else { return };
    let _daemon = place.start_daemon(DAEMON);
    let mount = mount(&place);
    let session = place.session();
    let mut actor = writer(&place, &session, &mount);
    actor.does("open b log way; open c log +se");
    for seed in 0..20 {
        actor.does(&format!("write b 50 {seed}; pwrite c 50 {seed} 10"));
        assert_survives(&place, &session, &place.file("log"));
    }
    assert_eq!(place.level_state(&session, "log").unwrap().level, Level::Absorb);
}

#[test]
fn attribute_changes_in_a_mount_are_kept_by_fsync() {
    let Some(place) = place("attribute_changes_in_a_mount_are_kept_by_fsync") else {
        return;
    };
    let _daemon = place.start_daemon(DAEMON);
    let mount = mount(&place);
    let session = place.session();
    let mut actor = writer(&place, &session, &mount);
    for change in ATTRIBUTE_CHANGES {
        // Later than the clock of files can represent.
        std::thread::sleep(std::time::Duration::from_millis(10));
        actor.does(&format!("{change}; fdatasync a; fsync a"));
        let (kept, now) = place.attributes("log");
        assert_eq!(kept, now, "{change}");
    }
    assert_eq!(place.level_state(&session, "log").unwrap().level, Level::Absorb);
}

#[test]
fn library_and_mount_programs_share_a_log_and_are_coherent() {
    let Some(place) = place("library_and_mount_programs_share_a_log_and_are_coherent") else {
        return;
    };
    let _daemon = place.start_daemon(DAEMON);
    let mount = mount(&place);
    let session = place.session();
    let mut inside = writer(&place, &session, &mount);
    let mut outside = place.actor();
    outside.does("open a log wae; open b log +e");
    inside.does("open b log +e; ftruncate b 8192");
    for seed in 0..40 {
        outside.does(&format!("write a 64 {seed}; pwrite b 64 {seed} 128"));
        assert_eq!(fs::read(mount.file("log")).unwrap(), fs::read(place.file("log")).unwrap());
        // One's sync covers the other's writes.
        inside.does("fdatasync b");
        assert_survives(&place, &session, &place.file("log"));
        inside.does(&format!("write a 64 {seed}; ring_write b 64 {seed} 256; mapped b 64 {seed} 512"));
        outside.does("fdatasync a");
        assert_survives(&place, &session, &place.file("log"));
    }
    let len = File::open(place.file("log")).unwrap().metadata().unwrap().len();
    assert_eq!(len, 8192 + 80 * 64);
    assert_eq!(place.level_state(&session, "log").unwrap().level, Level::Absorb);
}

#[test]
fn a_file_that_is_cut_renamed_and_replaced_in_the_mount_is_what_was_kept() {
    let Some(place) = place("a_file_that_is_cut_renamed_and_replaced_in_the_mount_is_what_was_kept") else {
        return;
    };
    let _daemon = place.start_daemon(DAEMON);
    let mount = mount(&place);
    let session = place.session();
    let mut actor = writer(&place, &session, &mount);
    actor.does("write a 500 1; fdatasync a; open b log wt; fdatasync b");
    assert_survives(&place, &session, &place.file("log"));
    actor.does("write a 500 2; fdatasync a; rename log old; write a 10 3; fdatasync a");
    assert_survives(&place, &session, &place.file("old"));
    assert_eq!(place.level_state(&session, "old").unwrap().why, Reason::TooFewSyncs);
    actor.does("open c log wcae; write c 10 1; rename log old; write a 20 4; fdatasync a");
    assert_eq!(fs::read(place.file("old")).unwrap().len(), 10);
}

#[test]
fn an_order_by_a_name_in_the_mount_is_about_the_file_below() {
    let Some(place) = place("an_order_by_a_name_in_the_mount_is_about_the_file_below") else { return };
    let _daemon = place.start_daemon(DAEMON);
    let mount = mount(&place);
    let session = place.session();
    let mut actor = writer(&place, &session, &mount);
    let lower = byway_tdm_engine::table::lower_of(&mount.file("log")).unwrap();
    assert_eq!(fs::read(&lower).unwrap(), fs::read(place.file("log")).unwrap());
    assert!(place.order(Order::Evict, "log"));
    actor.does("write a 10 1; fdatasync a");
    assert_eq!(place.level_state(&session, "log").unwrap().why, Reason::ByHand);
    assert_survives(&place, &session, &place.file("log"));
}

#[test]
fn a_program_under_the_library_that_writes_in_the_mount_is_logged_once() {
    let Some(place) = place("a_program_under_the_library_that_writes_in_the_mount_is_logged_once") else {
        return;
    };
    let _daemon = place.start_daemon(DAEMON);
    let mount = mount(&place);
    let session = place.session();
    let mut actor = Actor::unwitnessed_in(&place, mount.at());
    actor.does("open a log wcae; write a 100 1; fdatasync a");
    place.absorb(&session, &mut actor, 'a', "log");
    let before = counted(&place, &session, Counted::Writes);
    actor.does("write a 100 1; write a 100 2; fdatasync a");
    assert_eq!(counted(&place, &session, Counted::Writes), before + 2);
    let name = CString::new(mount.file("log").as_os_str().as_bytes()).unwrap();
    let through = FileKey::at(&name).unwrap().map(|found| found.key);
    assert!(
        through.is_none_or(|key| session.file_table().find(key).is_none()),
        "it has a second entry by its name in the mount"
    );
    assert_survives(&place, &session, &place.file("log"));
}

#[test]
fn a_daemon_that_comes_later_serves_files_that_are_open_already() {
    let Some(place) = place("a_daemon_that_comes_later_serves_files_that_are_open_already") else { return };
    let mount = mount(&place);
    let mut actor = mount.actor();
    actor.does("open a log wcae; write a 100 1; fdatasync a");
    let _daemon = place.start_daemon(DAEMON);
    let session = place.session();
    await_listed(&place, &session, &mut actor);
    actor.does("write a 100 2; fdatasync a");
    place.absorb(&session, &mut actor, 'a', "log");
    actor.does("write a 100 3; fdatasync a");
    assert_survives(&place, &session, &place.file("log"));
}

#[test]
fn dax_file_is_demoted_for_a_program_in_the_mount() {
    let Some(place) = place("dax_file_is_demoted_for_a_program_in_the_mount") else {
        return;
    };
    let _daemon = place.start_daemon(DAEMON);
    let mount = mount(&place);
    let session = place.session();
    let mut outside = place.actor();
    let mut inside = mount.actor();
    outside.does("open a log +ca; write a 100 1; fdatasync a");
    for seed in 0..10 {
        place.promote(&session, &mut outside, 'a', "log");
        outside.does(&format!("write a 300 {seed}; fdatasync a"));
        inside.does(&format!("open b log +a; write b 50 {seed}; fdatasync b"));
        assert_eq!(inside.does("sum_at b 9000 0"), outside.does("sum_at a 9000 0"));
        assert_ne!(place.level_state(&session, "log").unwrap().level, Level::Dax);
        assert_survives(&place, &session, &place.file("log"));
        inside.does("close b");
    }
    assert_eq!(fs::read(place.file("log")).unwrap().len(), 100 + 10 * 350);
}

#[test]
fn mapping_is_synced_and_sees_changes_below_after_stat() {
    let Some(place) = place("mapping_is_synced_and_sees_changes_below_after_stat") else {
        return;
    };
    let _daemon = place.start_daemon(DAEMON);
    let mount = mount(&place);
    let session = place.session();
    let mut inside = writer(&place, &session, &mount);
    inside.does("open b log +e; ftruncate b 8192; map b 8192");
    let mut outside = place.actor();
    outside.does("open a log +e");
    for seed in 0..20 {
        inside.does(&format!("poke b 300 {seed} 100; fdatasync b"));
        assert_survives(&place, &session, &place.file("log"));
        outside.does(&format!("pwrite a 1 {seed} 5000; fdatasync a"));
        fs::metadata(mount.file("log")).unwrap();
        let below = fs::read(place.file("log")).unwrap();
        assert_eq!(inside.does("peek b 5000"), i64::from(below[5000]));
        assert_eq!(inside.does("peek b 399"), i64::from(below[399]));
    }
    assert_eq!(place.level_state(&session, "log").unwrap().level, Level::Absorb);
}
