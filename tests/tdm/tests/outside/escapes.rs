//! Writes that would escape a file's log: after each, one acknowledged sync, and all of it would be there after a loss of power. The daemon
//! is dead by then, so that the file is not demoted in time.

use byway_tdm_engine::client::Session;
use byway_tdm_engine::table::Level;
use byway_tdm_tests::{Actor, Place, assert_survives};

use crate::{DAEMON, place};

/// A file `log` that is absorbed, open as `a` with some bytes and records, whose daemon is dead.
struct Alone {
    place: Place,
    session: Session,
    actor: Actor,
}

impl Alone {
    fn new(flags: &str) -> Self {
        Self::opened(&format!("open a log {flags}"))
    }

    /// Opened by these calls.
    fn opened(how: &str) -> Self {
        let place = place();
        let mut daemon = place.start_daemon(DAEMON);
        let session = place.session();
        let mut actor = place.actor();
        actor.does(&format!("{how}; write a 500 1"));
        place.absorb(&session, &mut actor, 'a', "log");
        daemon.kill();
        actor.does("write a 100 2; fdatasync a; write a 50 3; fdatasync a");
        let alone = Self { place, session, actor };
        assert_eq!(alone.level("log"), Level::Absorb);
        alone.check("log");
        alone
    }

    fn level(&self, name: &str) -> Level {
        self.place.level_state(&self.session, name).unwrap().level
    }

    fn check(&self, name: &str) {
        assert_survives(&self.place, &self.session, &self.place.file(name));
    }

    /// Looks after something else was said to be kept: by the kernel, not by the log. What the disk has by then is all that there is.
    fn check_after_a_sync_elsewhere(&self) {
        self.place.keep_all("log");
        self.check("log");
    }

    /// Checks that a file is complete though nothing leads from its log to it.
    fn check_is_below(&self, name: &str) {
        let path = self.place.file(name);
        assert_eq!(std::fs::read(self.place.kept(&path)).unwrap(), std::fs::read(&path).unwrap());
    }

    /// Does this, syncs, and looks; twice, as the first sync may be a real one for another reason.
    fn survives(&mut self, lines: &str) {
        for _ in 0..2 {
            self.actor.does(lines);
            self.actor.does("fdatasync a");
            self.check("log");
        }
    }
}

#[test]
fn plain_writes_of_every_kind_are_in_the_log() {
    let mut alone = Alone::new("+ce");
    alone.survives(
        "write a 10 4; writev a 3000 5; pwrite a 7 6 300; pwrite64 a 7 7 9000; pwritev a 500 8 100",
    );
    alone.survives(
        "pwritev2 a 40 9 20 0; pwritev2 a 40 10 -1 0; ftruncate a 4000; ftruncate a 6000; write a 1 11",
    );
    assert_eq!(alone.level("log"), Level::Absorb);
}

#[test]
fn appended_writes_are_in_the_log_where_they_went() {
    let mut alone = Alone::new("+cae");
    alone.survives("write a 10 4; lseek a 3 0; read a 2; writev a 300 5; pwrite a 7 6 3");
}

#[test]
fn a_write_by_dprintf_is_not_missed() {
    Alone::new("wce").survives("dprintf a 40 9");
}

#[test]
fn calls_by_other_names_that_the_c_library_has_for_them_are_in_the_log() {
    let mut alone = Alone::new("+cae");
    alone.survives("__write a 40 9; __lseek a 3 0; write a 10 4; __pwrite64 a 7 6 3");
    alone.survives("open c other wc; __dupfd a b 20; __write b 40 9; __dup2 b c; __write c 9 9; __close b; __open b log w; __write b 30 8");
    assert_eq!(alone.level("log"), Level::Absorb);
    alone.actor.does("__close b; open b other wce; write b 30 8; fdatasync b");
    alone.survives("write a 3 3");
}

#[test]
fn write_by_backtrace_symbols_fd_is_not_missed() {
    Alone::new("+cae").survives("backtrace a; write a 3 3");
}

