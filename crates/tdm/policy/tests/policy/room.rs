//! Dividing device memory that is too small for all files.

use byway_tdm_policy::{Config, FileId, Level, Order, Policy, Reason, Room, Sample, Traits};

use crate::workloads::{IDLE, OUTSIDE, SQLITE_WAL, VALKEY_ALWAYS};
use crate::world::{Load, MIB, SECOND, World};

/// SQLite's log at a multiple of its load.
fn busier(times: f64) -> Load {
    let Load { writes, syncs, .. } = SQLITE_WAL;
    Load { writes: writes * times, syncs: syncs * times, ..SQLITE_WAL }
}

/// A device with room for one of these files.
fn narrow() -> World {
    World::new(Config::new(12 * MIB, 4_000_000_000))
}

#[test]
fn slightly_hotter_file_waits_with_the_score_it_needs() {
    let mut world = narrow();
    let old = world.open(Traits::empty(), 7 * MIB, SQLITE_WAL);
    world.run(60.0);
    let new = world.open(Traits::empty(), 7 * MIB, busier(1.3));
    world.run(600.0);
    assert_eq!(world.level(old), Level::Dax);
    assert_eq!(world.ways(new), [Level::Absorb]);
    let Reason::OthersSaveMore { room, needs_bytes, score, to_beat, .. } = world.held(new) else {
        panic!("{:?}", world.held(new));
    };
    assert_eq!((room, needs_bytes), (Room::Resident, 8 * MIB));
    assert!(score < to_beat, "{score} {to_beat}");
    // Saving of the resident, half as much more, and the move.
    let explained = |file| world.policy.explain(world.now_ns, file).unwrap().dax;
    let (resident, own) = (explained(old).score_of_resident(8 * MIB), explained(new));
    assert!((to_beat - resident * 1.5 - own.score_of_move()).abs() < 1.0, "{to_beat}");
}

#[test]
fn a_file_that_is_far_hotter_has_the_room_once_it_is_free() {
    let mut world = narrow();
    world.move_ticks = 5;
    let old = world.open(Traits::empty(), 7 * MIB, SQLITE_WAL);
    world.run(60.0);
    let new = world.open(Traits::empty(), 7 * MIB, busier(4.0));
    world.run(60.0);
    assert_eq!(world.level(new), Level::Dax);
    assert_eq!(world.ways(old), [Level::Absorb, Level::Dax, Level::Absorb]);
    assert!(matches!(world.why(old), Reason::DisplacedBy { by, .. } if by == new));
    // It left first, before the other entered.
    let at = |file, to| world.moves.iter().find(|(_, it)| it.file == file && it.to == to).unwrap().0;
    let left_ns = world.moves.iter().rev().find(|(_, it)| it.file == old).unwrap().0;
    assert!(at(new, Level::Dax) >= left_ns + SECOND / 2);
}

#[test]
fn the_worst_of_many_goes_first() {
    let mut world = World::new(Config::new(40 * MIB, 4_000_000_000));
    let files: Vec<_> =
        [3.0, 1.0, 2.0, 4.0].map(|times| world.open(Traits::empty(), 7 * MIB, busier(times))).into();
    world.run(60.0);
    let new = world.open(Traits::empty(), 7 * MIB, busier(9.0));
    world.run(60.0);
    let levels: Vec<_> = files.iter().map(|file| world.level(*file)).collect();
    assert_eq!(levels, [Level::Dax, Level::Absorb, Level::Dax, Level::Dax]);
    assert_eq!(world.level(new), Level::Dax);
}

#[test]
fn file_with_writes_in_flight_is_not_displaced() {
    let mut world = World::new(Config::new(20 * MIB, 4_000_000_000));
    let [worst, next] = [1.0, 1.2].map(|times| world.open(Traits::empty(), 7 * MIB, busier(times)));
    world.run(60.0);
    world.program(worst).sample.writes_in_flight = 1;
    let new = world.open(Traits::empty(), 7 * MIB, busier(9.0));
    world.run(60.0);
    let levels = [worst, next, new].map(|file| world.level(file));
    assert_eq!(levels, [Level::Dax, Level::Absorb, Level::Dax]);
}

