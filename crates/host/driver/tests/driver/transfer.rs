//! How payloads go onto the ring, method by method, against a device that records.

use crate::scripted::{Reply, Script, blocks, bytes, device, key, queue, queue_of, stores};
use byway_core::{
    AdaptivePolicy, BackendQueue, ErrorKind, KvCommand, Nsid, Payload, QueueOptions, RawCommand, RawData,
    StoreOptions,
};
use byway_link::{HostStep, Method, Profile};
use byway_spec::vendor::{self, DmaLogEntry};
use byway_spec::{Command as Entry, Status};
use proptest::prelude::*;

const NONE: StoreOptions = StoreOptions::NONE;

#[test]
fn a_value_of_any_length_arrives_whole_by_every_method() {
    for method in Method::ALL {
        let (bus, mut queue) = queue(method);
        let mut expected = Vec::new();
        for len in
            [0, 1, 11, 12, 34, 35, 36, 63, 64, 65, 91, 92, 128, 512, 4095, 4096, 4097, 8000, 8191, 8192]
        {
            let name = format!("k{len}");
            queue.execute_store(Nsid::FIRST, &key(&name), &bytes(len), NONE).unwrap();
            expected.push((name.into_bytes(), bytes(len)));
        }
        assert!(stores(&bus) == expected, "{method}");
    }
}

#[test]
fn long_values_go_by_page_lists_and_descriptors() {
    for method in [Method::Prp, Method::Sgl, Method::PrpTail, Method::Adaptive] {
        let (bus, mut queue) = queue(method);
        for len in [8193, 100_000, 3 << 20, 16 << 20] {
            queue.execute_store(Nsid::FIRST, &key("long"), &bytes(len), NONE).unwrap();
            assert!(stores(&bus).pop().unwrap().1 == bytes(len), "{method} {len}");
        }
    }
}

#[test]
fn an_inline_payload_takes_a_slot_for_each_64_bytes_and_one_doorbell() {
    let modelled = Script { profile: Profile::by_name("gen4x4"), ..Script::default() };
    let options = QueueOptions::default().transfer(Method::Inline);
    let (bus, mut queue) = queue_of(modelled, options);
    let answer = queue.execute_store(Nsid::FIRST, &key("a"), &bytes(130), NONE).unwrap();
    assert_eq!((answer.commands, answer.slots), (1, 4));
    let rung: Vec<_> = bus.state().rung.iter().map(|(doorbell, value)| (doorbell.place(), *value)).collect();
    assert_eq!(rung, [(2, 4), (3, 1)]);
    assert_eq!(bus.state().fetched[0].chunks[130..], [0; 62]);
    assert_eq!(bus.state().charges, [(HostStep::Chunk, 3), (HostStep::Submit, 1), (HostStep::Completion, 1)]);
}

#[test]
fn inline_payloads_wrap_around_the_ring() {
    let options = QueueOptions::default().transfer(Method::Inline).ring_entries(16).depth(8);
    let (bus, mut queue) = queue_of(Script::default(), options);
    for n in 0..50 {
        queue.execute_store(Nsid::FIRST, &key("a"), &bytes(n * 13), NONE).unwrap();
    }
    let values: Vec<_> = stores(&bus).into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, (0..50).map(|n| bytes(n * 13)).collect::<Vec<_>>());
    let error = queue.execute_store(Nsid::FIRST, &key("a"), &bytes(15 * 64), NONE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("takes 16 slots, a ring of 16 has 15"), "{error}");
}

#[test]
fn a_length_over_the_announced_limit_is_refused_by_naming_it() {
    for method in [Method::Inline, Method::Piggyback, Method::PiggybackPt] {
        let (bus, mut queue) = queue(method);
        let error = queue.execute_store(Nsid::FIRST, &key("a"), &bytes(8193), NONE).unwrap_err();
        let said = format!("value of 8193 bytes is over the device's limit of 8192 bytes for {method}");
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::TooLarge, said));
        assert!(bus.state().fetched.is_empty());
    }
    let (_, mut queue) = queue(Method::Prp);
    let error = queue.execute_store(Nsid::FIRST, &key("a"), &bytes((16 << 20) + 1), NONE).unwrap_err();
    assert!(error.to_string().contains("limit of 16777216 bytes"), "{error}");
}

