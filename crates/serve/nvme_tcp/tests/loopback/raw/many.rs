//! Retrieve Many: a command with data both ways, its request in the capsule or asked for.

use super::{
    ABORT_REQUESTED, Answer, Descriptor, Entry, INVALID_FIELD, INVALID_OPCODE, RawHost, SGL_LENGTH_INVALID,
    SGL_TYPE_INVALID, SUCCESS, number,
};
use crate::served::{BLOCKS, KEYS, Served};

const RETRIEVE_MANY: u8 = 0xb3;
/// Bits 6, 8 and 9 of the methods: bulk stores, scans, Retrieve Many.
const METHODS: u32 = 0x340;

/// A host that has enabled the commands, and stored `value` under the key `k`, and 5,000 bytes under `long`.
fn hosts(served: &Served) -> (RawHost, RawHost) {
    let (mut admin, controller) = RawHost::admin(served, 6);
    let enabled = admin.run(Entry::new(0x09, 0).cdw(10, 0xc0).cdw(11, METHODS), &[]);
    assert_eq!(enabled.status, SUCCESS);
    let mut io = RawHost::io(served, 1, controller);
    let store =
        |bytes| Entry::new(0x01, KEYS).cdw(10, bytes).described(Descriptor::in_capsule(bytes as usize));
    assert_eq!(io.run(store(5).key(b"k"), b"value").status, SUCCESS);
    assert_eq!(io.run(store(5000).key(b"long"), &[7; 5000]).status, SUCCESS);
    (admin, io)
}

fn many(buffer_bytes: u32, request: &[u8], keys: u32) -> Entry {
    Entry::new(RETRIEVE_MANY, KEYS)
        .cdw(10, buffer_bytes)
        .cdw(11, 0xffff_0000)
        .cdw(12, request.len() as u32)
        .cdw(13, keys)
}

/// Found, whole length and bytes of each key.
fn found(answer: &Answer, buffer_bytes: usize) -> Vec<(u64, u64, Vec<u8>)> {
    assert_eq!((answer.status, answer.data.len()), (SUCCESS, buffer_bytes));
    let data = &answer.data;
    let mut at = 16;
    let entries = (0..number(data, 0, 4)).map(|_| {
        let [found, len, moved] = [0, 4, 8].map(|offset| number(data, at + offset, 4));
        let value = data[at + 12..][..moved as usize].to_vec();
        at += 12 + value.len().next_multiple_of(4);
        (found, len, value)
    });
    let entries = entries.collect();
    assert_eq!(number(data, 4, 4), at as u64, "bytes of the result");
    entries
}

const REQUEST: &[u8] = b"\x01k\x04none\x04long";

#[test]
fn request_in_the_capsule_brings_values_as_data() {
    let served = Served::new();
    let (_admin, mut io) = hosts(&served);
    let entry = many(8000, REQUEST, 3).described(Descriptor::in_capsule(REQUEST.len()));
    let answer = io.run(entry, REQUEST);
    let expected = [(0, 5, b"value".to_vec()), (1, 0, vec![]), (0, 5000, vec![7; 5000])];
    assert_eq!((found(&answer, 8000), answer.result), (expected.to_vec(), 2));
    let short = many(100, REQUEST, 3).described(Descriptor::in_capsule(REQUEST.len()));
    assert_eq!(found(&io.run(short, REQUEST), 100)[2], (2, 5000, vec![]), "no room");
}

#[test]
fn request_that_is_asked_for_brings_the_same() {
    let served = Served::new();
    let (_admin, mut io) = hosts(&served);
    // Longer than a capsule takes.
    let request = (0..1000).flat_map(|_| *b"\x10no key, at all. ").chain(*b"\x01k");
    let request: Vec<u8> = request.collect();
    io.send(many(20_000, &request, 1001).described(Descriptor::transport(20_000)), &[]);
    let answer = io.answer(&request);
    let found = found(&answer, 20_000);
    assert_eq!((found.len(), &found[1000], answer.result), (1001, &(0, 5, b"value".to_vec()), 1));
}

