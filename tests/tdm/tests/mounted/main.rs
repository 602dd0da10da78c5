//! Programs in a mount: no library, and served all the same.

#![allow(clippy::unwrap_used)]

mod differential;
mod errors;
mod files;
mod kills;
mod programs;
mod served;

use std::time::{Duration, Instant};

use byway_conformance::skips::skip;
use byway_tdm_engine::client::Session;
use byway_tdm_tests::{Actor, Mount, Place, cannot_mount};

/// A daemon that can be killed.
const DAEMON: &str = env!("CARGO_BIN_EXE_daemon");

/// A mount that can be killed.
const MOUNTER: &str = env!("CARGO_BIN_EXE_mounter");

/// A place on the file system that the build is on; none where no folder can be mounted.
fn place(test: &str) -> Option<Place> {
    (!cannot(test)).then(|| Place::new(env!("CARGO_TARGET_TMPDIR")))
}

/// Whether no folder can be mounted here: then the test is named among those that are skipped.
fn cannot(test: &str) -> bool {
    let why = cannot_mount();
    why.iter().for_each(|why| skip(test, why));
    why.is_some()
}

fn mount(place: &Place) -> Mount {
    Mount::start(MOUNTER, place)
}

/// Has a program in a mount open files until `log`, which it has open as `a`, is in the shared file table: a mount without a daemon looks for one now
/// and then.
fn await_listed(place: &Place, session: &Session, actor: &mut Actor) {
    let end = Instant::now() + Duration::from_secs(30);
    while session.file_table().find(place.key("log")).is_none() {
        assert!(Instant::now() < end, "the mount does not find the daemon");
        std::thread::sleep(Duration::from_millis(100));
        actor.does("open b other wce; fdatasync a");
    }
}

/// So many rounds, or as many times more as BYWAY_TDM_TIMES says.
fn rounds(usual: u64) -> u64 {
    std::env::var("BYWAY_TDM_TIMES").map_or(usual, |times| usual * times.parse::<u64>().unwrap())
}
