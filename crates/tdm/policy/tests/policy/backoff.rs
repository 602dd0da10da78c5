//! A level that is slower than PASS is left and tried ever more rarely.

use byway_tdm_policy::{Call, Cap, Config, Cost, Level, Reason, Tail, Traits};

use crate::workloads::{IDLE, OUTSIDE, VALKEY_ALWAYS};
use crate::world::{Load, MIB, SECOND, Truth, World};

/// Seconds between decisions to enter a level.
fn entered_s(world: &World, level: Level) -> Vec<u64> {
    world.moves.iter().filter(|(_, to)| to.to == level).map(|(at_ns, _)| at_ns / SECOND).collect()
}

#[test]
fn records_that_cost_more_than_syncs_are_found_out_and_tried_less_and_less_often() {
    let mut world = World::gib();
    let mut truth = Truth::default();
    truth.costs.absorb.sync = Cost::new(400_000.0, 0.0);
    let file = world.open_with(Traits::APPEND, 0, VALKEY_ALWAYS, truth, None);
    world.hinder(file, Some(OUTSIDE));
    world.run(20.0);
    assert_eq!(world.level(file), Level::Pass);
    assert!(
        matches!(world.why(file), Reason::CostsMore { .. } | Reason::SlowTail { .. }),
        "{:?}",
        world.why(file)
    );
    world.run(7200.0);
    let entered = entered_s(&world, Level::Absorb);
    assert!(entered.len() <= 16, "{entered:?}");
    assert!(entered.len() >= 3, "never tried again: {entered:?}");
}

#[test]
fn a_slow_tail_is_reason_enough_where_the_mean_is_good() {
    let mut world = World::gib();
    let truth = Truth { slow: Some((Call::Sync, 5_000_000)), ..Truth::default() };
    let file = world.open_with(Traits::APPEND, 0, VALKEY_ALWAYS, truth, None);
    world.hinder(file, Some(OUTSIDE));
    world.run(5.0);
    assert_eq!(world.ways(file), [Level::Absorb, Level::Pass]);
    assert!(matches!(world.why(file), Reason::SlowTail { .. }));
    world.run(3600.0);
    // 4, 8, 16, ... seconds, then every ten minutes.
    let entered = entered_s(&world, Level::Absorb);
    assert!(entered.len() <= 15, "{entered:?}");
    let waits: Vec<_> = entered.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted(), "{waits:?}");
}

#[test]
fn reads_that_miss_the_devices_cache_bring_a_file_back_to_the_kernel() {
    let mut config = Config::new(1 << 30, 4_000_000_000);
    config.costs.dax.read = Cost::new(60.0, 0.1);
    let mut world = World::new(config);
    let truth = Truth { costs: config.costs, slow: Some((Call::Read, 80_000)), ..Truth::default() };
    let reads = Load { reads: 100_000.0, read_bytes: 512.0, ..IDLE };
    let file = world.open_with(Traits::empty(), 8 * MIB, reads, truth, None);
    world.run(3600.0);
    assert_eq!(world.level(file), Level::Pass);
    let entered = entered_s(&world, Level::Dax);
    assert!((1..=10).contains(&entered.len()), "{entered:?}");
}

#[test]
fn device_memory_that_is_slower_than_absorbing_gives_way_to_it() {
    let mut world = World::gib();
    let mut truth = Truth::default();
    truth.costs.dax.sync = Cost::new(20_000.0, 0.0);
    let file = world.open_with(Traits::APPEND, 0, VALKEY_ALWAYS, truth, None);
    world.run(30.0);
    assert_eq!(world.ways(file), [Level::Absorb, Level::Dax, Level::Absorb]);
    assert!(matches!(world.why(file), Reason::CostsMore { .. }), "{:?}", world.why(file));
}

#[test]
fn files_with_free_syncs_are_not_absorbed() {
    let mut world = World::gib();
    let mut truth = Truth::default();
    truth.costs.lower.sync = Cost::new(90.0, 0.0);
    truth.sync_byte_ns = 0.0;
    // Nothing is known of that file system yet, so the first seconds count as those of a disk.
    let first = world.open_with(Traits::empty(), MIB, VALKEY_ALWAYS, truth, None);
    let cap = Cap { level: Level::Absorb, ..OUTSIDE };
    world.hinder(first, Some(cap));
    world.run(60.0);
    assert_eq!(world.ways(first), []);
    // What is known of one file counts for others.
    let second = world.open_with(Traits::APPEND, 0, VALKEY_ALWAYS, truth, None);
    world.hinder(second, Some(cap));
    world.run(60.0);
    assert_eq!(world.ways(second), []);
}

#[test]
fn a_good_tail_that_is_measured_in_shadows_keeps_a_file_where_it_is() {
    let mut world = World::gib();
    let file = world.open_with(Traits::APPEND, 0, VALKEY_ALWAYS, Truth::default(), None);
    world.hinder(file, Some(OUTSIDE));
    world.run(1800.0);
    assert_eq!(world.ways(file), [Level::Absorb]);
}

#[test]
fn a_slow_tail_of_reads_is_reason_enough_where_the_mean_is_good() {
    let mut config = Config::new(1 << 30, 4_000_000_000);
    config.costs.dax.read = Cost::new(60.0, 0.1);
    let mut world = World::new(config);
    let truth = Truth { costs: config.costs, slow: Some((Call::Read, 5000)), ..Truth::default() };
    let reads = Load { reads: 100_000.0, read_bytes: 512.0, ..IDLE };
    let file = world.open_with(Traits::empty(), 8 * MIB, reads, truth, None);
    world.run(30.0);
    assert_eq!(world.ways(file)[..2], [Level::Dax, Level::Pass]);
    let why = world.moves[1].1.why;
    assert!(matches!(why, Reason::SlowTail { tail: Tail::Reads, .. }), "{why:?}");
}

#[test]
fn cost_added_to_slow_writes_counts_against_absorbing() {
    let mut config = Config::new(1 << 30, 4_000_000_000);
    config.costs.absorb.write = Cost::new(110.0, 0.0);
    config.costs.lower.sync.call_ns = 1400.0;
    let mut world = World::new(config);
    // A long write takes 20 µs below, and one in fifty records 5 µs: more than the sync that it saves.
    let slow = Some((Call::Write, 5000));
    let truth = Truth { costs: config.costs, slow, sync_byte_ns: 0.0 };
    let load = Load { writes: 20_000.0, write_bytes: 65_536.0, syncs: 20_000.0, ..IDLE };
    let file = world.open_with(Traits::empty(), 8 * MIB, load, truth, None);
    world.hinder(file, Some(OUTSIDE));
    world.run(30.0);
    assert_eq!(world.ways(file)[..2], [Level::Absorb, Level::Pass]);
    let why = world.moves[1].1.why;
    assert!(matches!(why, Reason::SlowTail { tail: Tail::Commits, .. }), "{why:?}");
}

#[test]
fn a_log_that_begins_is_left_where_its_first_syncs_cost_next_to_nothing() {
    let mut world = World::gib();
    let mut truth = Truth::default();
    truth.costs.lower.sync = Cost::new(90.0, 0.0);
    truth.sync_byte_ns = 0.0;
    let log = world.open_with(Traits::APPEND, 0, VALKEY_ALWAYS, truth, None);
    world.hinder(log, Some(Cap { level: Level::Absorb, ..OUTSIDE }));
    world.run(60.0);
    assert_eq!(world.ways(log), []);
}
