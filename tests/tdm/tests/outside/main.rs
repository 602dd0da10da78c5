//! Programs as they are, under the library.

#![allow(clippy::unwrap_used)]

mod attributes;
mod crowded;
mod differential;
mod escapes;
mod faults;
#[path = "dax_kills.rs"]
mod home_kills;
#[path = "dax.rs"]
mod homes;
#[path = "dax_stopped.rs"]
mod homes_still;
mod interrupted;
mod judged;
mod kills;
mod memory;
mod power;
mod programs;
#[path = "daemon_stopped.rs"]
mod still;
mod traps;
mod users;

use byway_tdm_tests::Place;

/// A place on the file system that the build is on.
fn place() -> Place {
    Place::new(env!("CARGO_TARGET_TMPDIR"))
}

/// A daemon that can be killed.
const KEEPER: &str = env!("CARGO_BIN_EXE_keeper");

/// So many rounds, or as many times more as BYWAY_TDM_TIMES says.
fn rounds(usual: u64) -> u64 {
    std::env::var("BYWAY_TDM_TIMES").map_or(usual, |times| usual * times.parse::<u64>().unwrap())
}