#[test]
fn a_method_that_was_not_announced_is_refused_by_naming_those_that_were() {
    let methods = vendor::Methods::new().with_inline(true);
    let (bus, driver) = device(Script { methods, sgl: 0, ..Script::default() });
    let error = driver.queue(QueueOptions::default().transfer(Method::Cxl)).err().unwrap();
    assert_eq!(
        error.to_string(),
        "transfer method cxl is not announced by the device; it has prp, inline, adaptive"
    );
    assert!(bus.state().features.contains(&(0xc0, 0, methods.into_bits())));
}

#[test]
fn a_plain_device_gets_no_vendor_feature_and_no_vendor_command() {
    let (bus, driver) = device(Script { methods: vendor::Methods::new(), ..Script::default() });
    let names: Vec<_> = driver.capabilities().methods.iter().map(Method::name).collect();
    assert_eq!(names, ["prp", "sgl", "adaptive"]);
    assert!(bus.state().features.iter().all(|(feature, ..)| *feature < 0xc0));
}

#[test]
fn store_options_go_where_there_is_room_for_them() {
    let options = NONE.must_not_exist(true);
    for method in [Method::Piggyback, Method::PiggybackPt, Method::Cxl, Method::CxlPiggyback, Method::PrpTail]
    {
        let (_, mut queue) = queue(method);
        let error = queue.execute_store(Nsid::FIRST, &key("a"), &bytes(5000), options).unwrap_err();
        assert!(error.to_string().contains("inline, prp and sgl"), "{method}: {error}");
    }
    for method in [Method::Prp, Method::Sgl, Method::Inline, Method::Hybrid, Method::Adaptive] {
        let (bus, mut queue) = queue(method);
        queue.execute_store(Nsid::FIRST, &key("a"), &bytes(20), options).unwrap();
        assert_eq!(bus.state().fetched[0].entry.cdw11 >> 8, 2, "{method}");
    }
}

#[test]
fn fragments_share_one_doorbell_unless_they_go_one_by_one() {
    let cosmos = Script { profile: Profile::by_name("cosmos"), ..Script::default() };
    let options = QueueOptions::default().transfer(Method::Piggyback);
    for (script, expected) in [(Script::default(), (1, 1)), (cosmos, (4, 4))] {
        let (bus, mut queue) = queue_of(script, options);
        let answer = queue.execute_store(Nsid::FIRST, &key("a"), &bytes(200), NONE).unwrap();
        assert_eq!((answer.commands, answer.slots), (4, 4));
        let tails = bus.state().rung.iter().filter(|(doorbell, _)| !doorbell.is_completion()).count();
        let heads = bus.state().rung.iter().filter(|(doorbell, _)| doorbell.is_completion()).count();
        assert_eq!((tails, heads), expected);
    }
}

#[test]
fn a_value_in_more_fragments_than_the_ring_has_slots_goes_in_turns() {
    for method in [Method::Piggyback, Method::PiggybackPt] {
        let options = QueueOptions::default().transfer(method).ring_entries(8).depth(4);
        let (bus, mut queue) = queue_of(Script::default(), options);
        queue.execute_store(Nsid::FIRST, &key("a"), &bytes(8192), NONE).unwrap();
        assert!(stores(&bus)[0].1 == bytes(8192));
    }
}

#[test]
fn the_first_failure_of_a_value_in_fragments_wins() {
    let (bus, mut queue) = queue(Method::Piggyback);
    let fail = |status| Reply { status, ..Reply::default() };
    bus.state().replies.extend([fail(Status::CAPACITY_EXCEEDED), fail(Status::COMMAND_SEQUENCE_ERROR)]);
    let error = queue.execute_store(Nsid::FIRST, &key("a"), &bytes(100), NONE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CapacityExceeded);
    queue.execute_store(Nsid::FIRST, &key("a"), &bytes(100), NONE).unwrap();
}

#[test]
fn one_by_one_nothing_follows_a_fragment_that_failed() {
    let options = QueueOptions::default().transfer(Method::Piggyback);
    let (bus, mut queue) =
        queue_of(Script { profile: Profile::by_name("cosmos"), ..Script::default() }, options);
    bus.state().replies.push_back(Reply { status: Status::INVALID_KEY_SIZE, ..Reply::default() });
    let error = queue.execute_store(Nsid::FIRST, &key("a"), &bytes(1000), NONE).unwrap_err();
    assert_eq!((error.kind(), bus.state().fetched.len()), (ErrorKind::TooLarge, 1));
}

