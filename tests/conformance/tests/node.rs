//! The suite over a device that the environment names, `BYWAY_CONFORMANCE_DEVICE=URI`: one that may be overwritten, a test
//! at a time (`--test-threads=1`). `cargo test` leaves it out; tests/vm runs it where there are devices.

#![allow(clippy::unwrap_used)]

use byway::{Device, Key};
use byway_conformance::conformance;
use byway_conformance::keys::every_call;
use byway_conformance::scratch::Scratch;

fn named() -> Device {
    byway::open(&std::env::var("BYWAY_CONFORMANCE_DEVICE").unwrap()).unwrap()
}

conformance!(node, |_: &Scratch| named());

/// Of a namespace of keys, which is emptied: the others are for one of blocks. Where there is none, nothing is shown.
#[test]
fn keys_and_values_are_as_a_map_would_have_them() {
    let device = named();
    let Ok(mut kv) = device.kv(None) else { return };
    let keys: Vec<Key> = kv.keys(None).collect::<Result<_, _>>().unwrap();
    for key in keys {
        kv.delete(key.as_bytes()).unwrap();
    }
    every_call(&mut kv);
}
