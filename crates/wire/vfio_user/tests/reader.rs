//! The reader: any bytes, cut at any point, yield the same messages, and the stream stays in step.
#![allow(clippy::unwrap_used)]

use byway_vfio_user_wire::*;
use proptest::prelude::*;

/// Reader output as comparable values.
#[derive(Debug, PartialEq, Eq)]
enum Out {
    Message(Header, Vec<u8>, Vec<u32>),
    Refused(Header, WireError),
    Broken(Broken),
}

fn drain(reader: &mut Reader<u32>, out: &mut Vec<Out>) {
    loop {
        match reader.next() {
            Ok(None) => return,
            Ok(Some(Incoming::Message(Message { header, payload, fds }))) => {
                out.push(Out::Message(header, payload.to_vec(), fds));
            }
            Ok(Some(Incoming::Refused { header, why })) => out.push(Out::Refused(header, why)),
            Err(broken) => {
                out.push(Out::Broken(broken));
                return;
            }
        }
    }
}

/// Pushes `bytes` in pieces of these lengths, over and over.
fn read(bytes: &[u8], pieces: &[usize], limits: Limits) -> Vec<Out> {
    let mut reader = Reader::new(limits);
    let mut out = Vec::new();
    let mut rest = bytes;
    for piece in pieces.iter().cycle() {
        let (now, later) = rest.split_at((*piece).min(rest.len()));
        reader.push(now, []);
        drain(&mut reader, &mut out);
        rest = later;
        if rest.is_empty() || matches!(out.last(), Some(Out::Broken(_))) {
            return out;
        }
    }
    out
}

