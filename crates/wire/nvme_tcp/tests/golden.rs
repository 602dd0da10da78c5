//! PDUs byte by byte, as peers have them.
#![allow(clippy::unwrap_used)]

use byway_nvme_tcp::*;
use byway_spec::{Command, Completion, DataPointer, Status};

/// The agreement of a host and a controller with these settings.
fn agreed(digests: Digests, alignment: u8) -> Agreement {
    let alignment = Alignment::from_dwords_z(alignment).unwrap();
    let asked = IcReq { alignment, digests, max_r2t_z: 0 };
    let (_, agreed) = asked.answer(&Offer { alignment, ..Offer::default() });
    agreed
}

fn bytes_of(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.append_to(&mut bytes);
    let data = frame.data().concat();
    let tail = frame.tail();
    let gathered = [frame.head(), &data, tail.as_ref().map_or(&[][..], |tail| &tail[..])].concat();
    assert_eq!(bytes, gathered, "sent from where it lies, it is the same");
    bytes
}

fn padded(start: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = start.to_vec();
    bytes.resize(len, 0);
    bytes
}

fn keep_alive() -> Command {
    let mut command = Command::new(0x18, 0x1234, 0);
    command.cdw0.set_psdt(DataPointer::Sgl);
    command
}

#[test]
fn an_icreq_asks_for_digests_at_byte_11_and_for_r2ts_at_byte_12() {
    let asked = IcReq { digests: Digests::BOTH, max_r2t_z: 3, ..IcReq::default() };
    assert_eq!(asked.encode()[..], padded(&[0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0], 128));
}

#[test]
fn icresp_has_its_data_limit_at_byte_12() {
    let digests = Digests { header: true, data: false };
    let asked = IcReq { digests, ..IcReq::default() };
    let (answer, _) = asked.answer(&Offer { max_h2c_data_bytes: 0x20003, ..Offer::default() });
    assert_eq!(answer.encode()[..], padded(&[1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0], 128));
}

#[test]
fn a_keep_alive_with_a_header_digest_has_76_bytes() {
    let digests = Digests { header: true, data: false };
    let bytes = bytes_of(&Writer::<HostPdu>::new(&agreed(digests, 0)).command(&keep_alive(), &[]));
    let mut expected = padded(&[0x04, 0x01, 0x48, 0x00, 0x4c, 0x00, 0x00, 0x00, 0x18, 0x40, 0x34, 0x12], 72);
    expected.extend(Digest::of(&expected).to_bytes());
    assert_eq!(bytes, expected);
}

/// The vector has PDO 4Ch without data, as peers may send it; it is ignored.
#[test]
fn the_header_digest_of_the_published_keep_alive_is_b27d2026h() {
    let mut bytes = padded(&[0x04, 0x01, 0x48, 0x4c, 0x4c, 0x00, 0x00, 0x00, 0x18, 0x40, 0x34, 0x12], 72);
    assert_eq!(Digest::of(&bytes).value(), 0xb27d_2026);
    bytes.extend(0xb27d_2026_u32.to_le_bytes());
    let digests = Digests { header: true, data: false };
    let mut reader = Reader::<IcReq>::new().open(&agreed(digests, 0));
    let read = reader.next(&mut &bytes[..]).unwrap().unwrap();
    assert_eq!(read, Incoming::Pdu { pdu: HostPdu::Command(keep_alive()), data_bytes: 0 });
}

#[test]
fn digests_are_castagnolis() {
    assert_eq!(Digest::of(b"123456789").to_bytes(), [0x83, 0x92, 0x06, 0xe3]);
    assert_eq!(Digest::of(&[0; 32]).value(), 0x8a91_36aa);
}

#[test]
fn a_write_in_its_capsule_has_its_data_behind_the_header_digest() {
    let bytes = bytes_of(
        &Writer::<HostPdu>::new(&agreed(Digests::BOTH, 0)).command(&keep_alive(), &[b"1234", b"56789"]),
    );
    assert_eq!(bytes[..8], [4, 3, 72, 76, 89, 0, 0, 0]);
    assert_eq!(bytes[76..], *b"123456789\x83\x92\x06\xe3");
}

#[test]
fn data_is_padded_to_where_the_other_side_wants_it() {
    let bytes =
        bytes_of(&Writer::<HostPdu>::new(&agreed(Digests::BOTH, 31)).command(&keep_alive(), &[b"123456789"]));
    assert_eq!(bytes[..8], [4, 3, 72, 128, 141, 0, 0, 0]);
    assert_eq!(bytes[76..128], [0; 52]);
    assert_eq!(bytes[128..], *b"123456789\x83\x92\x06\xe3");
}

