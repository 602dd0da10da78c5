//! What is changed of a file beside its bytes is on the disk once all of the file was synced, wherever its bytes are kept.

use byway_tdm_daemon::Daemon;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::table::{Counted, Level};
use byway_tdm_tests::{ATTRIBUTE_CHANGES, Actor, Place};

use crate::place;

/// A file `log` that is open as `a`, and served.
struct Served {
    actor: Actor,
    session: Session,
    // Before the place, which has its socket.
    _daemon: Daemon,
    place: Place,
}

impl Served {
    fn new() -> Self {
        let place = place();
        let (daemon, session) = (place.daemon(), place.session());
        let mut actor = place.actor();
        actor.does("open a log +ce; write a 500 1");
        Self { actor, session, _daemon: daemon, place }
    }

    fn absorbed() -> Self {
        let mut served = Self::new();
        served.place.absorb(&served.session, &mut served.actor, 'a', "log");
        served
    }

    fn saved_syncs(&self) -> u64 {
        self.session.file_table().find(self.place.key("log")).unwrap().counters().get(Counted::SavedSyncs)
    }

    fn level(&self) -> Level {
        self.place.level_state(&self.session, "log").unwrap().level
    }

    fn are_kept(&self, what: &str) {
        let (kept, now) = self.place.attributes("log");
        assert_eq!(kept, now, "{what}");
    }
}

/// Changes a file so, and syncs all of it: its attributes are on the disk, and it is served as before.
fn are_kept_at(level: Level, mut served: Served, changes: &[&str]) {
    served.actor.does("fsync a");
    for change in changes {
        // Later than the clock of files can represent.
        std::thread::sleep(std::time::Duration::from_millis(10));
        served.actor.does(change);
        served.actor.does("fdatasync a; fsync a");
        served.are_kept(change);
        assert_eq!(served.level(), level, "{change}");
    }
}

#[test]
fn attribute_changes_of_an_absorbed_file_are_kept_by_fsync() {
    are_kept_at(Level::Absorb, Served::absorbed(), &ATTRIBUTE_CHANGES);
    are_kept_at(Level::Absorb, Served::absorbed(), &["open b log r; fchmod b 256; close b"]);
}

#[test]
fn attribute_changes_of_a_dax_file_are_kept_by_fsync() {
    let mut served = Served::new();
    served.place.promote(&served.session, &mut served.actor, 'a', "log");
    // Room is made below.
    let changes = ATTRIBUTE_CHANGES.into_iter().filter(|change| !change.starts_with("fallocate"));
    are_kept_at(Level::Dax, served, &changes.collect::<Vec<_>>());
}

#[test]
fn attribute_changes_before_absorption_are_kept_by_fsync() {
    let mut served = Served::new();
    served.actor.does("fsync a; fchmod a 256; fdatasync a; fdatasync a; fdatasync a");
    served.place.absorb(&served.session, &mut served.actor, 'a', "log");
    served.actor.does("fsync a");
    served.are_kept("fchmod");
}

#[test]
fn syncs_without_attribute_changes_stay_cheap() {
    let mut served = Served::absorbed();
    served.actor.does("fsync a; fchmod a 384");
    let before = served.saved_syncs();
    served.actor.does("write a 10 2; fdatasync a; write a 10 3; fdatasync a");
    assert_eq!(served.saved_syncs(), before + 2);
    served.actor.does("fsync a");
    assert_eq!(served.saved_syncs(), before + 2);
    served.actor.does("write a 10 4; fsync a; write a 10 5; fsync a");
    assert_eq!(served.saved_syncs(), before + 4);
}
