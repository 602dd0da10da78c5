//! Random calls under the library and without it.

use byway_tdm_tests::Run;

use crate::{DAEMON, rounds};

#[test]
fn random_calls_match_and_lose_no_acknowledged_byte() {
    for seed in 0..rounds(8) {
        let mut run = Run::new(env!("CARGO_TARGET_TMPDIR"), DAEMON, seed);
        run.join(run.place().actor());
        run.go();
    }
}
