//! Two users of one daemon: what either does with all that it is given, the other's files stay as they are.
//!
//! Needs root, who starts a daemon for all users and programs as another one.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use byway_conformance::skips::skip;
use byway_sys::Mapping;
use byway_sys::map::Sharing;
use byway_tdm_engine::client::{Session, SessionError};
use byway_tdm_engine::control::{Channel, Order, Reply, Request};
use byway_tdm_engine::table::{Counted, FileKey, Level, Reason};
use byway_tdm_region::Memory;
use byway_tdm_tests::{Actor, Place, absorb, come_to};
use rustix::process::Uid;

use crate::DAEMON;

/// No process's number, on every Linux.
pub(crate) const OTHER_UID: u32 = 65534;

/// A place that another user may come to; `None` where there is no other user to be.
pub(crate) fn place_of_two(test: &str) -> Option<Place> {
    if !rustix::process::geteuid().is_root() {
        skip(test, "it is not root");
        return None;
    }
    let place = Place::new("/var/tmp");
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    chown(place.path().join("plain"), Some(OTHER_UID), Some(OTHER_UID)).unwrap();
    Some(place)
}

/// Does something as the other user.
pub(crate) fn as_other_user<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    as_user(OTHER_UID, act)
}

/// Does something as another user: a thread has an identity of its own.
fn as_user<R: Send>(uid: u32, act: impl FnOnce() -> R + Send) -> R {
    thread::scope(|threads| {
        let other = threads.spawn(|| {
            let user = Some(Uid::from_raw(uid));
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            act()
        });
        other.join().unwrap()
    })
}

/// All that a client gets: the shared file table and the memory.
fn given(place: &Place) -> Vec<OwnedFd> {
    let channel = Channel::connect(&place.options.socket, Duration::from_secs(20)).unwrap();
    let (reply, files) = channel.ask(Request::Hello, &[]).unwrap();
    assert!(matches!(reply, Reply::Welcome(_)), "{reply:?}");
    files
}

/// Overwrites a file through a mapping and truncates it, as its recipient may.
fn spoil(file: OwnedFd) {
    let file = File::from(file);
    let len = file.metadata().unwrap().len();
    let all = Mapping::file(&file, 0, len as usize, Sharing::Shared).unwrap();
    all.fill_at(0, len as usize, 0xa5).unwrap();
    drop(all);
    file.set_len(0).unwrap();
}

fn bytes_of(session: &Session) -> Vec<u8> {
    let mut all = vec![0; session.memory().len_bytes() as usize];
    session.memory().read(0, &mut all).unwrap();
    all
}

fn level(place: &Place, session: &Session, name: &str) -> Option<Level> {
    place.level_state(session, name).map(|level_state| level_state.level)
}

#[test]
fn two_users_are_served_from_separate_partitions() {
    let Some(place) = place_of_two("two_users_are_served_from_separate_partitions") else { return };
    let daemon = place.daemon();
    let mut mine = place.actor();
    mine.does("open a log wcae");
    place.absorb(&place.session(), &mut mine, 'a', "log");
    let mut theirs = Actor::of_user(&place, "plain", OTHER_UID);
    theirs.does("open a log wcae");
    let absorbed = |uid: u32| {
        let users = daemon.report().users;
        let user = users.iter().find(|user| user.uid == uid);
        user.map(|user| user.files.iter().filter(|file| file.level == "ABSORB").count())
    };
    let end = Instant::now() + Duration::from_secs(30);
    while absorbed(OTHER_UID) != Some(1) && Instant::now() < end {
        theirs.does("write a 40 1; fdatasync a");
    }
    assert_eq!((absorbed(0), absorbed(OTHER_UID)), (Some(1), Some(1)), "{:?}", daemon.report());
}

#[test]
fn user_spoiling_its_memory_spoils_no_others() {
    let test = "user_spoiling_its_memory_spoils_no_others";
    let Some(place) = place_of_two(test) else { return };
    let daemon = place.daemon();
    let mut mine = place.actor();
    mine.does("open a log wcae");
    let session = place.session();
    place.absorb(&session, &mut mine, 'a', "log");
    mine.does("write a 400 1; fdatasync a");
    let before = bytes_of(&session);
    as_other_user(|| given(&place).into_iter().for_each(spoil));
    assert!(bytes_of(&session) == before, "another user's part of the region was changed");
    mine.does("write a 400 2; fdatasync a");
    assert_eq!(level(&place, &session, "log"), Some(Level::Absorb));
    let ended = daemon.end();
    assert!(ended.iter().any(|file| file.uid == 0 && file.is_settled), "{ended:?}");
}

