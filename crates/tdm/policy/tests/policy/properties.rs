//! Properties that hold for any programs, orders and counters.

use byway_tdm_policy::{
    Call, Cap, Config, FileId, Histogram, Level, Order, Policy, Reason, Room, Sample, Traits,
};
use proptest::prelude::*;

use crate::workloads::{
    COMPACTION, IDLE, MIXED, OUTSIDE, ROCKSDB_WAL, SCAN, SQLITE_WAL, VALKEY_ALWAYS, VALKEY_EVERYSEC,
};
use crate::world::{Load, MIB, SECOND, Truth, World};

const LOADS: [Load; 8] =
    [IDLE, VALKEY_ALWAYS, VALKEY_EVERYSEC, ROCKSDB_WAL, SQLITE_WAL, SCAN, COMPACTION, MIXED];

/// An event of one file.
#[derive(Debug, Clone)]
enum Event {
    Load(Load),
    InFlight(u32),
    Order(Option<Order>),
    Cap(Option<Cap>),
    Size(u64),
    Truth { absorb_sync_ns: f64, slow: Option<(Call, u64)> },
    Resize(u64),
    Run(f64),
}

fn event() -> impl Strategy<Value = Event> {
    let level = prop::sample::select(Level::ALL.to_vec());
    let order =
        prop_oneof![level.prop_map(Order::Pin), Just(Order::Evict), Just(Order::Drain), Just(Order::Never),];
    let mapped = Cap { level: Level::Pass, why: Reason::Mapped };
    let slow = (prop::sample::select(Call::ALL.to_vec()), 100..10_000_000u64);
    prop_oneof![
        3 => prop::sample::select(LOADS.to_vec()).prop_map(Event::Load),
        1 => (0..2u32).prop_map(Event::InFlight),
        1 => prop::option::of(order).prop_map(Event::Order),
        1 => prop::sample::select(vec![None, Some(OUTSIDE), Some(mapped)]).prop_map(Event::Cap),
        1 => (0..200 * MIB).prop_map(Event::Size),
        1 => (10.0..1e6, prop::option::of(slow))
            .prop_map(|(absorb_sync_ns, slow)| Event::Truth { absorb_sync_ns, slow }),
        1 => (0..200 * MIB).prop_map(Event::Resize),
        6 => (0.1..12.0).prop_map(Event::Run),
    ]
}

fn happen(world: &mut World, file: FileId, event: &Event) {
    match event {
        Event::Load(load) => world.set(file, *load),
        Event::InFlight(writes) => world.program(file).sample.writes_in_flight = *writes,
        Event::Order(order) => assert!(world.policy.order(file, *order)),
        Event::Cap(cap) => world.hinder(file, *cap),
        Event::Size(bytes) => world.program(file).sample.size_bytes = *bytes,
        Event::Truth { absorb_sync_ns, slow } => {
            let truth = &mut world.program(file).truth;
            truth.costs.absorb.sync.call_ns = *absorb_sync_ns;
            truth.slow = *slow;
        }
        Event::Resize(bytes) => {
            let _ = world.policy.resize(file, *bytes);
        }
        Event::Run(seconds) => world.run(*seconds),
    }
}

/// Any counters.
fn any_sample() -> impl Strategy<Value = Sample> {
    let number = prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..10_000u64];
    (prop::collection::vec(number, 16), any::<u8>(), 0..2u32, prop::option::of(any::<u64>())).prop_map(
        |(n, bits, writes_in_flight, three_syncs_in_ns)| {
            let mut sample = Sample { writes_in_flight, three_syncs_in_ns, ..Sample::default() };
            let counts = &mut sample.counts;
            [counts.reads, counts.read_bytes, counts.writes, counts.written_bytes, counts.syncs] =
                [n[0], n[1], n[2], n[3], n[4]];
            for (at, call) in Call::ALL.into_iter().enumerate() {
                let mut timed = Histogram { total_ns: n[5 + at], ..Histogram::default() };
                timed.buckets[n[8 + at] as usize % timed.buckets.len()] = n[11 + at];
                (sample.lower[call], sample.level[call]) = (timed, timed);
            }
            (sample.size_bytes, sample.hot_bytes) = (n[14], Some(n[15]).filter(|_| bits & 64 != 0));
            sample.traits = Traits::from_bits_truncate(bits);
            sample
        },
    )
}

