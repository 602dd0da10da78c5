//! Results behind completions: what the driver asks for, takes, and refuses to believe.

use std::sync::Arc;
use std::time::Duration;

use crate::scripted::{Behind, Reply, Script, ScriptedBus, blocks, bytes, device, key, queue_of};
use byway_core::{
    BackendQueue, Buffer, Command, ErrorKind, KvCommand, Nsid, QueueOptions, RawCommand, RawData,
};
use byway_driver::Queue;
use byway_spec::Command as Entry;
use byway_spec::vendor::{
    ExecFields, INLINE_RESULT, Methods, VendorOpcode, inline_result_max_bytes, result_entries,
};

fn script() -> Script {
    Script { methods: Methods::from_bits(0xff).with_inline_read(true), ..Script::default() }
}

fn options() -> QueueOptions {
    QueueOptions::default().depth(8).ring_entries(32).inline_reads(true).timeout(Duration::from_millis(50))
}

fn queue() -> (Arc<ScriptedBus>, Queue<ScriptedBus>) {
    queue_of(script(), options())
}

/// The answer to a get of a value that stands behind its completion.
fn inline(value: &[u8]) -> Reply {
    let behind = Behind::Result(value.to_vec());
    Reply { dw0: value.len() as u32, dw1: INLINE_RESULT, behind, ..Reply::default() }
}

fn get(len: usize) -> Command {
    KvCommand::Retrieve { nsid: Nsid::FIRST, key: key("k"), into: Buffer::zeroed(len).unwrap() }.into()
}

#[test]
fn only_queues_that_are_set_so_ask_for_results_behind_completions() {
    for (asks, most) in [(true, 225), (false, 0)] {
        let (bus, driver) = device(script());
        let mut queue = driver.queue(options().inline_reads(asks)).unwrap();
        queue.execute_retrieve(Nsid::FIRST, &key("k"), &mut [0; 40]).unwrap();
        queue.execute(get(40)).unwrap();
        let asked: Vec<usize> =
            bus.state().fetched.iter().map(|fetched| inline_result_max_bytes(&fetched.entry)).collect();
        assert_eq!(asked, [most, most]);
    }
}

#[test]
fn device_that_announced_none_refuses_such_a_queue() {
    for script in [Script::default(), Script { inline_read_max_bytes: 0, ..script() }] {
        let (_bus, driver) = device(script);
        let Err(refused) = driver.queue(options()) else { panic!("a queue with inline reads") };
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("did not announce inline reads"), "{refused}");
    }
}

#[test]
fn values_behind_completions_arrive_around_the_ring_by_every_call() {
    let (bus, mut queue) = queue();
    for len in (1..=60).chain([120, 225]) {
        let value = bytes(len);
        bus.state().replies.extend([inline(&value), inline(&value), inline(&value)]);
        let mut into = [0; 300];
        let answer = queue.execute_retrieve(Nsid::FIRST, &key("k"), &mut into).unwrap();
        assert_eq!((answer.dw0 as usize, answer.dw1), (len, 0));
        assert_eq!(into[..len], value);
        let outcome = queue.execute(get(300)).unwrap();
        assert_eq!(outcome.buffer.unwrap().as_slice()[..len], value);
        let mut seen = Vec::new();
        queue
            .execute_retrieve_many(Nsid::FIRST, &[key("k")], &mut [0; 300], &mut |_, value| {
                seen.push(value.map(|value| value.bytes.to_vec()));
            })
            .unwrap();
        assert_eq!(seen, [Some(value)]);
    }
}

#[test]
fn value_longer_than_the_buffer_stands_there_as_far_as_the_buffer_goes() {
    let (bus, mut queue) = queue();
    let behind = Behind::Result(bytes(20));
    bus.state().replies.push_back(Reply { dw0: 1000, dw1: INLINE_RESULT, behind, ..Reply::default() });
    let mut into = [0; 20];
    assert_eq!(queue.execute_retrieve(Nsid::FIRST, &key("k"), &mut into).unwrap().dw0, 1000);
    assert_eq!(into.as_slice(), bytes(20));
}