#[test]
fn thread_with_its_own_descriptor_table_hides_no_write() {
    for part in ["close_range a a 2", "unshare_and_close a"] {
        let mut alone = Alone::new("+ce");
        alone.actor.does(&format!("thread {part}"));
        alone.survives("pwrite a 40 9 100");
    }
    let mut alone = Alone::new("+ce");
    alone.actor.does("open b log +e; close_range b b 2");
    alone.survives("pwrite a 40 9 100");
    assert_eq!(alone.level("log"), Level::Absorb, "no other program has its descriptors");
}

#[test]
fn a_write_through_a_mapping_is_not_missed() {
    let mut alone = Alone::new("+ce");
    alone.survives("mapped a 40 9 0");
    alone.actor.does("map a 600");
    alone.survives("poke a 40 10 0");
    alone.survives("poke a 40 11 20");
}

#[test]
fn a_write_by_a_bare_system_call_is_not_missed() {
    let mut alone = Alone::new("+ce");
    alone.survives("sys_write a 40 9");
    alone.survives("sys_pwrite a 40 9 520");
}

#[test]
fn a_write_that_the_kernel_keeps_at_once_is_not_undone_by_older_records() {
    let mut alone = Alone::new("+ce");
    alone.actor.does("pwritev2 a 40 9 510 2");
    alone.check_after_a_sync_elsewhere();
}

#[test]
fn a_sync_by_a_bare_system_call_is_not_undone_by_older_records() {
    let mut alone = Alone::new("+ce");
    alone.actor.does("sys_pwrite a 40 9 510; sys_fdatasync a");
    alone.check_after_a_sync_elsewhere();
}

#[test]
fn a_sync_by_a_descriptor_that_only_reads_is_not_undone_by_older_records() {
    let mut alone = Alone::new("+ce");
    // More than a record holds.
    alone.actor.does("open b log r; pwrite a 2000000 9 0; fdatasync b");
    alone.check_after_a_sync_elsewhere();
}

#[test]
fn a_sync_of_everything_is_not_undone_by_older_records() {
    let mut alone = Alone::new("+ce");
    alone.actor.does("lseek a 510 0; open b log r; sendfile a b 40 100; sync");
    alone.check_after_a_sync_elsewhere();
}

#[test]
fn sync_of_everything_is_not_undone_by_earlier_records() {
    for sync in ["sync", "syncfs a", "sys_syncfs a"] {
        let mut alone = Alone::new("+ce");
        // More than a record holds.
        alone.actor.does(&format!("pwrite a 2000000 9 0; {sync}"));
        alone.check_after_a_sync_elsewhere();
        alone.actor.does(&format!("pwrite a 40 10 0; {sync}"));
        let entry = alone.session.file_table().find(alone.place.key("log")).unwrap();
        assert!(entry.cursor().is_kept(), "{sync} left records that no fence has kept");
    }
}

#[test]
fn asynchronous_sync_is_not_undone_by_earlier_records() {
    let mut alone = Alone::new("+ce");
    alone.actor.does("pwrite a 2000000 9 0; aio_fsync a");
    alone.check_after_a_sync_elsewhere();
    alone.actor.does("pwrite a 40 10 0; aio_fsync a");
    let entry = alone.session.file_table().find(alone.place.key("log")).unwrap();
    assert!(entry.cursor().is_kept(), "records are left that no fence has kept");
}

#[test]
fn a_sync_of_everything_by_one_program_keeps_what_another_one_wrote() {
    let place = place();
    let _daemon = place.start_daemon(DAEMON);
    let session = place.session();
    let mut actor = place.actor();
    actor.does("open a log +ce; write a 500 1");
    place.absorb(&session, &mut actor, 'a', "log");
    let mut other = place.actor();
    for write in ["pwrite a 40 2 0", "pwrite a 2000000 3 0", "pwrite a 40 4 0"] {
        actor.does(write);
        other.does("sync");
        let entry = session.file_table().find(place.key("log")).unwrap();
        assert!(entry.cursor().is_kept(), "{write} was not kept");
        assert_eq!(entry.level_state().level, Level::Absorb, "{write}");
        assert_survives(&place, &session, &place.file("log"));
    }
}

#[test]
fn o_dsync_write_by_another_descriptor_is_not_undone_by_older_records() {
    let mut alone = Alone::new("+ce");
    alone.actor.does("open b log wy; pwrite b 40 9 510");
    alone.check_after_a_sync_elsewhere();
}

