//! Values that come in pieces, seen from the host: piggybacked, with pages by PRP, and over any queue.

use crate::io::{DATA, Io, KV, assert_status, get, keyed};
use byway_kit::pattern;
use byway_spec::vendor::{
    self, TRANSFER_BYTES, TransferPt, VendorOpcode, WRITE_BYTES, WRITE_PT_BYTES, pack_transfer,
    pack_transfer_pt, pack_write, pack_write_pt,
};
use byway_spec::{Command, Completion, Status};

fn transfer(io: &mut Io, bytes: &[u8]) -> Completion {
    let mut command = Command::new(VendorOpcode::KV_TRANSFER.0, 0, KV);
    pack_transfer(&mut command, bytes);
    io.run(command)
}

fn write_pt(io: &mut Io, key: &[u8], len: usize, first: &[u8]) -> Completion {
    let mut command = keyed(VendorOpcode::KV_WRITE_PT.0, key, len);
    pack_write_pt(&mut command, first);
    io.run(command)
}

fn transfer_pt(io: &mut Io, payload: u16, fragment: u16, bytes: &[u8]) -> Completion {
    let mut command = Command::new(VendorOpcode::KV_TRANSFER_PT.0, 0, KV);
    pack_transfer_pt(&mut command, TransferPt::new().with_payload(payload).with_fragment(fragment), bytes);
    io.run(command)
}

fn methods() -> Io {
    let mut io = Io::new();
    io.enable_methods();
    io
}

#[test]
fn a_piggybacked_value_is_whole_with_its_last_fragment() {
    let mut io = methods();
    for len in [0, 1, WRITE_BYTES, WRITE_BYTES + 1, 1000] {
        let (key, value) = (format!("k{len}"), pattern(len as u64, len));
        let (first, rest) = value.split_at(len.min(WRITE_BYTES));
        let mut command = keyed(VendorOpcode::KV_WRITE_PIGGYBACK.0, key.as_bytes(), len);
        pack_write(&mut command, first);
        assert_status(io.run(command), Status::SUCCESS);
        assert_eq!(get(&mut io, key.as_bytes()).is_some(), rest.is_empty());
        for fragment in rest.chunks(TRANSFER_BYTES) {
            assert_status(transfer(&mut io, fragment), Status::SUCCESS);
        }
        assert_eq!(get(&mut io, key.as_bytes()), Some(value));
    }
}

#[test]
fn pages_come_by_prp_and_the_tail_in_fragments() {
    let mut io = methods();
    for len in [0, 100, 4096, 4100, 9000] {
        let (key, value) = (format!("k{len}"), pattern(len as u64, len));
        io.put(DATA, &value);
        let mut command = keyed(VendorOpcode::KV_STORE_PRP_TAIL.0, key.as_bytes(), len);
        io.point_prps(&mut command, DATA, len - len % 4096);
        assert_status(io.run(command), Status::SUCCESS);
        for fragment in value[len - len % 4096..].chunks(TRANSFER_BYTES) {
            assert_status(transfer(&mut io, fragment), Status::SUCCESS);
        }
        assert_eq!(get(&mut io, key.as_bytes()), Some(value));
    }
}

#[test]
fn fragments_behind_pages_that_did_not_come_store_nothing() {
    let mut io = methods();
    let mut command = keyed(VendorOpcode::KV_STORE_PRP_TAIL.0, b"key", 4096 + 10);
    command.set_prps(0x10_0000, 0);
    assert_status(io.run(command), Status::DATA_TRANSFER_ERROR);
    assert_status(transfer(&mut io, &[9; 10]), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(get(&mut io, b"key"), None);
}

#[test]
fn pass_through_fragments_come_in_any_order() {
    let mut io = methods();
    let value = pattern(200, 200);
    let id = write_pt(&mut io, b"key", value.len(), &value[..WRITE_PT_BYTES]).dw0 as u16;
    let fragments: Vec<&[u8]> = value[WRITE_PT_BYTES..].chunks(vendor::TRANSFER_PT_BYTES).collect();
    for (place, fragment) in fragments.iter().enumerate().rev() {
        assert_eq!(get(&mut io, b"key"), None);
        assert_status(transfer_pt(&mut io, id, place as u16, fragment), Status::SUCCESS);
    }
    assert_eq!(get(&mut io, b"key"), Some(value));
}

#[test]
fn an_identifier_of_an_unfinished_payload_is_not_given_again() {
    let mut io = methods();
    let abandoned = write_pt(&mut io, b"old", 20, &[1; WRITE_PT_BYTES]).dw0;
    for _ in 0..=u16::MAX {
        let id = write_pt(&mut io, b"new", 20, &[2; WRITE_PT_BYTES]).dw0;
        assert_ne!(id, abandoned);
        assert_status(transfer_pt(&mut io, id as u16, 0, &[2; 9]), Status::SUCCESS);
    }
    assert_eq!(get(&mut io, b"old"), None);
}