fn message(command: u16, payload: &[u8]) -> Vec<u8> {
    let size_bytes = (16 + payload.len()) as u32;
    let header = Header {
        id: MessageId(1),
        command: Command(command),
        size_bytes,
        kind: Kind::Command,
        no_reply: false,
        error: None,
    };
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let one = (0..20_u16, proptest::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(command, payload)| message(command, &payload));
    let noise = proptest::collection::vec(any::<u8>(), 0..40);
    proptest::collection::vec(prop_oneof![9 => one, 1 => noise], 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn messages_do_not_depend_on_the_pieces(bytes in stream(), pieces in proptest::collection::vec(1..50_usize, 1..5)) {
        let limits = Limits { data_bytes: 24, fds: 2 };
        prop_assert_eq!(read(&bytes, &pieces, limits), read(&bytes, &[usize::MAX], limits));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for out in read(&bytes, &[7], Limits::default()) {
            if let Out::Message(header, payload, _) = out {
                let _ = Request::parse(header.command, &payload);
                let _ = Reply::parse(&header, &payload);
            }
        }
    }
}

#[test]
fn a_command_that_is_not_known_is_skipped_with_its_payload() {
    let bytes = [message(99, &[0xff; 5000]), message(13, &[])].concat();
    let out = read(&bytes, &[33], Limits::default());
    assert!(
        matches!(
            out.as_slice(),
            [
                Out::Refused(_, WireError::UnknownCommand(Command(99))),
                Out::Message(Header { command: Command::DEVICE_RESET, .. }, _, _),
            ]
        ),
        "{out:?}"
    );
}

#[test]
fn a_message_that_is_too_long_is_skipped_and_takes_no_memory() {
    let mut bytes = message(10, &[]);
    bytes[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    let mut reader = Reader::<u32>::new(Limits::default());
    let mut out = Vec::new();
    reader.push(&bytes, []);
    let zeroes = vec![0; 1 << 20];
    let mut left = u32::MAX as usize - 16;
    while left > 0 {
        drain(&mut reader, &mut out);
        assert!(out.is_empty());
        let now = left.min(zeroes.len());
        reader.push(&zeroes[..now], []);
        left -= now;
    }
    reader.push(&message(13, &[]), []);
    drain(&mut reader, &mut out);
    assert!(
        matches!(out.as_slice(), [Out::Refused(_, WireError::TooLong { .. }), Out::Message(..)]),
        "{out:?}"
    );
}

#[test]
fn a_message_shorter_than_its_header_breaks_the_stream() {
    let mut bytes = message(13, &[]);
    bytes[4] = 15;
    assert_eq!(read(&bytes, &[100], Limits::default()), [Out::Broken(Broken { size_bytes: 15 })]);
}

#[test]
fn message_that_is_neither_command_nor_reply_is_refused() {
    let mut bytes = message(13, &[]);
    bytes[if cfg!(target_endian = "little") { 8 } else { 11 }] = 2;
    let out = read(&bytes, &[100], Limits::default());
    assert!(matches!(out.as_slice(), [Out::Refused(_, WireError::UnknownKind(2))]), "{out:?}");
}

fn fds(out: &[Out]) -> Vec<Vec<u32>> {
    let of = |one: &Out| match one {
        Out::Message(_, _, fds) => fds.clone(),
        _ => Vec::new(),
    };
    out.iter().map(of).collect()
}

#[test]
fn descriptors_belong_to_the_message_that_their_chunk_ends_in() {
    let mut reader = Reader::new(Limits::default());
    let mut out = Vec::new();
    let map = message(2, &[0; 32]);
    reader.push(&[map.clone(), map.clone()].concat(), [1]);
    reader.push(&map, []);
    drain(&mut reader, &mut out);
    reader.push(&map[..16], [2]);
    drain(&mut reader, &mut out);
    reader.push(&map[16..], []);
    reader.push(&map[..5], [3]);
    reader.push(&map[5..], [4]);
    drain(&mut reader, &mut out);
    assert_eq!(fds(&out), [vec![], vec![1], vec![], vec![2], vec![3, 4]]);
}

#[test]
fn descriptors_of_refused_messages_are_closed_and_stay_with_them() {
    let mut reader = Reader::new(Limits::default());
    let mut out = Vec::new();
    reader.push(&message(99, &[0; 40]), [1, 2]);
    reader.push(&message(13, &[]), []);
    drain(&mut reader, &mut out);
    assert!(fds(&out).concat().is_empty());
}

#[test]
fn a_flood_of_descriptors_is_refused_with_its_message() {
    let mut reader = Reader::new(Limits { fds: 3, ..Limits::default() });
    let mut out = Vec::new();
    let bytes = message(8, &[0; 20]);
    for byte in &bytes {
        reader.push(std::slice::from_ref(byte), [7, 8]);
        drain(&mut reader, &mut out);
    }
    reader.push(&bytes, [9, 9, 9]);
    drain(&mut reader, &mut out);
    assert!(matches!(out[0], Out::Refused(_, WireError::TooManyFds { fds: 72, limit: 3 })), "{out:?}");
    assert!(matches!(&out[1], Out::Message(_, _, fds) if fds.as_slice() == [9, 9, 9]), "{out:?}");
}

#[test]
fn a_message_whose_descriptors_were_lost_is_refused_and_no_other() {
    let mut reader = Reader::new(Limits::default());
    let mut out = Vec::new();
    let irqs = message(8, &[0; 20]);
    reader.push(&irqs[..10], [1]);
    reader.note_lost_fds();
    drain(&mut reader, &mut out);
    reader.push(&irqs[10..], []);
    reader.push(&irqs, [2]);
    drain(&mut reader, &mut out);
    assert!(matches!(out[0], Out::Refused(_, WireError::LostFds)), "{out:?}");
    assert!(matches!(&out[1], Out::Message(_, _, fds) if fds.as_slice() == [2]), "{out:?}");
}

#[test]
fn reader_reports_whether_the_stream_may_end_here() {
    let mut reader = Reader::<u32>::new(Limits::default());
    assert!(reader.is_between_messages());
    let bytes = message(2, &[0; 32]);
    reader.push(&bytes[..20], []);
    assert!(reader.next().unwrap().is_none());
    assert!(!reader.is_between_messages());
    reader.push(&bytes[20..], []);
    assert!(reader.next().unwrap().is_some());
    assert!(reader.is_between_messages());
}

#[test]
fn reader_is_ready_once_a_message_is_complete() {
    let unwanted = message(u16::MAX, &[0; 300]);
    for bytes in [message(2, &[0; 32]), unwanted] {
        let mut reader = Reader::<u32>::new(Limits::default());
        for piece in bytes.chunks(7) {
            assert!(!reader.is_ready().unwrap());
            reader.push(piece, []);
        }
        assert!(reader.is_ready().unwrap() && reader.is_ready().unwrap());
        assert!(reader.next().unwrap().is_some());
        assert!(!reader.is_ready().unwrap() && reader.is_between_messages());
    }
}
