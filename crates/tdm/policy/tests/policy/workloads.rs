//! Levels of known programs' files, and the number of moves.

use byway_tdm_policy::{Cap, Config, Level, Reason, Traits};

use crate::world::{Load, MIB, SECOND, Truth, World};

/// `appendfsync always` with fifty clients: a write and a sync for each turn of its loop.
pub const VALKEY_ALWAYS: Load =
    Load { writes: 4000.0, write_bytes: 500.0, reads: 0.0, read_bytes: 0.0, syncs: 4000.0 };

/// `appendfsync everysec`: as many writes, and one sync by another thread.
pub const VALKEY_EVERYSEC: Load = Load { syncs: 1.0, ..VALKEY_ALWAYS };

/// `fillseq sync=1` of 100 bytes.
pub const ROCKSDB_WAL: Load =
    Load { writes: 2000.0, write_bytes: 130.0, reads: 0.0, read_bytes: 0.0, syncs: 2000.0 };

/// Inserts in WAL mode, synchronous=FULL: a header and a page for each frame.
pub const SQLITE_WAL: Load =
    Load { writes: 2000.0, write_bytes: 2060.0, reads: 100.0, read_bytes: 4096.0, syncs: 500.0 };

/// A backup that reads everything once.
pub const SCAN: Load =
    Load { writes: 0.0, write_bytes: 0.0, reads: 10_000.0, read_bytes: 131_072.0, syncs: 0.0 };

/// Files of tables: long writes, and a sync at the end of each 64 MiB.
pub const COMPACTION: Load =
    Load { writes: 600.0, write_bytes: 1_048_576.0, reads: 600.0, read_bytes: 1_048_576.0, syncs: 9.4 };

/// Random reads and writes of 4 KiB, a sync now and then.
pub const MIXED: Load =
    Load { writes: 3000.0, write_bytes: 4096.0, reads: 7000.0, read_bytes: 4096.0, syncs: 20.0 };

pub const IDLE: Load = Load { writes: 0.0, write_bytes: 0.0, reads: 0.0, read_bytes: 0.0, syncs: 0.0 };

/// Other programs may read the file unseen.
pub const OUTSIDE: Cap = Cap { level: Level::Absorb, why: Reason::ReadUnseen };

/// Opens a file whose readers are not all seen.
fn open_outside(world: &mut World, traits: Traits, size_bytes: u64, load: Load) -> byway_tdm_policy::FileId {
    let file = world.open(traits, size_bytes, load);
    world.hinder(file, Some(OUTSIDE));
    file
}

#[test]
fn a_log_that_syncs_each_write_is_absorbed_at_once_and_stays() {
    for load in [VALKEY_ALWAYS, ROCKSDB_WAL] {
        for traits in [Traits::APPEND, Traits::TRUNCATED, Traits::CREATED] {
            let mut world = World::gib();
            let file = open_outside(&mut world, traits, 0, load);
            world.run(600.0);
            assert_eq!(world.ways(file), [Level::Absorb], "{load:?}");
            assert_eq!(world.reached_ns(file, Level::Absorb), Some(SECOND / 10), "{load:?}");
            assert!(matches!(world.why(file), Reason::FastStart { .. }), "{load:?}");
        }
    }
}

#[test]
fn burst_is_seen_by_samples_far_from_each_other() {
    use byway_tdm_policy::{FileId, Policy, Sample};
    let mut policy = Policy::new(Config::new(1 << 30, 4_000_000_000));
    policy.open(0, FileId(1), None);
    let mut sample = Sample { traits: Traits::APPEND, ..Sample::default() };
    (sample.counts.writes, sample.counts.written_bytes, sample.counts.syncs) = (30, 3000, 29);
    policy.observe(SECOND, FileId(1), &sample);
    assert_eq!(policy.decide(SECOND), []);
    sample.counts.syncs += 30;
    policy.observe(2 * SECOND, FileId(1), &sample);
    assert_eq!(policy.decide(2 * SECOND)[0].to, Level::Absorb);
}

#[test]
fn a_log_that_is_written_in_place_is_absorbed_within_three_seconds() {
    let mut world = World::gib();
    let file = open_outside(&mut world, Traits::empty(), 4 * MIB, SQLITE_WAL);
    world.run(600.0);
    assert_eq!(world.ways(file), [Level::Absorb]);
    assert!(world.reached_ns(file, Level::Absorb).unwrap() <= 3 * SECOND);
}