/// Saving of ABSORB after so many seconds of a load, and when it began.
fn absorbed(load: Load, truth: Truth) -> (f64, f64, Option<u64>) {
    let mut world = World::gib();
    let file = world.open_with(Traits::empty(), MIB, load, truth, None);
    world.hinder(file, Some(OUTSIDE));
    world.run(2.0);
    let absorb = world.policy.explain(world.now_ns, file).unwrap().absorb;
    world.run(20.0);
    (absorb.sure_ns(), absorb.score(), world.reached_ns(file, Level::Absorb))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The world checks capacity, stays, writes in flight and the cap on moves in every tick.
    #[test]
    fn random_events_break_no_policy_invariant(
        events in prop::collection::vec((0..6usize, event()), 1..60),
        device_mib in prop::sample::select(vec![0, 1, 16, 64, 256, 1024]),
        move_ticks in 0..30u64,
    ) {
        let mut world = World::new(Config::new(device_mib * MIB, 1_000_000_000));
        world.move_ticks = move_ticks;
        let traits = [Traits::APPEND, Traits::CREATED, Traits::empty()];
        let files: Vec<_> = (0..6).map(|n| world.open(traits[n % 3], n as u64 * 5 * MIB, LOADS[n])).collect();
        for (n, event) in events {
            happen(&mut world, files[n], &event);
        }
        world.run(30.0);
    }

    #[test]
    fn more_syncs_never_save_less_or_are_absorbed_later(
        load in prop::sample::select(LOADS[1..].to_vec()),
        syncs in 0.0..1000.0f64,
        more in 1.0..10.0f64,
    ) {
        let truth = Truth { sync_byte_ns: 0.0, ..Truth::default() };
        let few = absorbed(Load { syncs, ..load }, truth);
        let many = absorbed(Load { syncs: syncs * more, ..load }, truth);
        // Counters are whole numbers. At a slightly higher rate the last sync may be counted a tick earlier, and the averages of a
        // second then give it less weight: by no more than all of it.
        let one_sync_ns = truth.costs.lower.sync.call_ns;
        prop_assert!(many.0 >= few.0 - one_sync_ns, "{few:?} {many:?}");
        prop_assert!(few.1 <= 0.0 || many.1 >= few.1 - one_sync_ns, "{few:?} {many:?}");
        prop_assert!(few.2.is_none() || many.2.is_some_and(|ns| ns <= few.2.unwrap()), "{few:?} {many:?}");
    }

    #[test]
    fn slower_syncs_below_never_save_less(
        load in prop::sample::select(LOADS[1..].to_vec()),
        sync_ns in 1000.0..10_000_000.0f64,
        more in 1.0..10.0f64,
    ) {
        let truth = |ns| {
            let mut truth = Truth::default();
            truth.costs.lower.sync.call_ns = ns;
            truth
        };
        let (fast, slow) = (absorbed(load, truth(sync_ns)), absorbed(load, truth(sync_ns * more)));
        prop_assert!(slow.0 >= fast.0 - 1.0, "{fast:?} {slow:?}");
    }

    #[test]
    fn the_hotter_of_two_files_is_never_left_out_for_the_other(times in 2.0..20.0f64, first in any::<bool>()) {
        let mut world = World::new(Config::new(12 * MIB, 4_000_000_000));
        let hotter = Load { writes: SQLITE_WAL.writes * times, syncs: SQLITE_WAL.syncs * times, ..SQLITE_WAL };
        let loads = if first { [hotter, SQLITE_WAL] } else { [SQLITE_WAL, hotter] };
        let files = loads.map(|load| world.open(Traits::empty(), 7 * MIB, load));
        world.run(60.0);
        prop_assert_eq!(world.level(files[usize::from(!first)]), Level::Dax);
    }

    #[test]
    fn wrong_counters_break_no_policy_invariant(
        samples in prop::collection::vec((0..3u64, 0..5 * SECOND, any_sample()), 1..80),
    ) {
        let mut policy = Policy::new(Config::new(64 * MIB, 1_000_000_000));
        let mut now_ns = 0;
        (0..3).for_each(|n| policy.open(0, FileId(n), None));
        for (n, wait_ns, sample) in samples {
            now_ns += wait_ns;
            policy.observe(now_ns, FileId(n), &sample);
            for decision in policy.decide(now_ns) {
                prop_assert_ne!(decision.from, decision.to);
                policy.moved(now_ns, decision.file);
            }
            for room in Room::ALL {
                let usage = policy.usage(room);
                prop_assert!(usage.used_bytes <= usage.budget_bytes);
            }
            let text = policy.explain(now_ns, FileId(n)).unwrap().to_string();
            prop_assert!(!text.contains("NaN"), "{text}");
        }
    }

    #[test]
    fn the_same_samples_make_the_same_decisions(loads in prop::collection::vec((0..4usize, 0..8usize), 1..30)) {
        let run = || {
            let mut world = World::new(Config::new(64 * MIB, 1_000_000_000));
            let files: Vec<_> = (0..4).map(|_| world.open(Traits::APPEND, 3 * MIB, IDLE)).collect();
            for (file, load) in &loads {
                world.set(files[*file], LOADS[*load]);
                world.run(1.5);
            }
            world.moves
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn time_standing_or_going_back_is_tolerated() {
    let mut policy = Policy::new(Config::new(64 * MIB, 1_000_000_000));
    policy.open(SECOND, FileId(1), None);
    let mut sample = Sample { traits: Traits::APPEND, ..Sample::default() };
    for now_ns in [SECOND, SECOND, 0, 2 * SECOND, SECOND, 3 * SECOND] {
        sample.counts.syncs += 1;
        policy.observe(now_ns, FileId(1), &sample);
        policy.decide(now_ns);
    }
    assert_eq!(policy.explain(0, FileId(1)).unwrap().why, Reason::New);
}
