//! Real power is lost at any moment: what was synced is there, whole, and of the rest each write wholly or not at all.
//!
//! The image is a file that forgets ([`byway_forgetful`]): after a cut any sector may be as it was at any moment since
//! the last sync. Cuts come at any event of the file, one after the other on the same image, with deaths of the
//! process and orderly ends between them. A run of so many random lives: `BYWAY_TEST_CASES=1000`.
#![allow(clippy::unwrap_used)]

mod device;
mod leases;
mod life;
mod model;
mod points;
mod scripted;

use byway_flash::Durability;
use life::{Base, run};
use proptest::prelude::*;

const CASES: u32 = 4;

fn cases() -> ProptestConfig {
    ProptestConfig { cases: byway_kit::cases(CASES), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn with_media_durability_nothing_acknowledged_is_lost_or_torn(seed: u64, steps in 1u64..60) {
        run(Base::shared(), seed, steps, Durability::Media, false).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn without_capacitors_nothing_flushed_is_lost_or_torn(seed: u64, steps in 1u64..60) {
        run(Base::shared(), seed, steps, Durability::Volatile, false).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn of_units_written_by_leases_nothing_flushed_is_lost_or_torn(seed: u64, steps in 1u64..60) {
        run(Base::shared(), seed, steps, Durability::Volatile, true).map_err(TestCaseError::fail)?;
    }
}