#[test]
fn user_cannot_order_anothers_files_or_open_its_partition() {
    let test = "user_cannot_order_anothers_files_or_open_its_partition";
    let Some(place) = place_of_two(test) else { return };
    let _daemon = place.daemon();
    let mut mine = place.actor();
    mine.does("open a log wcae");
    let session = place.session();
    place.absorb(&session, &mut mine, 'a', "log");
    let key = place.key("log");
    for order in [Order::Drain, Order::Evict, Order::Pin, Order::Unpin] {
        assert!(!as_other_user(|| place.order_key(order, key)), "{order:?}");
    }
    assert_eq!(level(&place, &session, "log"), Some(Level::Absorb));
    let mut opened = as_other_user(|| files_that_open(place.path()));
    opened.retain(|name| !name.contains(&OTHER_UID.to_string()));
    assert_eq!(opened, Vec::<String>::new());
}

/// What a daemon says to a user's program that begins.
fn welcome(place: &Place, uid: u32) -> Result<(), SessionError> {
    as_user(uid, || Session::begin(&place.options.socket).map(drop))
}

#[test]
fn user_beyond_the_partitions_is_served_once_another_is_gone() {
    const FIRST: u32 = 60_001;
    let test = "user_beyond_the_partitions_is_served_once_another_is_gone";
    let Some(place) = place_of_two(test) else { return };
    std::fs::set_permissions(place.path().join("plain"), Permissions::from_mode(0o777)).unwrap();
    let daemon = place.daemon();
    let users = FIRST..FIRST + 8;
    let mut programs: Vec<Actor> = users.clone().map(|uid| Actor::of_user(&place, "plain", uid)).collect();
    for (program, uid) in programs.iter_mut().zip(users.clone()) {
        program.does(&format!("open a log-{uid} wce; write a 100 1"));
    }
    let served = || daemon.report().users.iter().map(|user| user.uid).collect::<BTreeSet<_>>();
    assert_eq!(served(), users.clone().collect());
    let ninth = users.end;
    for _ in 0..2 {
        come_to(|| match welcome(&place, ninth) {
            Err(SessionError::Refused(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    programs[3].kill();
    come_to(|| welcome(&place, ninth));
    assert_eq!(served(), users.clone().filter(|uid| *uid != FIRST + 3).chain([ninth]).collect());
    // The user that had it is one more than there are partitions, and the others have lost nothing.
    let log = place.path().join(format!("plain/log-{FIRST}"));
    let session = as_user(FIRST, || place.session());
    absorb(&session, &mut programs[0], 'a', place.key(log.to_str().unwrap()));
    // The ninth has no program there.
    come_to(|| welcome(&place, FIRST + 3));
    assert_eq!(served(), users.collect());
}

/// Marks so many files as absorbed, each with its lock held by this thread for ever.
fn stick(session: &Session, files: u64) {
    for inode in 1..=files {
        let key = FileKey { device: 1, inode, born_ns: 1 };
        let entry = session.file_table().find_or_make(key).unwrap().unwrap();
        assert!(entry.move_to(Level::Absorb, Reason::Earned));
        std::mem::forget(entry.lock().unwrap());
    }
}

#[test]
fn user_with_stopped_programs_is_answered_by_the_next_daemon() {
    let test = "user_with_stopped_programs_is_answered_by_the_next_daemon";
    let Some(place) = place_of_two(test) else { return };
    let mut daemon = place.start_daemon(DAEMON);
    let theirs = as_other_user(|| place.session());
    stick(&theirs, 1000);
    daemon.kill();
    let _daemon = place.start_daemon(DAEMON);
    drop(as_other_user(|| place.session()));
    let mut mine = place.actor();
    mine.does("open a log wcae");
    place.absorb(&place.session(), &mut mine, 'a', "log");
}

#[test]
fn server_that_changes_its_user_keeps_only_its_open_files() {
    let test = "server_that_changes_its_user_keeps_only_its_open_files";
    let Some(place) = place_of_two(test) else { return };
    let _daemon = place.daemon();
    std::fs::set_permissions(place.path().join("files"), Permissions::from_mode(0o777)).unwrap();
    let mut server = Actor::unwitnessed(&place);
    server.does("open a log wcae; write a 100 1");
    let session = place.session();
    place.absorb(&session, &mut server, 'a', "log");
    let entry = session.file_table().find(place.key("log")).unwrap();
    let before = entry.counters().get(Counted::SavedSyncs);
    server.does(&format!("become {OTHER_UID}; write a 100 2; fdatasync a"));
    assert_eq!(entry.counters().get(Counted::SavedSyncs), before + 1);
    assert_eq!(level(&place, &session, "log"), Some(Level::Absorb));
    server.does("open b his wce; write b 10 1; fdatasync b; fdatasync b; fdatasync b");
    assert_eq!(level(&place, &session, "his"), None, "another user's file is in root's shared file table");
    server.does("write a 100 3; mkdir other; rename log other/log; fdatasync a");
    assert_eq!(entry.cursor().kept_bytes(), 0);
}

/// The actor syncs a file as often as it takes for it to be absorbed.
fn sync_often(actor: &mut Actor) {
    actor.does("open a log wce");
    for _ in 0..8 {
        actor.does("write a 40 1; fdatasync a; fdatasync a; fdatasync a; fdatasync a");
    }
}

#[test]
fn program_of_another_pid_namespace_is_refused_and_counted() {
    let test = "program_of_another_pid_namespace_is_refused_and_counted";
    let Some(place) = place_of_two(test) else { return };
    let daemon = place.daemon();
    sync_often(&mut Actor::separately(&place, &["--pid", "--fork"]));
    assert_eq!(level(&place, &place.session(), "log"), None);
    assert_eq!(daemon.report().turned_away, 1);
}

#[test]
fn files_of_a_program_unsharing_its_pid_namespace_are_demoted() {
    let test = "files_of_a_program_unsharing_its_pid_namespace_are_demoted";
    let Some(place) = place_of_two(test) else { return };
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = place.actor();
    actor.does("open a log wce; write a 100 1");
    place.absorb(&session, &mut actor, 'a', "log");
    actor.does("unshare_numbers a; child write a 50 2; fdatasync a");
    let level_state = place.level_state(&session, "log").unwrap();
    assert_eq!((level_state.is_barred, level_state.why), (true, Reason::OtherProcesses));
}

#[test]
fn file_with_another_path_at_the_daemon_stays_at_pass() {
    let test = "file_with_another_path_at_the_daemon_stays_at_pass";
    let Some(place) = place_of_two(test) else { return };
    let _daemon = place.daemon();
    sync_often(&mut Actor::separately(&place, &["--mount"]));
    let level_state = place.level_state(&place.session(), "log").unwrap();
    assert_eq!((level_state.level, level_state.why), (Level::Pass, Reason::OtherPaths));
}

/// Files of a folder that can be read or written, but for sockets.
fn files_that_open(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().filter_map(Result::ok);
    let files = files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
    let opens = |path: &Path| File::open(path).is_ok() || File::options().write(true).open(path).is_ok();
    files
        .filter(|file| opens(&file.path()))
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn opens_of_unservable_files_are_counted_by_reason() {
    let test = "opens_of_unservable_files_are_counted_by_reason";
    let Some(place) = place_of_two(test) else { return };
    let daemon = place.daemon();
    let theirs = place.path().join("theirs");
    std::fs::write(&theirs, "").unwrap();
    chown(&theirs, Some(OTHER_UID), None).unwrap();
    let mut mine = place.actor();
    let to_theirs = theirs.to_str().unwrap();
    mine.does(&format!("open a {to_theirs} w; open b {to_theirs} w; open c {to_theirs} r; open d log wc"));
    // No file of the kernel's own says when it was made.
    mine.does("open e /proc/self/comm w; open f /dev/null w");
    let users = daemon.report().users;
    let counted: Vec<_> = users[0].unserved.iter().map(|file| (file.opens, file.why.as_str())).collect();
    assert_eq!(counted, [(2, Reason::OtherOwner.sentence()), (1, Reason::NoBirthTime.sentence())]);
}

#[test]
fn requests_without_a_served_program_open_no_partition() {
    let Some(place) = place_of_two("requests_without_a_served_program_open_no_partition") else {
        return;
    };
    let daemon = place.daemon();
    let theirs = place.path().join("plain/log");
    std::fs::write(&theirs, b"x").unwrap();
    chown(&theirs, Some(OTHER_UID), None).unwrap();
    let key = FileKey::of(File::open(&theirs).unwrap()).unwrap().unwrap().key;
    for order in [Order::Pin, Order::Evict, Order::Drain] {
        let asked = as_other_user(|| {
            let channel = Channel::connect(&place.options.socket, Duration::from_secs(20)).unwrap();
            channel.ask(Request::Order(order, key), &[]).unwrap().0
        });
        assert_eq!(asked, Reply::Refused(Reason::Unknown));
    }
    assert!(daemon.report().users.is_empty(), "{:?}", daemon.report());
}
