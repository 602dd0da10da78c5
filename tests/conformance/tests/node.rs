//! The suite over a device that the environment names, `BYWAY_CONFORMANCE_DEVICE=URI`: one that may be overwritten, a test
//! at a time (`--test-threads=1`). `cargo test` leaves it out; tests/vm runs it where there are devices.

#![allow(clippy::unwrap_used)]

use byway_conformance::conformance;
use byway_conformance::scratch::Scratch;

conformance!(node, |_: &Scratch| byway::open(&std::env::var("BYWAY_CONFORMANCE_DEVICE").unwrap()).unwrap());
