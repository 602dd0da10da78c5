//! Every reason is a sentence, with the numbers that led to it.

use byway_tdm_policy::{FileId, Level, Order, Reason, Room, Tail, Traits};

use crate::workloads::{OUTSIDE, SCAN, VALKEY_ALWAYS};
use crate::world::{Load, MIB, World};

#[test]
fn reasons_are_sentences_with_their_numbers() {
    let said = [
        (Reason::FastStart { syncs: 3, in_ns: 12_000_000 }, "a log that begins: 3 syncs in 12 ms"),
        (
            Reason::Pays { saves_ns: 90e6, needs_ns: 1e6 },
            "it saves 90 ms a second, 89 ms more than its moves cost",
        ),
        (Reason::Settling { windows: 1, of: 2 }, "it paid in 1 of 2 windows in a row"),
        (Reason::Idle { for_ns: 3_000_000_000 }, "no program has used it for 3 s"),
        (
            Reason::TooLittle { saves_ns: 5e4, needs_ns: 1e5 },
            "it would save 50 µs a second, and its moves cost 100 µs",
        ),
        (Reason::TooLittle { saves_ns: -996.0, needs_ns: 1e5 }, "it would take 996 ns a second more"),
        (
            Reason::LongBetweenSyncs { bytes: 6e7, log_ns: 1.5e7, sync_ns: 9e6 },
            "57.2 MiB are written between two syncs, and logging them costs 15 ms, a sync 9 ms",
        ),
        (
            Reason::SlowTail { tail: Tail::Reads, level_ns: 8e4, lower_ns: 1024.0 },
            "the slowest hundredth of reads took 80 µs or longer, and would have taken 1.02 µs at most below",
        ),
        (
            Reason::BackingOff { left_ns: 8_000_000_000, strikes: 2 },
            "it failed there 2 times, and is tried again in 8 s",
        ),
        (
            Reason::OthersSaveMore {
                room: Room::Resident,
                needs_bytes: 8 * MIB,
                free_bytes: MIB,
                score: 1e6,
                to_beat: 1.6e6,
            },
            "it needs 8 MiB of DAX room and 1 MiB are free; it saves 1 ms a second for each MiB, and would have to save 1.60 ms",
        ),
        (
            Reason::DisplacedBy { by: FileId(7), score: 1e6, by_score: 4e6 },
            "file 7 saves 4 ms a second for each MiB, and this saved 1 ms",
        ),
        (
            Reason::Stopped { by: FileId(7), for_ns: 2_000_000_000 },
            "no program had used it for 2 s, and file 7 wants its room",
        ),
        (Reason::InFlight { to: Level::Pass }, "it goes to PASS once no write is in flight"),
        (Reason::Ordered(Order::Pin(Level::Dax)), "it was pinned to DAX by hand"),
        (Reason::Ruled(Order::Never), "files of its path are kept out"),
        (OUTSIDE.why, OUTSIDE.why.sentence()),
    ];
    for (reason, text) in said {
        assert_eq!(reason.to_string(), text);
    }
}

#[test]
fn an_explanation_has_every_number_that_led_to_it() {
    let mut world = World::gib();
    let log = world.open(Traits::APPEND, 0, VALKEY_ALWAYS);
    world.hinder(log, Some(OUTSIDE));
    world.run(120.0);
    let text = world.policy.explain(world.now_ns, log).unwrap().to_string();
    for part in [
        "ABSORB for 120 s, with 1 MiB: ",
        "a log that begins: ",
        &format!("not elsewhere: {}", OUTSIDE.why),
        "before that PASS for ",
        "each second, over 1 s: 4000 syncs, 4000 writes of 1.91 MiB in all",
        "each second, over 15 s: ",
        "a sync by PASS: 200 µs (measured)",
        "a sync by ABSORB: 150 ns (measured)",
        "a sync by DAX: 345 ns (assumed, as none was timed yet)",
        "ABSORB would save 799 ms of waiting a second with the calls of the last 1 s, ",
        " with those of the last 15 s; its moves cost ",
        "DAX would save ",
        "ABSORB needs 1 MiB of device memory, for which files compete by the lower saving, at most 1 s, for each MiB: here ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("(more than 1 s a second"), "{text}");
}

#[test]
fn saving_above_a_second_of_each_second_is_explained() {
    let mut world = World::gib();
    let log = world.open(Traits::APPEND, 0, Load { syncs: 40_000.0, writes: 40_000.0, ..VALKEY_ALWAYS });
    world.run(120.0);
    let text = world.policy.explain(world.now_ns, log).unwrap().to_string();
    for part in ["ABSORB would save 7.99 s of waiting a second", "(more than 1 s a second: "] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn file_with_nothing_to_gain_gets_that_reason() {
    let mut world = World::gib();
    let file = world.open(Traits::empty(), MIB, SCAN);
    world.run(10.0);
    let text = world.policy.explain(world.now_ns, file).unwrap().to_string();
    assert!(text.contains("not elsewhere: nothing that it does would be faster"), "{text}");
}
