//! The connection without a socket: whatever a controller says, each command ends once and has its memory again.

use std::collections::BTreeSet;
use std::io::IoSlice;

use byway_core::Buffer;
use byway_nvme_tcp::*;
use byway_spec::{Command as Entry, Completion, Status};
use byway_tcp_initiator::connection::{Connection, Order, Way};
use proptest::prelude::*;

const BYTES: usize = 3000;
const COMMANDS: u64 = 6;

fn agreed(digests: Digests) -> Agreement {
    let asked = IcReq { digests, ..IcReq::default() };
    asked.answer(&Offer { max_h2c_data_bytes: 4096, ..Offer::default() }).1
}

/// Two commands of each way that data goes. Writes wait to be asked for their data.
fn with_commands(agreed: Agreement) -> Connection {
    of_ways(agreed, [(Way::In, BYTES), (Way::Out, BYTES), (Way::None, 0)])
}

/// Two commands each whose request goes in the capsule, or when it is asked for, before they read; and two without data.
fn with_requests(agreed: Agreement) -> Connection {
    let both = |sent_bytes| (Way::Both { sent_bytes }, BYTES);
    of_ways(agreed, [both(100), both(900), (Way::None, 0)])
}

fn of_ways(agreed: Agreement, ways: [(Way, usize); 3]) -> Connection {
    let mut connection = Connection::new(agreed, COMMANDS as u32, 512);
    for tag in 0..COMMANDS {
        let (way, bytes) = ways[tag as usize % 3];
        let entry = Entry::new([2, 1, 0][tag as usize % 3], 0, 1);
        let order = Order {
            tag,
            is_call: false,
            entry,
            way,
            is_whole: true,
            repeats: way == Way::In,
            is_pair: false,
        };
        connection.begin(order, Buffer::zeroed(bytes).unwrap().into()).unwrap();
    }
    connection
}

/// Has everything sent that waits to be.
fn send_all(connection: &mut Connection) -> Vec<u8> {
    let mut sent = Vec::new();
    while connection.unsent_bytes() > 0 {
        let mut pieces = [IoSlice::new(&[]); 3];
        let count = connection.gather(&mut pieces);
        let before = sent.len();
        pieces[..count].iter().for_each(|piece| sent.extend_from_slice(piece));
        connection.sent(sent.len() - before);
    }
    sent
}

/// Has `stream` received, at most `piece_bytes` at a time; whether the connection goes on.
fn receive(connection: &mut Connection, mut stream: &[u8], piece_bytes: usize) -> bool {
    while !stream.is_empty() {
        let mut taken = 0;
        for mut room in connection.room() {
            let here = room.len().min(stream.len()).min(piece_bytes - taken);
            room[..here].copy_from_slice(&stream[..here]);
            stream = &stream[here..];
            taken += here;
        }
        assert!(taken > 0, "there is always room");
        if connection.received(taken).is_err() {
            return false;
        }
        send_all(connection);
    }
    true
}

fn ended(connection: &mut Connection) -> Vec<(u64, usize, bool)> {
    std::iter::from_fn(|| connection.next_ended())
        .map(|ended| (ended.tag, ended.memory.len(), ended.result.is_ok()))
        .collect()
}

/// What a controller says.
#[derive(Clone, Debug)]
enum Said {
    Response { cid: u16, fails: bool },
    Data { cid: u16, offset: u32, bytes: usize, end: C2hEnd },
    R2t { cid: u16, tag: u16, offset: u32, bytes: u32 },
    Anything(Vec<u8>),
}

impl Said {
    fn append_to(&self, writer: &Writer<ControllerPdu>, wire: &mut Vec<u8>) {
        match self {
            Self::Response { cid, fails } => {
                let status = if *fails { Status::INTERNAL_ERROR } else { Status::SUCCESS };
                writer.response(&Completion::new(0, 0, *cid, status)).append_to(wire);
            }
            Self::Data { cid, offset, bytes, end } => {
                let at = C2hData { command: CommandId(*cid), offset_bytes: *offset, end: *end };
                writer.data(&at, &[&vec![*cid as u8; *bytes]]).append_to(wire);
            }
            Self::R2t { cid, tag, offset, bytes } => {
                let (command, tag) = (CommandId(*cid), TransferTag(*tag));
                let asked = ReadyToTransfer { command, tag, offset_bytes: *offset, bytes: *bytes };
                writer.ready_to_transfer(&asked).append_to(wire);
            }
            Self::Anything(bytes) => wire.extend_from_slice(bytes),
        }
    }
}

fn offsets() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0_u32), Just(1000), Just(2000), Just(2999), 0..4000_u32]
}

