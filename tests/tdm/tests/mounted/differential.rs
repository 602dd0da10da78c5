//! Random calls in a mount and on the file system alone.

use byway_tdm_tests::{Mount, Run};

use crate::{DAEMON, MOUNTER, cannot, rounds};

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

#[test]
fn random_calls_in_a_mount_match_and_lose_no_acknowledged_byte() {
    if cannot("random_calls_in_a_mount_match_and_lose_no_acknowledged_byte") {
        return;
    }
    for seed in 0..rounds(8) {
        let mut run = Run::new(FOLDER, DAEMON, seed);
        let mount = Mount::start(MOUNTER, run.place());
        run.join(mount.actor());
        let _place = run.go();
        mount.end();
    }
}

#[test]
fn random_calls_in_a_mount_and_under_the_library_match() {
    if cannot("random_calls_in_a_mount_and_under_the_library_match") {
        return;
    }
    for seed in 0..rounds(8) {
        let mut run = Run::new(FOLDER, DAEMON, seed);
        let mount = Mount::start(MOUNTER, run.place());
        run.join(mount.actor());
        run.join(run.place().actor());
        let _place = run.go();
        mount.end();
    }
}
