//! Real power is lost at any moment: what was synced is there, whole, and of the rest each write wholly or not at all.
//!
//! The image is a file that forgets ([`byway_forgetful`]): after a cut any sector may be as it was at any moment since
//! the last sync. Cuts come at any event of the file, one after the other on the same image, with deaths of the
//! process and orderly ends between them.
#![allow(clippy::unwrap_used)]

mod life;
mod model;
mod scripted;

use byway_flash::{Durability, SyncPoint};
use life::{Base, run};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    #[test]
    fn with_media_durability_nothing_acknowledged_is_lost_or_torn(seed: u64, steps in 1u64..60) {
        run(Base::shared(), seed, steps, Durability::Media, None).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn without_capacitors_nothing_flushed_is_lost_or_torn(seed: u64, steps in 1u64..60) {
        run(Base::shared(), seed, steps, Durability::Volatile, None).map_err(TestCaseError::fail)?;
    }
}

/// Points that this crate calls; those of engines are proven with them.
const OWN: [SyncPoint; 8] = [
    SyncPoint::PowerOn,
    SyncPoint::BlockErase,
    SyncPoint::BlockOpen,
    SyncPoint::BufferSlot,
    SyncPoint::NamespaceCopy,
    SyncPoint::NamespaceSelect,
    SyncPoint::NamespaceLeave,
    SyncPoint::NamespaceGone,
];

#[test]
#[ignore = "takes minutes; run it in release after a change of the order of syncs"]
fn every_sync_point_is_necessary() {
    let silent = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let unnoticed: Vec<SyncPoint> = OWN.into_iter().filter(|point| !is_noticed(*point)).collect();
    std::panic::set_hook(silent);
    assert_eq!(unnoticed, [], "left out, and nothing was lost or torn");
}

/// Whether some seed fails when a point is left out.
fn is_noticed(point: SyncPoint) -> bool {
    (0..400).any(|seed| {
        let ended = std::panic::catch_unwind(|| {
            run(Base::shared(), seed, 120, Durability::Volatile, Some(point)).is_err()
        });
        ended.unwrap_or(true)
    })
}