fn said() -> impl Strategy<Value = Said> {
    let cid = 0..8_u16;
    let end = prop_oneof![Just(C2hEnd::More), Just(C2hEnd::Response), Just(C2hEnd::Success)];
    prop_oneof![
        4 => (cid.clone(), any::<bool>()).prop_map(|(cid, fails)| Said::Response { cid, fails }),
        4 => (cid.clone(), offsets(), 1..1500_usize, end)
            .prop_map(|(cid, offset, bytes, end)| Said::Data { cid, offset, bytes, end }),
        4 => (cid, any::<u16>(), offsets(), prop_oneof![Just(1000_u32), Just(3000), 0..4000_u32])
            .prop_map(|(cid, tag, offset, bytes)| Said::R2t { cid, tag, offset, bytes }),
        1 => proptest::collection::vec(any::<u8>(), 1..40).prop_map(Said::Anything),
    ]
}

proptest! {
    #[test]
    fn every_command_ends_once_with_its_memory_whatever_a_controller_says(
        talk in proptest::collection::vec(said(), 0..24),
        piece_bytes in prop_oneof![Just(1_usize), 2..200_usize, Just(1 << 20)],
        digests in prop_oneof![Just(Digests::NONE), Just(Digests::BOTH)],
        has_requests in any::<bool>(),
    ) {
        let agreed = agreed(digests);
        let mut connection = if has_requests { with_requests(agreed) } else { with_commands(agreed) };
        send_all(&mut connection);
        let writer = Writer::<ControllerPdu>::new(&agreed);
        let mut wire = Vec::new();
        talk.iter().for_each(|said| said.append_to(&writer, &mut wire));
        receive(&mut connection, &wire, piece_bytes);
        let mut all = ended(&mut connection);
        connection.abandon("the test is over");
        all.extend(ended(&mut connection));
        prop_assert_eq!(connection.outstanding(), 0);
        let tags: BTreeSet<u64> = all.iter().map(|(tag, ..)| *tag).collect();
        prop_assert!(all.len() as u64 == COMMANDS && tags.len() as u64 == COMMANDS, "{:?}", all);
        for (tag, bytes, _) in all {
            prop_assert_eq!(bytes, if tag % 3 == 2 { 0 } else { BYTES });
        }
    }
}

#[test]
fn only_what_changes_nothing_and_what_never_left_is_sent_on_another_connection() {
    let agreed = agreed(Digests::NONE);
    let mut connection = with_commands(agreed);
    // The first four leave, the write among them; the others do not.
    let first_four = 4 * 72;
    let mut pieces = [IoSlice::new(&[]); 3];
    assert!(connection.gather(&mut pieces) > 0);
    connection.sent(first_four);
    connection.interrupt("it was cut");
    let failed: Vec<u64> = ended(&mut connection).iter().map(|(tag, ..)| *tag).collect();
    assert_eq!(failed, [1, 2], "reads 0 and 3 changed nothing, 4 and 5 were not sent");
    connection.resume(Connection::new(agreed, COMMANDS as u32, 512));
    let sent = send_all(&mut connection);
    assert_eq!(sent.len(), first_four);
    let opcodes: Vec<u8> = sent.chunks(72).map(|capsule| capsule[8]).collect();
    assert_eq!(opcodes, [2, 2, 1, 0], "in the order of their submission");
}

#[test]
fn a_read_is_tried_on_three_connections_and_no_more() {
    let agreed = agreed(Digests::NONE);
    let mut connection = Connection::new(agreed, 1, 512);
    let entry = Entry::new(2, 0, 1);
    let order =
        Order { tag: 9, is_call: false, entry, way: Way::In, is_whole: true, repeats: true, is_pair: false };
    connection.begin(order, Buffer::zeroed(512).unwrap().into()).unwrap();
    for tries in 1..=3 {
        assert_eq!(send_all(&mut connection).len(), 72);
        connection.interrupt("it was cut");
        if tries < 3 {
            assert!(!connection.has_ended());
            connection.resume(Connection::new(agreed, 1, 512));
        }
    }
    assert_eq!(ended(&mut connection), [(9, 512, false)]);
}