#[test]
fn queued_commands_take_their_own_results_and_the_head_goes_past_all() {
    let (bus, mut queue) = queue();
    bus.state().replies.extend([inline(&bytes(40)), Reply::default(), inline(&bytes(7))]);
    queue.submit(get(64), 0).unwrap();
    queue.submit(KvCommand::Exist { nsid: Nsid::FIRST, key: key("k") }.into(), 1).unwrap();
    queue.submit(get(64), 2).unwrap();
    let mut finished = Vec::new();
    queue.drain(&mut |one| finished.push((one.tag, one.result.unwrap().buffer))).unwrap();
    let first = |at: usize, len: usize| finished[at].1.as_ref().unwrap().as_slice()[..len].to_vec();
    assert_eq!((first(0, 40), first(2, 7)), (bytes(40), bytes(7)));
    let heads = [40, 0, 7].map(|len| 1 + result_entries(len) as u32);
    let (_, head) = *bus.state().rung.iter().rfind(|(index, _)| index.is_completion()).unwrap();
    assert_eq!(head, heads.iter().sum::<u32>());
}

#[test]
fn completion_is_not_taken_before_all_of_its_result_is_there() {
    let (bus, mut queue) = queue();
    let behind = Behind::Later(bytes(40));
    bus.state().replies.push_back(Reply { dw0: 40, dw1: INLINE_RESULT, behind, ..Reply::default() });
    queue.submit(get(64), 5).unwrap();
    assert!(queue.next_finished().unwrap().is_none());
    bus.write_behind();
    let finished = queue.next_finished().unwrap().expect("it is there now");
    assert_eq!(
        (finished.tag, &finished.result.unwrap().buffer.unwrap().as_slice()[..40]),
        (5, &bytes(40)[..])
    );
}

#[test]
fn dword_1_of_other_commands_is_no_announcement() {
    let (bus, mut queue) = queue();
    bus.state().replies.push_back(Reply { dw0: 9, dw1: INLINE_RESULT | 5, ..Reply::default() });
    let entry = Entry::new(VendorOpcode::QUERY_WAIT.0, 0, 1);
    let outcome = queue.execute(RawCommand { entry, data: RawData::None }.into()).unwrap();
    assert_eq!((outcome.answer.dw0, outcome.answer.dw1), (9, INLINE_RESULT | 5));
}

#[test]
fn results_of_queries_come_the_same_way_with_their_own_dword_1() {
    let (bus, mut queue) = queue();
    let mut reply = inline(&bytes(50));
    reply.dw1 |= 1 << 31 | 77;
    bus.state().replies.push_back(reply);
    let mut entry = Entry::new(VendorOpcode::QUERY_RESULTS.0, 0, 1);
    (entry.cdw10, entry.cdw11) = (4096, 3);
    let data = RawData::FromDevice(Buffer::zeroed(4096).unwrap());
    let outcome = queue.execute(RawCommand { entry, data }.into()).unwrap();
    assert_eq!((outcome.answer.dw0, outcome.answer.dw1), (50, 1 << 31 | 77));
    assert_eq!(outcome.buffer.unwrap().as_slice()[..50], bytes(50));
    assert_eq!(bus.state().fetched[0].entry.cdw11, 225 << 16 | 3);
}

/// An Exec that takes 40 bytes of output, with a request of 5 bytes in a buffer of so many.
fn exec(nsid: Nsid, buffer_bytes: usize) -> Command {
    let mut entry = Entry::new(VendorOpcode::KV_EXEC.0, 0, nsid.get());
    ExecFields { request_bytes: 5, output_max_bytes: 40, operation: 3 }.write_to(&mut entry);
    let buffer = Buffer::zeroed(buffer_bytes).unwrap();
    RawCommand { entry, data: RawData::Both { buffer, sent_bytes: 5 } }.into()
}