#[test]
fn lengths_that_lie_are_refused_and_the_connection_goes_on() {
    let served = Served::new();
    let (_admin, mut io) = hosts(&served);
    let in_capsule = Descriptor::in_capsule(REQUEST.len());
    let good = many(8000, REQUEST, 3);
    for (entry, status) in [
        (good.described(Descriptor::in_capsule(REQUEST.len() - 1)), SGL_LENGTH_INVALID),
        (good.described(Descriptor::transport(8000)), SGL_LENGTH_INVALID),
        (good.cdw(12, 11).described(in_capsule), SGL_LENGTH_INVALID),
        (good.cdw(12, u32::MAX).described(in_capsule), INVALID_FIELD),
        (good.cdw(13, 4).described(in_capsule), INVALID_FIELD),
        (good.cdw(13, 0).described(in_capsule), INVALID_FIELD),
        (good.cdw(10, 0).described(in_capsule), INVALID_FIELD),
        (good.cdw(10, 0xff_ffff).described(in_capsule), INVALID_FIELD),
    ] {
        assert_eq!(io.run(entry, REQUEST).status, status, "{entry:x?}");
    }
    for (entry, status) in [
        (good.described(in_capsule), SGL_LENGTH_INVALID),
        (good.cdw(12, 0).described(Descriptor::transport(8000)), SGL_LENGTH_INVALID),
        (good.cdw(12, 8001).described(Descriptor::transport(8000)), SGL_LENGTH_INVALID),
        (good.cdw(12, u32::MAX).described(Descriptor::transport(8000)), SGL_LENGTH_INVALID),
        (good.described(Descriptor::transport(usize::MAX)), INVALID_FIELD),
        (good.described(Descriptor::ZERO), SGL_TYPE_INVALID),
    ] {
        assert_eq!(io.run(entry, &[]).status, status, "{entry:x?}");
    }
    // Shorter than the buffer, which the request fits.
    io.send(good.described(Descriptor::transport(7999)), &[]);
    assert_eq!(io.answer(REQUEST).status, SGL_LENGTH_INVALID);
    assert_eq!(io.run(good.described(in_capsule), REQUEST).status, SUCCESS);
}

#[test]
fn other_opcodes_with_data_both_ways_and_other_queues_are_refused() {
    let served = Served::new();
    let (mut admin, mut io) = hosts(&served);
    let in_capsule = Descriptor::in_capsule(REQUEST.len());
    let good = many(8000, REQUEST, 3).described(in_capsule);
    let other = Entry::new(0xb7, KEYS).described(in_capsule);
    assert_eq!(io.run(other, REQUEST).status, INVALID_OPCODE);
    let of_blocks = Entry::new(RETRIEVE_MANY, BLOCKS).cdw(10, 8000).described(in_capsule);
    assert_eq!(io.run(of_blocks, REQUEST).status, INVALID_OPCODE);
    assert_eq!(admin.run(good, REQUEST).status, INVALID_OPCODE);
    let (_other, controller) = RawHost::admin(&served, 6);
    let mut not_enabled = RawHost::io(&served, 1, controller);
    assert_eq!(not_enabled.run(good, REQUEST).status, INVALID_OPCODE);
}

#[test]
fn request_that_is_awaited_can_be_aborted() {
    let served = Served::new();
    let (mut admin, mut io) = hosts(&served);
    let cid = io.send(many(8000, REQUEST, 3).described(Descriptor::transport(8000)), &[]);
    let (asked, _) = io.receive();
    assert_eq!(asked[0], super::R2T);
    assert_eq!(number(&asked, 16, 4), REQUEST.len() as u64, "the request is asked for, not the buffer");
    assert_eq!(admin.run(Entry::new(0x08, 0).cdw(10, u32::from(cid) << 16 | 1), &[]).status, SUCCESS);
    assert_eq!(io.answer(&[]).status, ABORT_REQUESTED);
    io.give(&asked, REQUEST);
    assert_eq!(io.run(Entry::new(0x00, KEYS), &[]).status, SUCCESS);
}