#[test]
fn pass_through_fragments_name_the_payload_that_the_first_completion_reported() {
    let (bus, mut queue) = queue(Method::PiggybackPt);
    bus.state().replies.push_back(Reply { dw0: 0xbeef, ..Reply::default() });
    queue.execute_store(Nsid::FIRST, &key("a"), &bytes(60), NONE).unwrap();
    let places: Vec<_> = bus.state().fetched[1..].iter().map(|fetched| fetched.entry.cdw2).collect();
    assert_eq!(places, [0xbeef, 0x1_beef]);
}

#[test]
fn stores_through_device_memory_use_the_queues_own_window() {
    for method in [Method::Cxl, Method::CxlPiggyback] {
        let (bus, mut queue) = queue(method);
        let mut expected = Vec::new();
        for n in 0..40 {
            let value = bytes(n * 191 % 9000);
            queue.execute_store(Nsid::FIRST, &key("a"), &value, NONE).unwrap();
            expected.push(value);
            // Older values may have been overwritten: the window is a ring.
            assert!(stores(&bus).pop().unwrap().1 == expected[n], "{method} {n}");
        }
        assert!(bus.state().features.contains(&(0xc1, 1, 1)));
        let error = queue.execute_store(Nsid::FIRST, &key("a"), &bytes(16384), NONE).unwrap_err();
        assert!(error.to_string().contains("limit of 16359 bytes for cxl"), "{error}");
    }
}

#[test]
fn a_value_that_the_device_placed_by_dma_is_stepped_over() {
    let options = QueueOptions::default().transfer(Method::Adaptive).policy(AdaptivePolicy::Threshold {
        tau_bytes: 128,
        alpha: 1.0,
        below: Method::Cxl,
    });
    let (bus, mut queue) = queue_of(Script::default(), options);
    queue.execute_store(Nsid::FIRST, &key("a"), b"first", NONE).unwrap();
    let placed = DmaLogEntry { position: 4096, len_bytes: 5000 }.into_result();
    let (dw0, dw1) = (placed as u32, (placed >> 32) as u32);
    bus.state().replies.push_back(Reply { dw0, dw1, ..Reply::default() });
    queue.execute_store(Nsid::FIRST, &key("b"), &bytes(5000), NONE).unwrap();
    let place = |offset: u64, len: usize| {
        let mut bytes = vec![0; len];
        bus.memory.read_at((crate::scripted::WINDOW_BYTES + offset) as usize, &mut bytes).unwrap();
        bytes
    };
    for _ in 0..40 {
        queue.execute_store(Nsid::FIRST, &key("c"), &[7; 100], NONE).unwrap();
    }
    // 4096 − 32 bytes hold 31 records of 128; the 32nd stands behind the value that was placed at 4096.
    let head = crate::scripted::HEADER_BYTES + 1;
    assert_eq!(place(32 + 30 * 128 + head, 100), [7; 100]);
    assert_eq!(place(32 + 31 * 128 + head, 50), [0; 50]);
    assert_eq!(place(4096 + 5000 + head, 100), [7; 100]);
}