#[test]
fn file_promoted_just_now_is_not_displaced_for_a_pin() {
    let mut world = narrow();
    let old = world.open(Traits::empty(), 7 * MIB, SQLITE_WAL);
    while world.level(old) != Level::Dax {
        world.run(0.1);
    }
    let new = world.open(Traits::empty(), 7 * MIB, IDLE);
    world.policy.order(new, Some(Order::Pin(Level::Dax)));
    world.run(1.5);
    assert_eq!(world.level(old), Level::Dax);
    world.run(2.0);
    assert_eq!(world.level(new), Level::Dax);
}

#[test]
fn a_file_that_leaves_device_memory_is_not_absorbed_where_logs_have_no_room() {
    let mut world = World::new(Config::new(16 * MIB, 4_000_000_000));
    // A tenth is 1.6 MiB: no log has more than half a MiB of it, and none less than 64 KiB.
    let logs: Vec<_> = (0..26).map(|_| world.open(Traits::empty(), MIB, IDLE)).collect();
    let file = world.open(Traits::empty(), MIB, SQLITE_WAL);
    world.run(10.0);
    assert_eq!(world.level(file), Level::Dax);
    for log in &logs {
        world.policy.order(*log, Some(Order::Pin(Level::Absorb)));
    }
    world.run(10.0);
    assert!(world.policy.resize(file, 10 * MIB));
    assert!(!world.policy.resize(file, 20 * MIB));
    world.run(1.0);
    assert_eq!(world.level(file), Level::Pass);
    assert!(matches!(world.why(file), Reason::NeedsMore { .. }));
}

#[test]
fn room_of_a_displaced_file_is_kept_for_the_file_that_displaces_it_and_free_room_is_not() {
    // 32 MiB: one has 24 of them, which another needs.
    let mut world = World::new(Config::new(40 * MIB, 4_000_000_000));
    world.move_ticks = 50;
    let old = world.open(Traits::empty(), 24 * MIB, busier(8.0));
    world.run(60.0);
    assert_eq!(world.level(old), Level::Dax);
    let [first, small] = [24, 7].map(|mib| world.open(Traits::empty(), mib * MIB, IDLE));
    world.policy.order(first, Some(Order::Pin(Level::Dax)));
    world.run(1.0);
    assert_eq!(world.held(first), Reason::WaitsForRoom { room: Room::Resident, needs_bytes: 24 * MIB });
    // 8 are free all the time.
    world.policy.order(small, Some(Order::Pin(Level::Dax)));
    world.run(0.1);
    assert_eq!(world.ways(small), [Level::Dax]);
    world.run(60.0);
    assert_eq!([world.level(first), world.level(small)], [Level::Dax; 2]);
}

#[test]
fn file_waiting_for_room_keeps_free_room_from_smaller_files() {
    let mut world = World::new(Config::new(40 * MIB, 4_000_000_000));
    world.move_ticks = 50;
    let old = world.open(Traits::empty(), 24 * MIB, busier(8.0));
    world.run(60.0);
    assert_eq!(world.level(old), Level::Dax);
    let [large, small] = [30, 7].map(|mib| world.open(Traits::empty(), mib * MIB, IDLE));
    world.policy.order(large, Some(Order::Pin(Level::Dax)));
    world.run(1.0);
    world.policy.order(small, Some(Order::Pin(Level::Dax)));
    world.run(60.0);
    assert_eq!(world.level(large), Level::Dax);
    assert!(matches!(world.held(small), Reason::OthersSaveMore { .. }));
}

#[test]
fn logs_that_are_all_of_one_size_are_given_out_until_none_is_left() {
    let config = Config::new(1 << 30, 4_000_000_000).logs_bytes(10 * MIB).log_bytes(3 * MIB);
    let mut world = World::new(config);
    let files: Vec<_> = (0..5).map(|_| world.open(Traits::APPEND, 0, VALKEY_ALWAYS)).collect();
    files.iter().for_each(|file| world.hinder(*file, Some(OUTSIDE)));
    world.run(20.0);
    assert_eq!(files.iter().filter(|file| world.level(**file) == Level::Absorb).count(), 3);
    assert_eq!(world.policy.usage(Room::Log).used_bytes, 9 * MIB);
}