#[test]
fn a_log_that_is_synced_once_a_second_is_absorbed_and_stays() {
    let mut world = World::gib();
    let file = open_outside(&mut world, Traits::APPEND, 0, VALKEY_EVERYSEC);
    world.program(file).truth.sync_byte_ns = 5.0;
    world.run(600.0);
    assert_eq!(world.ways(file), [Level::Absorb]);
    assert!(world.reached_ns(file, Level::Absorb).unwrap() <= 10 * SECOND);
}

#[test]
fn more_than_any_log_holds_is_absorbed_too_where_it_saves() {
    let mut world = World::gib();
    let file = open_outside(&mut world, Traits::APPEND, 0, Load { write_bytes: 20_000.0, ..VALKEY_EVERYSEC });
    world.program(file).truth.sync_byte_ns = 2.0;
    world.run(600.0);
    assert_eq!(world.ways(file), [Level::Absorb]);
}

#[test]
fn within_a_mount_a_busy_log_goes_on_to_device_memory() {
    let mut world = World::gib();
    let file = world.open(Traits::APPEND, 0, VALKEY_ALWAYS);
    world.run(600.0);
    assert_eq!(world.ways(file), [Level::Absorb, Level::Dax]);
}

#[test]
fn file_only_read_stays_at_pass() {
    let mut world = World::gib();
    let file = world.open(Traits::empty(), 4096 * MIB, SCAN);
    world.run(600.0);
    assert_eq!(world.ways(file), []);
    assert_eq!(world.held(file), Reason::NothingToSave);
}

#[test]
fn a_small_file_that_is_read_all_the_time_moves_where_device_memory_is_faster() {
    let mut config = Config::new(1 << 30, 4_000_000_000);
    config.costs.dax.read = byway_tdm_policy::Cost::new(60.0, 0.1);
    let mut world = World::new(config);
    let truth = Truth { costs: config.costs, ..Truth::default() };
    let reads = Load { reads: 100_000.0, read_bytes: 512.0, ..IDLE };
    let file = world.open_with(Traits::empty(), 8 * MIB, reads, truth, None);
    world.run(600.0);
    assert_eq!(world.ways(file), [Level::Dax]);
}

#[test]
fn long_writes_between_few_syncs_stay_with_the_kernel() {
    let mut world = World::gib();
    let file = open_outside(&mut world, Traits::CREATED, 64 * MIB, COMPACTION);
    world.program(file).truth.sync_byte_ns = 0.2;
    world.run(600.0);
    assert_eq!(world.ways(file), []);
    assert!(matches!(world.held(file), Reason::LongBetweenSyncs { .. }), "{:?}", world.held(file));
}

#[test]
fn logging_that_costs_more_than_syncing_is_not_begun() {
    let mut world = World::gib();
    let syncs = Load { writes: 500.0, write_bytes: 1_048_576.0, syncs: 100.0, ..IDLE };
    let file = open_outside(&mut world, Traits::APPEND, 64 * MIB, syncs);
    world.program(file).truth.sync_byte_ns = 0.2;
    world.run(600.0);
    assert_eq!(world.ways(file), []);
    assert!(matches!(world.held(file), Reason::LongBetweenSyncs { .. }), "{:?}", world.held(file));
}

#[test]
fn mixed_work_over_more_than_the_device_is_absorbed_at_most() {
    let mut world = World::gib();
    let file = world.open(Traits::empty(), 2048 * MIB, MIXED);
    world.run(600.0);
    assert!(world.ways(file).len() <= 1, "{:?}", world.moves);
    assert!(world.level(file) <= Level::Absorb);
}

#[test]
fn a_log_that_goes_idle_gives_its_room_back_and_is_absorbed_again_when_it_wakes() {
    let mut world = World::gib();
    let file = open_outside(&mut world, Traits::APPEND, 0, VALKEY_ALWAYS);
    world.run(60.0);
    world.set(file, IDLE);
    world.run(400.0);
    assert_eq!(world.ways(file), [Level::Absorb, Level::Pass]);
    assert!(matches!(world.why(file), Reason::Cold { .. }));
    world.set(file, VALKEY_ALWAYS);
    world.run(0.2);
    assert_eq!(world.ways(file), [Level::Absorb, Level::Pass, Level::Absorb]);
}

