//! The default socket of a user whose names another user takes first, and daemons, regions and file tables of another user.
//!
//! Needs root, who acts as both.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use byway_conformance::skips::skip;
use byway_conformance::users::as_user;
use byway_tdm_daemon::{Daemon, Options};
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::{Channel, Reply, Request, default_socket};
use byway_tdm_engine::table::{FILE_TABLE_BYTES, Reason};

/// Users that this machine need not know; each test has its own owner.
const OWNERS: [u32; 5] = [61_011, 61_012, 61_014, 61_015, 61_016];
const SQUATTER: u32 = 61_013;

fn mode_of(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

fn folder_of(owner: u32) -> PathBuf {
    let folder = PathBuf::from(format!("/tmp/byway-{owner}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// A folder of a user with a region, and the options of a daemon of it.
fn options_of(owner: u32, socket: PathBuf) -> (tempfile::TempDir, Options) {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    chown(folder.path(), Some(owner), Some(owner)).unwrap();
    let region = format!("emu:{}?size=32M", folder.path().join("region").display());
    let options = Options::new(&region, socket).file_tables(folder.path());
    (folder, options)
}

#[test]
fn default_socket_is_closed_to_a_user_who_took_the_name_of_older_releases() {
    if !rustix::process::geteuid().is_root() {
        return skip(
            "default_socket_is_closed_to_a_user_who_took_the_name_of_older_releases",
            "it is not root",
        );
    }
    let (owner, timeout) = (OWNERS[0], Duration::from_secs(20));
    let own = folder_of(owner);
    let old = PathBuf::from(format!("/tmp/byway-tdm-{owner}.sock"));
    let _ = fs::remove_file(&old);
    let squatter = as_user(SQUATTER, || UnixListener::bind(&old).unwrap());
    let socket = as_user(owner, default_socket).unwrap();
    let (_folder, options) = options_of(owner, socket.clone());
    let daemon = as_user(owner, || Daemon::start(options).unwrap());
    assert_eq!((mode_of(&socket), mode_of(socket.parent().unwrap())), (0o600, 0o700));
    as_user(owner, || Channel::connect(&socket, timeout).unwrap());
    let refused = as_user(SQUATTER, || UnixStream::connect(&socket).unwrap_err());
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    as_user(owner, || drop(daemon));
    squatter.set_nonblocking(true).unwrap();
    assert!(squatter.accept().is_err(), "the squatter was connected to");
    fs::remove_file(old).unwrap();
    fs::remove_dir_all(own).unwrap();
}

#[test]
fn default_socket_in_a_folder_of_another_user_is_refused_and_named() {
    if !rustix::process::geteuid().is_root() {
        return skip("default_socket_in_a_folder_of_another_user_is_refused_and_named", "it is not root");
    }
    let own = folder_of(OWNERS[1]);
    as_user(SQUATTER, || fs::create_dir(&own).unwrap());
    fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
    let refused = as_user(OWNERS[1], default_socket).unwrap_err();
    fs::remove_dir_all(&own).unwrap();
    assert!(refused.contains(&format!("{} belongs to user {SQUATTER}", own.display())), "{refused}");
}

#[test]
fn daemon_and_program_of_different_users_refuse_each_other() {
    if !rustix::process::geteuid().is_root() {
        return skip("daemon_and_program_of_different_users_refuse_each_other", "it is not root");
    }
    let owner = OWNERS[2];
    let (folder, mut options) = options_of(owner, PathBuf::new());
    let socket = folder.path().join("socket");
    options.socket = socket.clone();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let daemon = as_user(owner, || Daemon::start(options).unwrap());
    // As a careless owner may open it.
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let refused = as_user(SQUATTER, || Channel::connect(&socket, Duration::from_secs(20)).unwrap_err());
    assert!(refused.to_string().contains(&format!("user {owner} listens there")), "{refused}");
    let (reply, files) = as_user(SQUATTER, || {
        let unchecked = Channel::accepted(UnixStream::connect(&socket).unwrap());
        unchecked.ask(Request::Hello, &[]).unwrap()
    });
    assert!(matches!(reply, Reply::Refused(Reason::OtherOwner)) && files.is_empty(), "{reply:?}");
    as_user(owner, || drop(daemon));
}

#[test]
fn region_file_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return skip("region_file_of_another_user_is_refused", "it is not root");
    }
    let owner = OWNERS[3];
    let (folder, mut options) = options_of(owner, PathBuf::new());
    options.socket = folder.path().join("socket");
    let region = folder.path().join("region");
    fs::write(&region, vec![0; 32 << 20]).unwrap();
    chown(&region, Some(SQUATTER), Some(SQUATTER)).unwrap();
    fs::set_permissions(&region, Permissions::from_mode(0o666)).unwrap();
    let refused = as_user(owner, || Daemon::start(options).unwrap_err()).to_string();
    assert!(refused.contains("it belongs to another user, who may have it open"), "{refused}");
}

#[test]
fn file_of_another_user_in_the_place_of_a_file_table_is_replaced() {
    if !rustix::process::geteuid().is_root() {
        return skip("file_of_another_user_in_the_place_of_a_file_table_is_replaced", "it is not root");
    }
    let owner = OWNERS[4];
    let (folder, mut options) = options_of(owner, PathBuf::new());
    options.socket = folder.path().join("socket");
    let serve = || {
        let daemon = as_user(owner, || Daemon::start(options.clone()).unwrap());
        drop(as_user(owner, || Session::begin(&options.socket).unwrap()));
        as_user(owner, || drop(daemon));
    };
    serve();
    let tables = || fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_table = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("byway-tdm-");
    let table = tables().find(is_table).unwrap();
    fs::remove_file(&table).unwrap();
    fs::write(&table, vec![0; FILE_TABLE_BYTES]).unwrap();
    chown(&table, Some(SQUATTER), Some(SQUATTER)).unwrap();
    fs::set_permissions(&table, Permissions::from_mode(0o666)).unwrap();
    let foreign = fs::File::open(&table).unwrap();
    serve();
    assert_eq!(table.metadata().unwrap().uid(), owner);
    let mut kept = Vec::new();
    (&foreign).read_to_end(&mut kept).unwrap();
    assert!(kept.len() == FILE_TABLE_BYTES && kept.iter().all(|byte| *byte == 0));
}