#[test]
fn a_hundred_logs_share_what_room_there_is_and_none_is_moved_for_its_equal() {
    let mut world = World::gib();
    let files: Vec<_> = (0..150).map(|_| world.open(Traits::APPEND, 0, VALKEY_ALWAYS)).collect();
    files.iter().for_each(|file| world.hinder(*file, Some(OUTSIDE)));
    world.run(60.0);
    let absorbed = files.iter().filter(|file| world.level(**file) == Level::Absorb).count();
    assert!(absorbed >= 64, "{absorbed}");
    assert_eq!(world.moves.len(), absorbed);
}

#[test]
fn file_that_never_fits_gets_that_reason() {
    let mut world = narrow();
    let file = world.open(Traits::empty(), 100 * MIB, busier(8.0));
    world.run(60.0);
    assert_eq!(world.ways(file), [Level::Absorb]);
    assert!(matches!(world.held(file), Reason::TooLarge { room: Room::Resident, .. }));
}

#[test]
fn hot_chunks_alone_are_given_room_where_they_are_known() {
    let mut world = narrow();
    let file = world.open(Traits::empty(), 100 * MIB, SQLITE_WAL);
    world.program(file).sample.hot_bytes = Some(3 * MIB);
    world.run(60.0);
    assert_eq!(world.level(file), Level::Dax);
    assert_eq!(world.policy.usage(Room::Resident).used_bytes, 4 * MIB);
}

#[test]
fn log_too_small_for_one_sync_interval_is_replaced_by_a_larger_one() {
    let mut world = World::gib();
    let file = world.open(Traits::APPEND, 0, VALKEY_ALWAYS);
    world.hinder(file, Some(OUTSIDE));
    world.run(5.0);
    let before = world.policy.usage(Room::Log).used_bytes;
    world.set(file, Load { writes: 400.0, write_bytes: 30_000.0, syncs: 2.0, ..IDLE });
    world.program(file).truth.sync_byte_ns = 20.0;
    world.run(120.0);
    assert_eq!(world.level(file), Level::Absorb);
    assert!(world.policy.usage(Room::Log).used_bytes > before);
    assert!(
        world.moves.iter().any(|(_, it)| matches!(it.why, Reason::NeedsMore { .. })),
        "{:?}",
        world.moves
    );
}

#[test]
fn moves_take_a_tenth_of_the_device_at_most() {
    // A hundred files of 64 MiB, all hot: 400 MB a second may be moved.
    let mut world = World::new(Config::new(16 << 30, 4_000_000_000));
    let files: Vec<_> = (0..100).map(|_| world.open(Traits::empty(), 64 * MIB, busier(8.0))).collect();
    world.run(12.0);
    let moved = files.iter().filter(|file| world.level(**file) == Level::Dax).count();
    assert!((20..=72).contains(&moved), "{moved}");
    assert!(files.iter().any(|file| matches!(world.held(*file), Reason::MovesAreCapped { .. })));
    world.run(30.0);
    assert!(files.iter().all(|file| world.level(*file) == Level::Dax));
}

#[test]
fn bytes_drained_count_toward_the_cap_on_moves_like_bytes_filled() {
    let mut world = World::new(Config::new(1 << 30, 1_000_000_000));
    let [first, second] = [(); 2].map(|()| world.open(Traits::empty(), 90 * MIB, IDLE));
    world.policy.order(first, Some(Order::Pin(Level::Dax)));
    world.run(10.0);
    world.policy.order(first, Some(Order::Drain));
    world.run(0.1);
    assert_eq!(world.level(first), Level::Pass);
    world.policy.order(second, Some(Order::Pin(Level::Dax)));
    world.run(0.5);
    assert!(matches!(world.held(second), Reason::MovesAreCapped { .. }));
    world.run(1.0);
    assert_eq!(world.level(second), Level::Dax);
}

#[test]
fn drain_order_is_carried_out_beyond_the_cap_on_moves() {
    let mut world = World::new(Config::new(1 << 30, 1_000_000_000));
    let file = world.open(Traits::empty(), 400 * MIB, IDLE);
    world.policy.order(file, Some(Order::Pin(Level::Dax)));
    world.run(0.1);
    assert_eq!(world.level(file), Level::Dax);
    world.policy.order(file, Some(Order::Drain));
    world.run(0.1);
    assert_eq!(world.level(file), Level::Pass);
}

