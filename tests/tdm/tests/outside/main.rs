//! Programs as they are, under the library.

#![allow(clippy::unwrap_used)]

mod attributes;
mod daemon_stopped;
mod dax;
mod dax_kills;
mod dax_stopped;
mod default_socket;
mod differential;
mod escapes;
mod faults;
mod full_table;
mod interrupted;
mod kills;
mod memory;
mod policy;
mod power;
mod programs;
mod transparency;
mod users;

use byway_tdm_tests::Place;

/// A place on the file system that the build is on.
fn place() -> Place {
    Place::new(env!("CARGO_TARGET_TMPDIR"))
}

/// A daemon that can be killed.
const DAEMON: &str = env!("CARGO_BIN_EXE_daemon");

/// So many rounds, or as many times more as BYWAY_TDM_TIMES says.
fn rounds(usual: u64) -> u64 {
    std::env::var("BYWAY_TDM_TIMES").map_or(usual, |times| usual * times.parse::<u64>().unwrap())
}