/// Linux's target waits for the data of every write that is short enough for a capsule, and never asks for it.
#[test]
fn data_goes_with_its_command_as_the_controller_of_this_connection_takes_it() {
    let agreed = agreed(Digests::NONE);
    let mut connection = Connection::awaited(1);
    for (tag, capsule_data_bytes, sent) in [(0, 512, 72 + 512), (1, 256, 72), (2, 4096, 72 + 512)] {
        connection.resume(Connection::new(agreed, 1, capsule_data_bytes));
        let entry = Entry::new(1, 0, 1);
        let order = Order {
            tag,
            is_call: false,
            entry,
            way: Way::Out,
            is_whole: true,
            repeats: false,
            is_pair: false,
        };
        connection.begin(order, Buffer::zeroed(512).unwrap().into()).unwrap();
        assert_eq!(send_all(&mut connection).len(), sent);
        connection.interrupt("it was cut");
        assert_eq!(ended(&mut connection), [(tag, 512, false)]);
    }
}

#[test]
fn an_answer_that_overtakes_the_data_it_is_for_waits_until_that_has_left() {
    let agreed = agreed(Digests::NONE);
    let mut connection = with_commands(agreed);
    send_all(&mut connection);
    let writer = Writer::<ControllerPdu>::new(&agreed);
    let mut wire = Vec::new();
    Said::R2t { cid: 1, tag: 77, offset: 0, bytes: 3000 }.append_to(&writer, &mut wire);
    Said::Response { cid: 1, fails: true }.append_to(&writer, &mut wire);
    let mut rest = &wire[..];
    for mut room in connection.room() {
        let here = room.len().min(rest.len());
        room[..here].copy_from_slice(&rest[..here]);
        rest = &rest[here..];
    }
    connection.received(wire.len()).unwrap();
    assert!(!connection.has_ended(), "its memory is still being sent from");
    assert_eq!(send_all(&mut connection).len(), 24 + 3000);
    assert_eq!(ended(&mut connection), [(1, 3000, true)]);
}

#[test]
fn request_goes_in_the_capsule_or_when_it_is_asked_for_and_the_reply_replaces_it() {
    let agreed = agreed(Digests::NONE);
    let writer = Writer::<ControllerPdu>::new(&agreed);
    for (sent_bytes, in_capsule) in [(100, true), (512, true), (513, false), (BYTES as u32, false)] {
        let mut connection = Connection::new(agreed, 1, 512);
        let way = Way::Both { sent_bytes };
        let entry = Entry::new(0xb3, 0, 1);
        let order =
            Order { tag: 4, is_call: false, entry, way, is_whole: false, repeats: false, is_pair: false };
        let mut memory = Buffer::zeroed(BYTES).unwrap();
        (0..).zip(memory.as_mut_slice()).for_each(|(n, byte)| *byte = (n % 251) as u8);
        let request = memory.as_slice()[..sent_bytes as usize].to_vec();
        connection.begin(order, memory.into()).unwrap();
        let sent = send_all(&mut connection);
        let (kind, described) = (sent[8 + 39], u32::from_le_bytes([sent[40], sent[41], sent[42], sent[43]]));
        let mut wire = Vec::new();
        if in_capsule {
            assert_eq!((kind, described, &sent[72..]), (0x01, sent_bytes, &request[..]));
        } else {
            assert_eq!((kind, described as usize, sent.len()), (0x5a, BYTES, 72));
            Said::R2t { cid: 0, tag: 7, offset: 0, bytes: sent_bytes }.append_to(&writer, &mut wire);
            for mut room in connection.room() {
                let here = room.len().min(wire.len());
                room[..here].copy_from_slice(&wire.drain(..here).collect::<Vec<u8>>());
            }
            connection.received(24).unwrap();
            assert_eq!(send_all(&mut connection)[24..], request[..]);
        }
        Said::Data { cid: 0, offset: 0, bytes: 40, end: C2hEnd::Response }.append_to(&writer, &mut wire);
        Said::Response { cid: 0, fails: false }.append_to(&writer, &mut wire);
        assert!(receive(&mut connection, &wire, 1 << 20));
        let ended = connection.next_ended().unwrap();
        let (buffer, _) = ended.memory.into_buffers();
        assert_eq!(buffer.unwrap().as_slice()[..40], [0; 40], "data of identifier 0");
        assert!(ended.result.is_ok());
    }
}

#[test]
fn controller_that_asks_for_more_than_the_request_breaks_a_rule() {
    let agreed = agreed(Digests::NONE);
    let writer = Writer::<ControllerPdu>::new(&agreed);
    for (cid, offset, bytes) in [(0, 0, 100), (1, 0, 901), (1, 800, 101), (1, 0, u32::MAX)] {
        let mut connection = with_requests(agreed);
        send_all(&mut connection);
        let mut wire = Vec::new();
        Said::R2t { cid, tag: 7, offset, bytes }.append_to(&writer, &mut wire);
        assert!(!receive(&mut connection, &wire, 1 << 20), "{cid} {offset} {bytes}");
    }
}
