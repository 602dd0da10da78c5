//! Orders by hand and by rule precede measurements.

use byway_tdm_policy::{Cap, Config, Level, Order, Reason, Traits};

use crate::workloads::{IDLE, OUTSIDE, SQLITE_WAL, VALKEY_ALWAYS};
use crate::world::{MIB, SECOND, Truth, World};

#[test]
fn a_pinned_file_goes_where_it_is_pinned_and_stays_though_it_does_nothing() {
    for level in [Level::Absorb, Level::Dax] {
        let mut world = World::gib();
        let file = world.open(Traits::empty(), MIB, IDLE);
        assert!(world.policy.order(file, Some(Order::Pin(level))));
        world.run(600.0);
        assert_eq!(world.ways(file), [level]);
        world.policy.order(file, None);
        world.run(20.0);
        assert_eq!(world.level(file), Level::Pass);
    }
}

#[test]
fn a_pinned_file_displaces_the_hottest_that_is_not_and_never_another_that_is() {
    let mut world = World::new(Config::new(12 * MIB, 4_000_000_000));
    let hot = world.open(Traits::empty(), 7 * MIB, SQLITE_WAL);
    world.run(20.0);
    assert_eq!(world.level(hot), Level::Dax);
    let [first, second] = [(); 2].map(|()| world.open(Traits::empty(), 7 * MIB, IDLE));
    world.policy.order(first, Some(Order::Pin(Level::Dax)));
    world.run(5.0);
    assert_eq!(world.level(first), Level::Dax);
    assert!(world.level(hot) < Level::Dax);
    assert!(matches!(world.why(hot), Reason::DisplacedBy { by, .. } if by == first));
    world.policy.order(second, Some(Order::Pin(Level::Dax)));
    world.run(60.0);
    assert_eq!(world.level(first), Level::Dax);
    assert!(matches!(world.held(second), Reason::OthersSaveMore { .. }));
    assert_eq!(world.ways(first), [Level::Dax]);
}

#[test]
fn a_pin_by_hand_need_not_wait_for_a_file_to_have_settled() {
    let mut world = World::gib();
    let file = world.open(Traits::APPEND, 0, VALKEY_ALWAYS);
    world.run(0.1);
    assert_eq!(world.level(file), Level::Absorb);
    world.policy.order(file, Some(Order::Pin(Level::Dax)));
    world.run(0.1);
    assert_eq!(world.level(file), Level::Dax);
}

#[test]
fn a_pin_reaches_no_higher_than_what_is_possible() {
    let mut world = World::gib();
    let file = world.open(Traits::empty(), MIB, IDLE);
    world.hinder(file, Some(OUTSIDE));
    world.policy.order(file, Some(Order::Pin(Level::Dax)));
    world.run(60.0);
    assert_eq!(world.ways(file), [Level::Absorb]);
    assert_eq!(world.held(file), OUTSIDE.why);
}

#[test]
fn excluded_file_is_never_promoted_by_order_or_rule() {
    let mut world = World::gib();
    let ruled = world.open_with(Traits::APPEND, 0, VALKEY_ALWAYS, Truth::default(), Some(Order::Never));
    let reported = world.open(Traits::APPEND, 0, VALKEY_ALWAYS);
    world.policy.order(reported, Some(Order::Never));
    world.run(60.0);
    assert_eq!(world.moves, []);
    assert_eq!(world.held(ruled), Reason::Ruled(Order::Never));
    assert_eq!(world.held(reported), Reason::Ordered(Order::Never));
}

#[test]
fn an_order_by_hand_stands_above_a_rule_and_the_rule_holds_when_it_is_taken_back() {
    let mut world = World::gib();
    let file = world.open_with(Traits::APPEND, 0, VALKEY_ALWAYS, Truth::default(), Some(Order::Never));
    world.hinder(file, Some(OUTSIDE));
    world.policy.order(file, Some(Order::Pin(Level::Absorb)));
    world.run(1.0);
    assert_eq!(world.level(file), Level::Absorb);
    world.policy.order(file, None);
    world.run(1.0);
    assert_eq!(world.level(file), Level::Pass);
    assert_eq!(world.why(file), Reason::Ruled(Order::Never));
    world.policy.rule(file, None);
    world.run(5.0);
    assert_eq!(world.level(file), Level::Absorb);
}

#[test]
fn a_drained_file_stays_out_until_the_order_is_taken_back() {
    let mut world = World::gib();
    let file = world.open(Traits::APPEND, 0, VALKEY_ALWAYS);
    world.hinder(file, Some(OUTSIDE));
    world.run(1.0);
    world.policy.order(file, Some(Order::Drain));
    world.run(300.0);
    assert_eq!(world.ways(file), [Level::Absorb, Level::Pass]);
    world.policy.order(file, None);
    world.run(1.0);
    assert_eq!(world.level(file), Level::Absorb);
}

#[test]
fn an_evicted_file_is_out_at_once_and_may_come_back_after_fifteen_seconds() {
    let mut world = World::gib();
    let file = world.open(Traits::APPEND, 0, VALKEY_ALWAYS);
    world.hinder(file, Some(OUTSIDE));
    world.run(1.0);
    world.policy.order(file, Some(Order::Evict));
    world.run(0.1);
    assert_eq!(world.level(file), Level::Pass);
    world.run(300.0);
    assert_eq!(world.ways(file), [Level::Absorb, Level::Pass, Level::Absorb]);
    let times: Vec<_> = world.moves.iter().map(|(at_ns, _)| *at_ns).collect();
    assert!(times[2] - times[1] >= 15 * SECOND);
}

#[test]
fn even_an_order_waits_for_writes_in_flight() {
    let mut world = World::gib();
    let file = world.open(Traits::APPEND, 0, VALKEY_ALWAYS);
    world.run(5.0);
    let level = world.level(file);
    assert!(level > Level::Pass);
    world.program(file).sample.writes_in_flight = 1;
    world.policy.order(file, Some(Order::Drain));
    world.run(60.0);
    assert_eq!(world.level(file), level);
    assert_eq!(world.held(file), Reason::InFlight { to: Level::Pass });
    world.program(file).sample.writes_in_flight = 0;
    world.run(0.1);
    assert_eq!(world.level(file), Level::Pass);
}

#[test]
fn a_file_that_something_unseen_opens_is_brought_back_before_its_time() {
    let mut world = World::gib();
    let file = world.open(Traits::APPEND, 0, VALKEY_ALWAYS);
    world.run(0.2);
    assert_eq!(world.level(file), Level::Absorb);
    let mapped = Cap { level: Level::Pass, why: Reason::Mapped };
    world.hinder(file, Some(mapped));
    world.run(0.1);
    assert_eq!(world.level(file), Level::Pass);
    assert_eq!(world.why(file), mapped.why);
}

#[test]
fn order_for_an_unknown_file_is_reported() {
    let mut world = World::gib();
    assert!(!world.policy.order(byway_tdm_policy::FileId(7), Some(Order::Drain)));
    let file = world.open(Traits::empty(), 0, IDLE);
    assert!(world.policy.order(file, Some(Order::Evict)));
    world.run(10.0);
    assert_eq!(world.moves, []);
}
