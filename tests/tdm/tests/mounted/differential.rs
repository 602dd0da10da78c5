//! Random calls in a mount and on the file system alone.

use byway_tdm_tests::{Mount, Run};

use crate::{KEEPER, MOUNTER, cannot, rounds};

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

#[test]
fn random_calls_in_a_mount_are_answered_as_without_it_and_no_acknowledged_byte_is_lost() {
    if cannot("random_calls_in_a_mount_are_answered_as_without_it_and_no_acknowledged_byte_is_lost") {
        return;
    }
    for seed in 0..rounds(8) {
        let mut run = Run::new(FOLDER, KEEPER, seed);
        let mount = Mount::start(MOUNTER, run.place());
        run.join(mount.actor());
        let _place = run.go();
        mount.end();
    }
}

#[test]
fn random_calls_in_a_mount_and_under_the_library_on_the_same_files_are_answered_as_without_both() {
    if cannot("random_calls_in_a_mount_and_under_the_library_on_the_same_files_are_answered_as_without_both")
    {
        return;
    }
    for seed in 0..rounds(8) {
        let mut run = Run::new(FOLDER, KEEPER, seed);
        let mount = Mount::start(MOUNTER, run.place());
        run.join(mount.actor());
        run.join(run.place().actor());
        let _place = run.go();
        mount.end();
    }
}