/// A head of 76 bytes aligned to 68 takes 136: more than the largest alignment.
#[test]
fn every_alignment_is_kept_to_behind_every_header() {
    for dwords_z in 0..32 {
        let agreed = agreed(Digests::BOTH, dwords_z);
        let bytes = bytes_of(&Writer::<HostPdu>::new(&agreed).command(&keep_alive(), &[b"!"]));
        let expected = 76_usize.next_multiple_of((usize::from(dwords_z) + 1) * 4);
        assert_eq!((usize::from(bytes[3]), bytes[expected]), (expected, b'!'), "{dwords_z}");
        assert!(expected <= HEAD_BYTES_MAX);
    }
}

#[test]
fn a_command_without_data_is_not_padded() {
    let bytes = bytes_of(&Writer::<HostPdu>::new(&agreed(Digests::BOTH, 31)).command(&keep_alive(), &[]));
    assert_eq!(bytes[..8], [4, 1, 72, 0, 76, 0, 0, 0]);
}

#[test]
fn a_response_is_a_completion_at_byte_8() {
    let completion = Completion::new(0, 9, 0xabcd, Status::INVALID_FIELD.with_dnr());
    let bytes = bytes_of(&Writer::<ControllerPdu>::new(&agreed(Digests::NONE, 0)).response(&completion));
    assert_eq!(bytes[..8], [5, 0, 24, 0, 24, 0, 0, 0]);
    assert_eq!(bytes[8..], completion.to_bytes());
}

#[test]
fn an_r2t_is_type_9() {
    let asked =
        ReadyToTransfer { command: CommandId(7), tag: TransferTag(0x0102), offset_bytes: 8192, bytes: 4096 };
    let bytes = bytes_of(&Writer::<ControllerPdu>::new(&agreed(Digests::NONE, 0)).ready_to_transfer(&asked));
    let expected = [9, 0, 24, 0, 24, 0, 0, 0, 7, 0, 2, 1, 0, 0x20, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes, expected);
}

#[test]
fn data_to_the_controller_repeats_the_tag_and_has_bit_2_on_its_last() {
    let at = H2cData { command: CommandId(7), tag: TransferTag(0x0102), offset_bytes: 0x2004, last: true };
    let bytes = bytes_of(&Writer::<HostPdu>::new(&agreed(Digests::NONE, 0)).data(&at, &[b"data!"]));
    let expected = [
        6, 4, 24, 24, 29, 0, 0, 0, 7, 0, 2, 1, 4, 0x20, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, b'd', b'a', b't', b'a',
        b'!',
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn data_to_the_host_has_bits_2_and_3_where_no_response_follows() {
    let writer = Writer::<ControllerPdu>::new(&agreed(Digests::NONE, 0));
    for (end, flags) in [(C2hEnd::More, 0), (C2hEnd::Response, 4), (C2hEnd::Success, 12)] {
        let bytes =
            bytes_of(&writer.data(&C2hData { command: CommandId(7), offset_bytes: 512, end }, &[b"!"]));
        let expected = [7, flags, 24, 24, 25, 0, 0, 0, 7, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'!'];
        assert_eq!(bytes, expected);
    }
}

#[test]
fn room_for_a_head_is_what_the_head_takes() {
    for (digests, alignment, bytes) in
        [(Digests::NONE, 0, 24), (Digests::BOTH, 0, 28), (Digests::BOTH, 15, 64)]
    {
        let writer = Writer::<ControllerPdu>::new(&agreed(digests, alignment));
        assert_eq!(writer.data_head_bytes(), bytes);
        let at = C2hData { command: CommandId(7), offset_bytes: 512, end: C2hEnd::Response };
        assert_eq!(writer.data(&at, &[b"!"]).head().len(), bytes);
    }
}

/// FEI is at byte 10, unaligned; a peer that copies Linux's structure has it at 12.
#[test]
fn termination_request_has_the_field_at_byte_10_and_repeats_the_header() {
    let mut reader = Reader::<IcReq>::new();
    let violation = reader.next(&mut &b"GET / HTTP/1.1\r\n"[..]).unwrap_err();
    let mut bytes = Vec::new();
    reader.refuse(&violation, &mut bytes);
    let expected = [&[3, 0, 24, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0, 0][..], &[0; 10], b"GET / HT"].concat();
    assert_eq!(bytes, expected);

    let mut reader = Reader::<Opening>::new();
    let mut wire = padded(&[1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 0, 1, 16, 0, 0], 128);
    let violation = reader.next(&mut &wire[..]).unwrap_err();
    assert_eq!(violation, Violation::MaxH2cData(4097));
    bytes.clear();
    reader.refuse(&violation, &mut bytes);
    assert_eq!(bytes[..14], [2, 0, 24, 0, 152, 0, 0, 0, 1, 0, 12, 0, 0, 0]);
    wire.splice(..0, [0; 10]);
    assert_eq!(bytes[14..], wire);
}
