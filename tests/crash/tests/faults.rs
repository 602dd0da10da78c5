//! File systems that are full or failing, at each operation of a script.
#![allow(clippy::unwrap_used)]

use byway_crash_tests::fault::{Fault, On, Outcome, Script};

/// One operation in this many is made to fail; a recorded run takes each.
const EVERY: u64 = 6;

fn fail_each(on: On, full: bool) -> Vec<Outcome> {
    let dir = tempfile::tempdir().unwrap();
    let (base, image) = (dir.path().join("base"), dir.path().join("image"));
    let script = Script::new(&base, "&transfer=adaptive").unwrap();
    let operations = script.operations(on, &image).unwrap();
    println!("{operations} operations");
    let mut outcomes = Vec::new();
    for lasts in [false, true] {
        for at in (0..operations).step_by(EVERY as usize) {
            let fault = Fault { on, at, lasts, full };
            let outcome = script.run(&image, fault).unwrap_or_else(|said| panic!("{fault:?}: {said}"));
            assert!(outcome.hit, "{fault:?}");
            outcomes.push(outcome);
        }
    }
    outcomes
}

#[test]
fn a_failing_disk_makes_the_device_read_only_and_loses_nothing() {
    let outcomes = fail_each(On::Writes, false);
    assert!(outcomes.iter().filter(|outcome| outcome.read_only).count() * 2 > outcomes.len());
}

#[test]
fn a_full_disk_refuses_commands_and_loses_nothing() {
    let outcomes = fail_each(On::Writes, true);
    assert!(outcomes.iter().any(|outcome| outcome.failed_steps > 0));
}

#[test]
fn reads_that_fail_are_reported_and_lose_nothing() {
    fail_each(On::Reads, false);
}