#[test]
fn a_cut_that_fails_cuts_nothing_later() {
    let mut alone = Alone::new("+ce");
    assert_eq!(alone.actor.asked("ftruncate a 4611686018427387904"), "-1 errno 27");
    alone.check("log");
    alone.survives("write a 10 9");
}

#[test]
fn cuts_of_every_kind_are_kept() {
    let mut alone = Alone::new("+ce");
    alone.survives("truncate log 300; pwrite a 5 9 310");
    alone.survives("pwrite a 900 10 0; sys_truncate log 300; pwrite a 5 9 10");
    alone.survives("open b log wt; pwrite a 5 9 10; close b");
    alone.survives("pwrite a 900 10 0; creat b log; pwrite a 5 9 10; close b");
    alone.survives("pwrite a 900 10 0; open b log rt; pwrite a 5 9 10; close b");
    alone.survives("pwrite a 900 10 0; fopen S log w; fputs S text; fclose S");
}

#[test]
fn a_stream_that_is_opened_again_to_be_cut_is_not_missed() {
    let mut alone = Alone::new("+ce");
    alone.survives("fopen T log r; freopen T log w; pwrite a 5 9 100; fclose T");
}

#[test]
fn allocation_in_every_mode_is_kept() {
    let mut alone = Alone::new("+ce");
    alone.survives("fallocate a 1 0 20000; write a 10 4");
    alone.survives("fallocate a 0 0 5000; pwrite a 10 5 5100");
    alone.survives("pwrite a 9000 6 0; fallocate a 3 4096 4096; pwrite a 10 5 100");
    alone.survives("fallocate a 16 0 9000; posix_fallocate a 0 12000 1");
}

#[test]
fn data_from_sendfile_copy_file_range_and_splice_is_not_missed() {
    let mut alone = Alone::new("+ce");
    alone.actor.does("open b other +c; write b 5000 3; lseek b 0 0");
    alone.survives("sendfile a b 700 30; write a 3 3");
    alone.survives("copy_file_range a b 700 30; write a 3 3");
    alone.survives("splice a 300 5; write a 3 3");
}

#[test]
fn a_file_that_glibc_opens_itself_is_followed_or_left_alone() {
    let mut alone = Alone::new("+ce");
    let fd = alone.actor.does("mkstemp b tempXXXXXX");
    assert!(fd > 2);
    let name = std::fs::read_link(format!("/proc/{}/fd/{fd}", alone.actor.id())).unwrap();
    assert!(name.to_string_lossy().contains("/temp"));
    let name = name.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(alone.place.level_state(&alone.session, &name).is_some(), "the written file has an entry");
}

#[test]
fn files_that_are_opened_by_bare_calls_are_the_kernel_s() {
    for call in ["sys_openat", "sys_open"] {
        let mut alone = Alone::new("+ce");
        alone.actor.does(&format!("{call} b log w"));
        alone.survives("pwrite b 40 9 520; pwrite a 40 10 530");
    }
}

#[test]
fn a_descriptor_that_could_not_be_closed_or_replaced_is_still_followed() {
    let mut alone = Alone::new("+ce");
    assert_eq!(alone.actor.asked("dup2 z a"), "-1 errno 9");
    alone.survives("pwrite a 40 9 510");
    assert_eq!(alone.actor.asked("close_range a a 1000"), "-1 errno 22");
    alone.survives("pwrite a 40 10 520");
}

#[test]
fn the_standard_output_of_a_program_that_makes_it_a_file_is_not_missed() {
    let mut alone = Alone::new("+cae");
    alone.actor.does("dup_to a b 1");
    alone.survives("printf some-text; write a 40 9");
}

#[test]
fn descriptors_with_great_numbers_are_not_missed() {
    let mut alone = Alone::new("+ce");
    if alone.actor.asked("descriptors 70000") != "0" {
        // These numbers are not in use.
        return;
    }
    alone.actor.does("dup_to a b 66000");
    alone.survives("write b 40 9");
    alone.survives("pwrite b 40 10 500");
}

#[test]
fn a_program_that_a_child_hands_the_file_to_is_not_missed() {
    for how in ["vfork_output", "spawn_output", "handed_on"] {
        let mut alone = Alone::new("+cae");
        alone.survives(&format!("{how} a"));
        alone.survives("write a 40 9");
    }
    let mut alone = Alone::new("+cae");
    alone.survives("handed_on a 1");
}