#[test]
fn no_record_is_stored_over_a_page_that_the_device_may_still_need() {
    let options = QueueOptions::default().transfer(Method::Cxl).timeout(std::time::Duration::from_millis(1));
    let (bus, mut queue) = queue_of(Script::default(), options);
    // Ends within a page, which the device writes to flash once a later record has left it.
    queue.execute_store(Nsid::FIRST, &key("a"), &[1; 10_000], NONE).unwrap();
    bus.hold();
    for (name, len) in [("b", 12_000), ("c", 15_000), ("d", 15_000)] {
        let value = Payload::copy_of(&vec![2; len]).unwrap();
        let store = KvCommand::Store { nsid: Nsid::FIRST, key: key(name), value, options: NONE };
        queue.submit(store.into(), 0).unwrap();
    }
    let error = queue.execute_store(Nsid::FIRST, &key("e"), &[3; 15_000], NONE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let mut last = [0; 1000];
    bus.memory.read_at((crate::scripted::WINDOW_BYTES + 9000) as usize, &mut last).unwrap();
    assert_eq!(last, [1; 1000]);
    bus.release(&[0, 1, 2]);
    queue.execute_store(Nsid::FIRST, &key("e"), &[3; 15_000], NONE).unwrap();
}

#[test]
fn a_window_is_bound_anew_after_a_command_passed_through_that_may_have_moved_its_pointer() {
    let (bus, mut queue) = queue(Method::Cxl);
    let binds = || bus.state().features.iter().filter(|(feature, ..)| *feature == 0xc1).count();
    queue.execute_store(Nsid::FIRST, &key("a"), &[1; 500], NONE).unwrap();
    let mut entry = Entry::new(0x01, 0, 1);
    entry.set_key(key("b").padded());
    (entry.cdw10, entry.cdw11) = (5000, 1);
    let data = RawData::ToDevice(Payload::copy_of(&[2; 5000]).unwrap());
    queue.execute(RawCommand { entry, data }.into()).unwrap();
    queue.execute_store(Nsid::FIRST, &key("c"), &[3; 500], NONE).unwrap();
    assert_eq!(binds(), 2);
    queue.execute_store(Nsid::FIRST, &key("d"), &[4; 500], NONE).unwrap();
    assert_eq!(binds(), 2);
}

#[test]
fn a_window_in_which_a_store_failed_is_bound_anew() {
    let (bus, mut queue) = queue(Method::Cxl);
    let binds = || bus.state().features.iter().filter(|(feature, ..)| *feature == 0xc1).count();
    queue.execute_store(Nsid::FIRST, &key("a"), &[1; 500], NONE).unwrap();
    bus.state().replies.push_back(Reply { status: Status::CAPACITY_EXCEEDED, ..Reply::default() });
    queue.execute_store(Nsid::FIRST, &key("b"), &[2; 500], NONE).unwrap_err();
    queue.execute_store(Nsid::FIRST, &key("c"), &[3; 500], NONE).unwrap();
    assert_eq!(binds(), 2);
    let mut first = [0; 500];
    bus.memory
        .read_at((crate::scripted::WINDOW_BYTES + crate::scripted::HEADER_BYTES + 1) as usize, &mut first)
        .unwrap();
    assert_eq!(first, [3; 500]);
    queue.execute_store(Nsid::new(2).unwrap(), &key("d"), b"other", NONE).unwrap();
    assert_eq!(bus.state().features.last(), Some(&(0xc1, 2, 1)));
}

#[test]
fn a_place_that_cannot_be_is_a_protocol_error() {
    let (bus, driver) = device(Script::default());
    let options = QueueOptions::default().transfer(Method::Adaptive).policy(AdaptivePolicy::Threshold {
        tau_bytes: 9000,
        alpha: 1.0,
        below: Method::Cxl,
    });
    let mut queue = driver.queue(options).unwrap();
    queue.execute_store(Nsid::FIRST, &key("a"), &bytes(8000), NONE).unwrap();
    // A gap of 2^40 bytes is what a place behind the write pointer comes to; then the next value overlaps it.
    let placed = DmaLogEntry { position: 0, len_bytes: 10 }.into_result();
    let reply = Reply { dw0: placed as u32, dw1: (placed >> 32) as u32, ..Reply::default() };
    bus.state().replies.extend([reply.clone(), reply]);
    queue.execute_store(Nsid::FIRST, &key("b"), &bytes(10_000), NONE).unwrap();
    let error = queue.execute_store(Nsid::FIRST, &key("b"), &bytes(10_000), NONE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

#[test]
fn byte_stores_point_into_the_devices_own_memory() {
    let (bus, mut queue) = queue(Method::Prp);
    for len in [0, 1, 4096, 10_000, 65_536] {
        queue.execute_byte_store(Nsid::FIRST, &key("a"), &bytes(len), NONE).unwrap();
        let (_, value) = stores(&bus).pop().unwrap();
        assert!(value == bytes(len));
        if len > 0 {
            assert_eq!(bus.state().fetched.last().unwrap().entry.sgl1().address >> 40, 1);
        }
    }
    let error = queue.execute_byte_store(Nsid::FIRST, &key("a"), &bytes(65_537), NONE).unwrap_err();
    assert!(error.to_string().contains("limit of 65536 bytes for byte stores"), "{error}");
}

#[test]
fn a_bulk_store_is_one_command_by_the_queues_method() {
    let (bus, mut queue) = queue(Method::Inline);
    let pairs = [(key("a"), b"one".as_slice()), (key("bb"), b"two")];
    queue.execute_bulk_store(Nsid::FIRST, &pairs).unwrap();
    let fetched = bus.state().fetched[0].clone();
    assert_eq!((fetched.entry.opcode(), fetched.entry.cdw10), (0xb1, 36));
    assert_eq!(bus.payload(&fetched, 36)[..12], [2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]);
}

#[test]
fn adaptive_takes_the_fewest_bytes_and_says_why() {
    let options = QueueOptions::default().transfer(Method::Adaptive);
    let (bus, mut queue) =
        queue_of(Script { profile: Profile::by_name("gen4x4"), ..Script::default() }, options);
    queue.execute_store(Nsid::FIRST, &key("a"), &bytes(32), NONE).unwrap();
    assert_eq!(bus.state().fetched[0].entry.opcode(), 0x80);
    let why = queue.explain(32);
    assert!(why.contains("32 bytes go by piggyback") && why.contains("inline 336"), "{why}");
}

#[test]
fn adaptive_chooses_nothing_that_does_not_carry_the_value_where_there_are_no_sgls() {
    let options = QueueOptions::default().transfer(Method::Adaptive);
    let script = Script { profile: Profile::by_name("gen4x4"), sgl: 0, ..Script::default() };
    let (bus, mut queue) = queue_of(script, options);
    for len in [5000, 16_383, 16_384, 40_000, 70_000] {
        queue.execute_store(Nsid::FIRST, &key("a"), &bytes(len), NONE).unwrap();
        let (_, value) = stores(&bus).pop().unwrap();
        assert!(value == bytes(len), "{len}: {}", queue.explain(len));
    }
}

#[test]
fn other_commands_of_a_store_only_queue_go_by_prp() {
    for (method, sgl) in
        [(Method::Piggyback, false), (Method::Cxl, false), (Method::Sgl, true), (Method::Hybrid, true)]
    {
        let (bus, mut queue) = queue(method);
        queue.execute_write(blocks(), 3, 512, &bytes(512)).unwrap();
        let fetched = bus.state().fetched[0].clone();
        assert_eq!((fetched.entry.opcode(), fetched.entry.cdw10, fetched.entry.cdw12), (1, 3, 0));
        assert_eq!(fetched.entry.cdw0.psdt().is_sgl(), sgl, "{method}");
        assert_eq!(bus.payload(&fetched, 512), bytes(512));
    }
}

#[test]
fn a_retrieve_gives_what_there_is_and_the_whole_length() {
    for (method, len) in [(Method::Prp, 100), (Method::Sgl, 100), (Method::Prp, 9000), (Method::Inline, 9000)]
    {
        let (bus, mut queue) = queue(method);
        let reply = |data: Vec<u8>, dw0| Reply { data, dw0, ..Reply::default() };
        bus.state().replies.extend([reply(bytes(60), 60), reply(bytes(len), 20_000)]);
        let mut into = vec![0xee; len];
        assert_eq!(queue.execute_retrieve(Nsid::FIRST, &key("a"), &mut into).unwrap().dw0, 60);
        assert_eq!((&into[..60], &into[60..]), (&bytes(60)[..], &vec![0xee; len - 60][..]));
        assert_eq!(queue.execute_retrieve(Nsid::FIRST, &key("a"), &mut into).unwrap().dw0, 20_000);
        assert_eq!(into, bytes(len));
        bus.state().replies.push_back(Reply { status: Status::KEY_DOES_NOT_EXIST, ..Reply::default() });
        let error = queue.execute_retrieve(Nsid::FIRST, &key("a"), &mut into).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KeyNotFound);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn mixed_lengths_arrive_whole_and_in_order(
        method in prop::sample::select(&Method::ALL[..]),
        entries in 4u32..40,
        lengths in prop::collection::vec(0usize..700, 1..40),
        cosmos: bool,
    ) {
        let profile = Profile::by_name(if cosmos { "cosmos" } else { "gen5x4" });
        let ring_entries = Some(entries.max(13));
        let options = QueueOptions::default().transfer(method).ring_entries(ring_entries).depth(3);
        let (bus, mut queue) = queue_of(Script { profile, ..Script::default() }, options);
        for (n, len) in lengths.iter().enumerate() {
            queue.execute_store(Nsid::FIRST, &key(&n.to_string()), &bytes(*len), NONE).unwrap();
        }
        let arrived: Vec<_> = stores(&bus).into_iter().map(|(_, value)| value).collect();
        prop_assert!(arrived == lengths.iter().map(|len| bytes(*len)).collect::<Vec<_>>());
    }
}