#[test]
fn a_file_stays_for_a_quarter_of_what_it_came_for_and_no_less() {
    let mut world = World::gib();
    let mut truth = Truth { sync_byte_ns: 0.0, ..Truth::default() };
    truth.costs.lower.sync.call_ns = 10_000.0;
    let syncs = |a_second: f64| Load { writes: a_second, write_bytes: 64.0, syncs: a_second, ..IDLE };
    let file = world.open_with(Traits::empty(), MIB, syncs(200.0), truth, None);
    world.hinder(file, Some(OUTSIDE));
    // It came for 2 ms a second, and 0.1 are wanted.
    world.run(10.0);
    assert_eq!(world.level(file), Level::Absorb);
    world.set(file, syncs(5.0));
    world.run(600.0);
    assert_eq!(world.level(file), Level::Absorb);
    world.set(file, syncs(1.0));
    world.run(600.0);
    assert_eq!(world.ways(file), [Level::Absorb, Level::Pass]);
}

#[test]
fn saving_below_a_ten_thousandth_of_the_time_causes_no_move() {
    let mut world = World::gib();
    let mut truth = Truth { sync_byte_ns: 0.0, ..Truth::default() };
    truth.costs.lower.sync.call_ns = 2000.0;
    let load = Load { writes: 20.0, write_bytes: 64.0, syncs: 20.0, ..IDLE };
    let file = world.open_with(Traits::empty(), MIB, load, truth, None);
    world.run(600.0);
    assert_eq!(world.ways(file), []);
    assert!(matches!(world.held(file), Reason::TooLittle { .. }), "{:?}", world.held(file));
}

#[test]
fn a_log_that_pauses_for_seconds_keeps_its_place() {
    let mut world = World::gib();
    let file = open_outside(&mut world, Traits::APPEND, 0, VALKEY_ALWAYS);
    for _ in 0..60 {
        world.set(file, VALKEY_ALWAYS);
        world.run(2.0);
        world.set(file, IDLE);
        world.run(8.0);
    }
    assert_eq!(world.ways(file), [Level::Absorb]);
}

#[test]
fn a_log_that_turns_into_a_long_copy_is_left_to_the_kernel_in_seconds() {
    let mut world = World::gib();
    let file = open_outside(&mut world, Traits::APPEND, 0, VALKEY_ALWAYS);
    world.run(60.0);
    world.set(file, Load { syncs: 0.0, ..COMPACTION });
    world.run(8.0);
    assert_eq!(world.level(file), Level::Pass);
    assert!(
        matches!(world.why(file), Reason::CostsMore { .. } | Reason::SlowTail { .. }),
        "{:?}",
        world.why(file)
    );
}

#[test]
fn hotness_that_changes_places_every_few_seconds_moves_no_file_more_than_once_in_ten_seconds() {
    // Eight files that fit four at a time; a different half is hot every five seconds.
    let mut world = World::new(Config::new(40 * MIB, 4_000_000_000));
    world.move_ticks = 2;
    let size = 8 * MIB;
    let files: Vec<_> = (0..8).map(|_| world.open(Traits::empty(), size, IDLE)).collect();
    for turn in 0..60 {
        for (n, file) in files.iter().enumerate() {
            let hot = (n + turn) % 2 == 0;
            world.set(*file, if hot { SQLITE_WAL } else { IDLE });
        }
        world.run(5.0);
    }
    for file in files {
        assert!(world.ways(file).len() <= 30, "{} moves of {file}", world.ways(file).len());
    }
}

#[test]
fn hotness_that_moves_on_for_good_takes_the_room_along() {
    let mut world = World::new(Config::new(12 * MIB, 4_000_000_000));
    let [old, new] = [(); 2].map(|()| world.open(Traits::empty(), 7 * MIB, IDLE));
    world.set(old, SQLITE_WAL);
    world.run(60.0);
    assert_eq!(world.level(old), Level::Dax);
    world.set(old, IDLE);
    world.set(new, SQLITE_WAL);
    world.run(60.0);
    assert_eq!(world.level(new), Level::Dax);
    assert!(world.moves.len() <= 6, "{:?}", world.moves);
}
