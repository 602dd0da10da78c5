//! Real power is lost at any moment: what a sync covered is there, whole, and of the rest each store and deletion wholly
//! or not at all.
//!
//! The image is a file that forgets ([`byway_forgetful`]). The device is so small that memtables are written out, runs
//! merged and logs compacted all the time. Cuts come at any event of the file, one after the other on the same image,
//! with deaths of the process and orderly ends between them. A run of so many random lives: `BYWAY_TEST_CASES=1000`.
#![allow(clippy::unwrap_used)]

mod batches;
mod life;
mod points;
mod stage;
mod step;

use byway_flash::Durability;
use life::{Base, run, run_with_batches};
use proptest::prelude::*;

const CASES: u32 = 8;

fn cases() -> ProptestConfig {
    ProptestConfig { cases: byway_kit::cases(CASES), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn with_media_durability_no_acknowledged_store_is_lost_or_torn(seed: u64, steps in 1u64..200) {
        run(Base::shared(), seed, steps, Durability::Media).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn without_capacitors_no_flushed_store_is_lost_or_torn(seed: u64, steps in 1u64..200) {
        run(Base::shared(), seed, steps, Durability::Volatile).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn no_batch_is_there_in_part(seed: u64, steps in 1u64..200, volatile: bool) {
        let durability = if volatile { Durability::Volatile } else { Durability::Media };
        run_with_batches(Base::shared(), seed, steps, durability).map_err(TestCaseError::fail)?;
    }
}

/// A stream was cut back to where a segment begins, and recovery freed that segment; the stream remembered it and wrote
/// into it once it had become a run's. The page of the run was lost.
#[test]
fn a_segment_that_recovery_frees_is_no_longer_its_streams() {
    for (seed, steps) in [(15_860_574_128_394_783_984, 198), (12_341_907_894_674_098_489, 131)] {
        run(Base::shared(), seed, steps, Durability::Volatile).unwrap();
    }
}
