//! Real power is lost at any moment of a whole device: host, queues, controller, engines and flash over a file that forgets
//! ([`byway_forgetful`]). With `flush=media` whatever has a completion is there, with `flush=command` whatever a Flush covered.
//!
//! Cuts come at any event of the file. A completion counts from the moment that the device has stored it to host memory, taken
//! by the host or not; what has none may be there or not. A run of other seeds: `BYWAY_TEST_SEEDS=8..1000`.
#![allow(clippy::unwrap_used)]

mod device;
mod life;
mod model;
mod names;
mod points;
mod queues;
mod step;

use byway_flash::Durability;
use life::{Trial, run};
use model::Promise;

const CASES: u64 = 8;

fn seeds() -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("BYWAY_TEST_SEEDS") else { return 0..CASES };
    let (first, end) = asked.split_once("..").unwrap();
    first.parse().unwrap()..end.parse().unwrap()
}

fn nothing_is_lost(depth: u32, durability: Durability, promise: Promise) {
    for seed in seeds() {
        run(Trial { seed, depth, durability, promise }).unwrap();
    }
}

#[test]
fn with_flush_media_nothing_completed_is_lost_at_depth_1() {
    nothing_is_lost(1, Durability::Media, Promise::Completion);
}

#[test]
fn with_flush_media_nothing_completed_is_lost_at_depth_32() {
    nothing_is_lost(32, Durability::Media, Promise::Completion);
}

#[test]
fn with_flush_command_nothing_that_a_flush_covered_is_lost() {
    nothing_is_lost(1, Durability::Volatile, Promise::Flush);
    nothing_is_lost(32, Durability::Volatile, Promise::Flush);
}

/// All other syncs are made under `flush=command`: what is missing is the completion's own.
#[test]
fn without_the_sync_of_their_own_completions_are_lost() {
    for depth in [1, 32] {
        let (durability, promise) = (Durability::Volatile, Promise::Completion);
        let lost = (0..CASES).filter(|seed| run(Trial { seed: *seed, depth, durability, promise }).is_err());
        assert!(lost.count() > 0, "depth {depth}");
    }
    let lost = (0..CASES).filter(|seed| queues::run(*seed, Durability::Volatile).is_err());
    assert!(lost.count() > 0, "several queues");
}

#[test]
fn with_flush_media_nothing_completed_is_lost_of_several_queues_under_a_running_sync() {
    for seed in seeds() {
        queues::run(seed, Durability::Media).unwrap();
    }
}

/// A recovery opened a block: the sync of that counted, and vouched for units in the buffer that none had covered, when
/// the power was lost again before they were gone.
#[test]
fn syncs_in_the_midst_of_a_recovery_vouch_for_nothing() {
    run(Trial { seed: 159, depth: 1, durability: Durability::Volatile, promise: Promise::Flush }).unwrap();
}

/// A slot's header that reached the medium without the data was vouched for by the numbers of the next life.
#[test]
fn a_unit_that_no_sync_covered_is_not_believed_at_the_second_loss() {
    run(Trial { seed: 32, depth: 32, durability: Durability::Media, promise: Promise::Completion }).unwrap();
}
