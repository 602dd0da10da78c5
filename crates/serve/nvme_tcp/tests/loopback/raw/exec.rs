//! Exec: a command with data both ways whose output may come long after its request.

use super::{
    ABORT_REQUESTED, Answer, Descriptor, Entry, INVALID_FIELD, INVALID_OPCODE, RawHost, SGL_LENGTH_INVALID,
    SGL_TYPE_INVALID, SUCCESS, number,
};
use crate::served::{BLOCKS, KEYS, Served};

const EXEC: u8 = 0x83;
const KEY_DOES_NOT_EXIST: u16 = 0x87;
const OPERATION_DENIED: u16 = 0x15;

/// The device's CRC-32C, and what it gives of `123456789`.
const CRC32C: u32 = 3;
const CRC: [u8; 8] = [0x83, 0x92, 0x06, 0xe3, 0, 0, 0, 0];

const REQUEST: &[u8] = b"\x01\0k";
const LONG: &[u8] = b"\x04\0long";

/// Values that take several slices to copy.
const LONG_BYTES: usize = 600_000;

/// A host that has stored `123456789` under the key `k`, and zeroes under `long`.
fn hosts(served: &Served) -> (RawHost, RawHost) {
    let (admin, controller) = RawHost::admin(served, 6);
    let mut io = RawHost::io(served, 1, controller);
    let store = |bytes: usize| Entry::new(0x01, KEYS).cdw(10, bytes as u32);
    let short = store(9).described(Descriptor::in_capsule(9)).key(b"k");
    assert_eq!(io.run(short, b"123456789").status, SUCCESS);
    assert_eq!(io.run_asked(store(LONG_BYTES).key(b"long"), &[0; LONG_BYTES]).status, SUCCESS);
    (admin, io)
}

fn exec(request: &[u8], output_max_bytes: u32) -> Entry {
    Entry::new(EXEC, KEYS).cdw(10, request.len() as u32).cdw(12, output_max_bytes).cdw(13, CRC32C)
}

fn in_capsule(io: &mut RawHost, request: &[u8], output_max_bytes: u32) -> Answer {
    io.run(exec(request, output_max_bytes).described(Descriptor::in_capsule(request.len())), request)
}

#[test]
fn request_in_the_capsule_brings_the_output_and_zeroes_behind_it() {
    let served = Served::new();
    let (_admin, mut io) = hosts(&served);
    for (output_max_bytes, data) in [(0, vec![]), (4, CRC[..4].to_vec()), (12, [&CRC[..], &[0; 4]].concat())]
    {
        let answer = in_capsule(&mut io, REQUEST, output_max_bytes);
        assert_eq!((answer.status, answer.result, answer.data), (SUCCESS, 8, data));
    }
}

#[test]
fn request_that_is_asked_for_brings_the_same() {
    let served = Served::new();
    let (_admin, mut io) = hosts(&served);
    for buffer_bytes in [8, 9, 4096] {
        io.send(exec(REQUEST, 8).described(Descriptor::transport(buffer_bytes)), &[]);
        let (asked, _) = io.receive();
        assert_eq!((asked[0], number(&asked, 16, 4)), (super::R2T, 3), "the request alone");
        io.give(&asked, REQUEST);
        let answer = io.answer(&[]);
        assert_eq!((answer.status, answer.result, answer.data), (SUCCESS, 8, CRC.to_vec()));
    }
    // Longer than a capsule takes, and than the output.
    let mut request = REQUEST.to_vec();
    request.resize(30_000, 0);
    io.send(exec(&request, 8).described(Descriptor::transport(30_000)), &[]);
    assert_eq!(io.answer(&request).status, INVALID_FIELD, "the input is no two parameters");
}

#[test]
fn output_of_a_program_over_a_long_value_comes_with_its_completion() {
    let served = Served::new();
    let (_admin, mut io) = hosts(&served);
    for output_max_bytes in [0, 4, 12] {
        let long = exec(LONG, output_max_bytes).described(Descriptor::in_capsule(LONG.len()));
        let cid = io.send(long, LONG);
        // Another command of the queue goes on meanwhile; either may be first.
        let short = io.send(exec(REQUEST, 8).described(Descriptor::in_capsule(REQUEST.len())), REQUEST);
        let mut answers = [io.answer(&[]), io.answer(&[])];
        answers.sort_by_key(|answer| answer.cid != cid);
        let [long, other] = answers;
        assert_eq!((other.cid, other.status, other.data), (short, SUCCESS, CRC.to_vec()));
        assert_eq!((long.status, long.result, long.data.len()), (SUCCESS, 8, output_max_bytes as usize));
        assert!(long.data.get(8..).unwrap_or_default().iter().all(|byte| *byte == 0));
    }
}

#[test]
fn refused_exec_brings_no_data_and_the_connection_goes_on() {
    let served = Served::new();
    let (mut admin, mut io) = hosts(&served);
    let good = exec(REQUEST, 8);
    let here = Descriptor::in_capsule(REQUEST.len());
    for (entry, status) in [
        (good.described(Descriptor::in_capsule(2)), SGL_LENGTH_INVALID),
        (good.described(Descriptor::transport(8)), SGL_LENGTH_INVALID),
        (good.cdw(10, 4).described(here), SGL_LENGTH_INVALID),
        (good.cdw(10, u32::MAX).described(here), INVALID_FIELD),
        (good.cdw(12, u32::MAX).described(here), INVALID_FIELD),
        (good.cdw(13, 4).described(here), OPERATION_DENIED),
        (good.cdw(1, BLOCKS).described(here), INVALID_OPCODE),
    ] {
        let answer = io.run(entry, REQUEST);
        assert_eq!((answer.status, answer.data.len()), (status, 0), "{entry:x?}");
    }
    for (entry, status) in [
        (good.described(here), SGL_LENGTH_INVALID),
        (good.cdw(10, 9).described(Descriptor::transport(8)), SGL_LENGTH_INVALID),
        (good.cdw(10, 0).described(Descriptor::transport(8)), SGL_LENGTH_INVALID),
        (good.described(Descriptor::transport(usize::MAX)), INVALID_FIELD),
        (good.described(Descriptor::ZERO), SGL_TYPE_INVALID),
    ] {
        assert_eq!(io.run(entry, &[]).status, status, "{entry:x?}");
    }
    assert_eq!(in_capsule(&mut io, b"\x01\0x", 8).status, KEY_DOES_NOT_EXIST);
    assert_eq!(admin.run(good.described(here), REQUEST).status, INVALID_OPCODE);
    assert_eq!(in_capsule(&mut io, REQUEST, 8).status, SUCCESS);
}

#[test]
fn exec_whose_request_is_awaited_can_be_aborted() {
    let served = Served::new();
    let (mut admin, mut io) = hosts(&served);
    let cid = io.send(exec(REQUEST, 8).described(Descriptor::transport(8)), &[]);
    let (asked, _) = io.receive();
    assert_eq!(admin.run(Entry::new(0x08, 0).cdw(10, u32::from(cid) << 16 | 1), &[]).status, SUCCESS);
    assert_eq!(io.answer(&[]).status, ABORT_REQUESTED);
    io.give(&asked, REQUEST);
    assert_eq!(in_capsule(&mut io, REQUEST, 8).status, SUCCESS);
}