#[test]
fn a_program_that_is_started_by_a_shell_is_not_missed() {
    let mut alone = Alone::new("+ca");
    alone.actor.does("dup_to a b 40");
    alone.survives("system LD_PRELOAD=;write a 40 9");
}

#[test]
fn children_that_write_are_in_the_log_whichever_way_they_were_made() {
    let mut alone = Alone::new("+cae");
    alone.survives("child write a 40 9; write a 30 10; child fdatasync a");
    alone.survives("bare_child write a 40 9; thread write a 30 10");
    alone.survives("child pwrite a 40 9 100; child ftruncate a 200");
    assert_eq!(alone.level("log"), Level::Absorb);
}

#[test]
fn a_child_of_a_bare_fork_that_uses_a_number_again_writes_another_file() {
    let mut alone = Alone::new("+ce");
    alone.actor.does("bare_child reuse a other 77");
    alone.survives("write a 30 10");
    alone.actor.does("vfork a another");
    alone.survives("write a 30 10");
}

#[test]
fn numbers_that_are_used_again_are_other_files() {
    for (close, note) in [
        ("close a", ""),
        ("sys_close a", ""),
        ("close_range a a 0", ""),
        ("sys_dup2 c a", "still"),
        ("dup2 c a", "still"),
    ] {
        let mut alone = Alone::new("+ce");
        alone.actor.does("open b log +e; open c other wce; write c 3 3");
        alone.actor.does(close);
        if note.is_empty() {
            let fd = alone.actor.does("open d third wce");
            assert!(fd > 2, "{close}");
            alone.actor.does("write d 40 12; fdatasync d");
        } else {
            alone.actor.does("write a 40 12; fdatasync a");
        }
        alone.actor.does("write b 3 3; fdatasync b");
        alone.check("log");
    }
}

#[test]
fn a_number_that_a_stream_gave_back_is_another_file_s() {
    let mut alone = Alone::new("+ce");
    alone.actor.does("open b log +e; fdopen b r; fclose b; open c third wce; write c 40 12; fdatasync c");
    alone.survives("write a 5 5");
}

#[test]
fn file_renamed_without_a_daemon_is_synced() {
    for rename in ["rename", "sys_rename", "sys_renameat", "sys_renameat2"] {
        let mut alone = Alone::new("+ce");
        alone.actor.does(&format!("mkdir other; write a 40 9; fdatasync a; {rename} log other/log"));
        for _ in 0..2 {
            alone.actor.does("write a 40 10; fdatasync a");
            alone.check_is_below("other/log");
        }
    }
}

#[test]
fn a_file_that_loses_the_name_in_its_log_and_has_another_is_kept_below() {
    for unname in
        ["unlink log", "remove log", "open b new wc; rename new log", "sys_unlink log", "sys_unlinkat log"]
    {
        let mut alone = Alone::new("+ce");
        alone.actor.does(&format!("mkdir other; link log other/log; {unname}"));
        alone.actor.does("write a 40 10; fdatasync a");
        alone.check_is_below("other/log");
    }
}

#[test]
fn a_thread_that_is_cancelled_inside_of_a_write_leaves_no_lock_behind() {
    let mut alone = Alone::new("+cae");
    alone.actor.does("cancelled a 20");
    alone.survives("write a 40 9");
    assert_eq!(alone.level("log"), Level::Absorb);
}

#[test]
fn threads_that_append_while_another_moves_their_position_log_where_they_wrote() {
    for flags in ["+cae", "wcae"] {
        let mut alone = Alone::new(flags);
        alone.survives("threads a 300 1");
        assert_eq!(alone.level("log"), Level::Absorb, "{flags}");
    }
}

#[test]
fn a_file_that_was_made_without_a_name_and_got_one_is_not_missed() {
    let mut alone = Alone::opened("open b . +me; name b log; open a log +e");
    alone.survives("pwrite b 40 9 20");
}

#[test]
fn vfork_child_writing_at_a_reused_number_ends_no_unsynced_log() {
    let mut alone = Alone::new("+ce");
    alone.actor.does("vfork a another");
    assert!(alone.place.path().join("witness/all").exists(), "nothing was synced below");
    alone.check_after_a_sync_elsewhere();
}