#[test]
fn output_of_exec_comes_the_same_way_as_far_as_its_host_takes_it() {
    let (bus, mut queue) = queue();
    let behind = Behind::Result(bytes(40));
    let cut = Reply { dw0: 1000, dw1: INLINE_RESULT, behind, ..Reply::default() };
    bus.state().replies.extend([inline(&bytes(25)), cut]);
    for (len, whole) in [(25, 25), (40, 1000)] {
        let outcome = queue.execute(exec(Nsid::FIRST, 64)).unwrap();
        assert_eq!((outcome.answer.dw0, outcome.answer.dw1), (whole, 0));
        assert_eq!(outcome.buffer.unwrap().as_slice()[..len], bytes(len));
    }
    assert_eq!(bus.state().fetched[0].entry.cdw11, 225 << 16);
    let refused = queue.execute(exec(Nsid::FIRST, 39)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert_eq!(bus.state().fetched.len(), 2, "an output longer than its buffer is not asked for");
}

#[test]
fn exec_of_a_namespace_without_keys_asks_for_nothing() {
    let (bus, mut queue) = queue();
    queue.execute(exec(blocks(), 64)).unwrap();
    assert_eq!(bus.state().fetched[0].entry.cdw11, 0);
}

#[test]
fn raw_command_that_asks_without_a_buffer_is_refused() {
    let (_bus, mut queue) = queue();
    let mut entry = Entry::new(VendorOpcode::QUERY_RESULTS.0, 0, 1);
    (entry.cdw10, entry.cdw11) = (4096, 100 << 16);
    let refused = queue.execute(RawCommand { entry, data: RawData::None }.into()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
}

/// What a device says that cannot be ends the call with an error, and is never read past what there is.
#[test]
fn announcements_that_cannot_be_are_errors_of_the_protocol() {
    let too_long = Reply { dw0: 226, dw1: INLINE_RESULT, behind: Behind::Nothing, ..Reply::default() };
    let noise = Reply { dw0: 30, dw1: INLINE_RESULT, behind: Behind::Noise(2), ..Reply::default() };
    for (reply, said) in [(too_long, "226 bytes"), (noise, "a completion stands where")] {
        let (bus, mut queue) = queue();
        bus.state().replies.push_back(reply);
        let error = queue.execute_retrieve(Nsid::FIRST, &key("k"), &mut [0; 300]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.to_string().contains(said), "{error}");
        let later = queue.execute_retrieve(Nsid::FIRST, &key("k"), &mut [0; 300]).unwrap_err();
        assert_eq!(later.kind(), ErrorKind::Protocol, "the boundary between completions is lost: {later}");
    }
}

#[test]
fn result_longer_than_its_command_asked_for_is_an_error_of_the_protocol() {
    let (bus, mut queue) = queue();
    bus.state().replies.push_back(inline(&bytes(60)));
    let mut entry = Entry::new(VendorOpcode::QUERY_RESULTS.0, 0, 1);
    (entry.cdw10, entry.cdw11) = (4096, 50 << 16 | 3);
    let data = RawData::FromDevice(Buffer::zeroed(4096).unwrap());
    let error = queue.execute(RawCommand { entry, data }.into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
}

#[test]
fn head_moves_while_only_results_of_commands_that_were_given_up_come() {
    let (bus, mut queue) = queue();
    bus.hold();
    for _ in 0..2 {
        let late = queue.execute_retrieve(Nsid::FIRST, &key("k"), &mut [0; 300]).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
    }
    queue.submit(get(64), 7).unwrap();
    bus.state().replies.extend([inline(&bytes(180)), inline(&bytes(180))]);
    // The third command waits in the device for an entry.
    bus.release(&[0, 1]);
    assert!(queue.next_within(Duration::from_millis(1)).unwrap().is_none());
    let head = bus.state().rung.iter().rfind(|(index, _)| index.is_completion()).map(|(_, head)| *head);
    assert_eq!(head, Some(2 * (1 + result_entries(180) as u32)));
}

#[test]
fn raw_command_that_sends_data_and_asks_for_a_result_is_refused() {
    let (bus, mut queue) = queue();
    let mut entry = Entry::new(VendorOpcode::QUERY_RESULTS.0, 0, 1);
    (entry.cdw10, entry.cdw11) = (64, 100 << 16);
    let data = RawData::ToDevice(Buffer::zeroed(64).unwrap().into());
    assert!(queue.execute(RawCommand { entry, data }.into()).is_err());
    assert!(bus.state().fetched.is_empty());
}

#[test]
fn field_of_a_device_without_the_extension_is_passed_through_as_it_is() {
    let (bus, mut queue) = queue_of(Script::default(), options().inline_reads(false));
    let mut entry = Entry::new(VendorOpcode::QUERY_RESULTS.0, 0, 1);
    (entry.cdw10, entry.cdw11) = (4096, 100 << 16);
    queue.execute(RawCommand { entry, data: RawData::None }.into()).unwrap();
    assert_eq!(bus.state().fetched[0].entry.cdw11, 100 << 16);
}

#[test]
fn result_that_never_comes_is_waited_for_no_longer_than_a_completion() {
    let (bus, mut queue) = queue();
    let behind = Behind::Later(bytes(40));
    bus.state().replies.push_back(Reply { dw0: 40, dw1: INLINE_RESULT, behind, ..Reply::default() });
    let error = queue.execute_retrieve(Nsid::FIRST, &key("k"), &mut [0; 64]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}