#[test]
fn file_waiting_for_its_move_keeps_room_from_faster_files() {
    // 16 MiB of room, and 2 MB a second are moved.
    let mut world = World::new(Config::new(20 * MIB, 20_000_000));
    let spent = world.open(Traits::empty(), 2_000_000, IDLE);
    world.policy.order(spent, Some(Order::Pin(Level::Dax)));
    world.run(0.1);
    assert_eq!(world.level(spent), Level::Dax);
    world.programs.retain(|program| program.id != spent);
    world.policy.forget(spent);
    let [large, small] = [16 * MIB, 100_000].map(|size| world.open(Traits::empty(), size, IDLE));
    for file in [large, small] {
        world.policy.order(file, Some(Order::Pin(Level::Dax)));
    }
    world.run(2.0);
    assert_eq!(world.ways(large), [Level::Dax]);
    assert_eq!(world.ways(small), []);
}

#[test]
fn a_file_grows_where_it_is_while_there_is_room_and_leaves_when_there_is_none() {
    let mut world = narrow();
    let file = world.open(Traits::empty(), 3 * MIB, SQLITE_WAL);
    world.run(20.0);
    assert_eq!(world.level(file), Level::Dax);
    assert!(world.policy.resize(file, 8 * MIB));
    assert_eq!(world.policy.usage(Room::Resident).used_bytes, 8 * MIB);
    assert!(!world.policy.resize(file, 10 * MIB));
    assert_eq!(world.policy.usage(Room::Resident).used_bytes, 8 * MIB);
    world.run(1.0);
    assert!(world.level(file) < Level::Dax);
    assert!(matches!(world.why(file), Reason::NeedsMore { .. }));
}

#[test]
fn a_move_that_fails_is_tried_again_later_each_time_and_its_room_is_free_meanwhile() {
    let mut policy = Policy::new(Config::new(1 << 30, 4_000_000_000));
    let file = FileId(1);
    policy.open(0, file, None);
    policy.order(file, Some(Order::Pin(Level::Dax)));
    let mut tried = Vec::new();
    for second in 1..200 {
        let now_ns = second * SECOND;
        policy.observe(now_ns, file, &Sample::default());
        for decision in policy.decide(now_ns) {
            assert!(policy.usage(Room::Resident).used_bytes > 0);
            tried.push(second);
            policy.failed(now_ns, decision.file);
            assert_eq!(policy.usage(Room::Resident).used_bytes, 0);
        }
    }
    let waits: Vec<_> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [4, 8, 16, 32, 64]);
}

#[test]
fn a_file_that_is_forgotten_leaves_its_room() {
    let mut world = World::gib();
    let file = world.open(Traits::APPEND, 0, VALKEY_ALWAYS);
    world.run(1.0);
    assert!(world.policy.usage(Room::Log).used_bytes > 0);
    world.policy.forget(file);
    assert_eq!(world.policy.usage(Room::Log).used_bytes, 0);
    assert_eq!(world.policy.level(file), None);
    assert!(world.policy.explain(world.now_ns, file).is_none());
}

#[test]
fn files_of_a_daemon_before_this_one_keep_their_places() {
    let mut policy = Policy::new(Config::new(1 << 30, 4_000_000_000));
    let file = FileId(3);
    policy.adopt(0, file, None, Level::Absorb, MIB);
    assert_eq!(policy.usage(Room::Log).used_bytes, MIB);
    // Its counters go on from where they were: what was counted before is no burst of now.
    let mut sample = Sample { traits: Traits::APPEND, ..Sample::default() };
    (sample.counts.writes, sample.counts.written_bytes, sample.counts.syncs) = (1 << 40, 1 << 50, 1 << 40);
    policy.observe(SECOND, file, &sample);
    assert_eq!(policy.decide(SECOND), []);
    let explained = policy.explain(SECOND, file).unwrap();
    assert_eq!((explained.level, explained.why, explained.fast.syncs), (Level::Absorb, Reason::Adopted, 0.0));
}
