//! The default socket of a user whose names another user takes first.
//!
//! Needs root, who acts as both.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use byway_conformance::skips::skip;
use byway_conformance::users::as_user;
use byway_tdm_daemon::{Daemon, Options};
use byway_tdm_engine::control::{Channel, default_socket};

/// Users that this machine need not know; each test has its own owner.
const OWNERS: [u32; 2] = [61_011, 61_012];
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
