//! Programs as they are, under the library.

#![allow(clippy::unwrap_used)]

mod escapes;
mod traps;

use byway_tdm_tests::Place;

/// A place on the file system that the build is on.
fn place() -> Place {
    Place::new(env!("CARGO_TARGET_TMPDIR"))
}

/// A daemon that can be killed.
const KEEPER: &str = env!("CARGO_BIN_EXE_keeper");
