//! Random calls under the library and without it.

use byway_tdm_tests::Run;

use crate::{KEEPER, rounds};

#[test]
fn random_calls_are_answered_as_without_the_library_and_no_acknowledged_byte_is_lost() {
    for seed in 0..rounds(8) {
        let mut run = Run::new(env!("CARGO_TARGET_TMPDIR"), KEEPER, seed);
        run.join(run.place().actor());
        run.go();
    }
}
