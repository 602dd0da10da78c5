//! Every field of every PDU out of range: refused with the status and the field that the specification has for it.
#![allow(clippy::unwrap_used)]

use byway_nvme_tcp::*;
use byway_spec::tcp::FatalStatus;
use byway_spec::{Command, Completion, Status};

const FIELD: u16 = 1;
const SEQUENCE: u16 = 2;
const DIGEST: u16 = 3;
const LIMIT: u16 = 5;
const UNSUPPORTED: u16 = 6;

/// Reads bytes; returns status and information of the refusal.
type Judged<'a> = &'a dyn Fn(&[u8]) -> Option<(u16, u32)>;

fn agreed(digests: Digests) -> Agreement {
    IcReq { digests, ..IcReq::default() }.answer(&Offer { max_h2c_data_bytes: 4096, ..Offer::default() }).1
}

/// Status and information of the refusal; `None` if all of `wire` was accepted.
fn refused<P: Dialect>(mut reader: Reader<P>, wire: &[u8]) -> Option<(u16, u32)> {
    let mut input = wire;
    loop {
        match reader.next(&mut input) {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(violation) => {
                assert_eq!(reader.next(&mut &wire[..]).map(|_| ()), Err(violation), "it stays refused");
                return Some((violation.status().0, violation.information()));
            }
        }
    }
}

fn from_host(digests: Digests, wire: &[u8]) -> Option<(u16, u32)> {
    refused(Reader::<IcReq>::new().open(&agreed(digests)), wire)
}

fn from_controller(digests: Digests, wire: &[u8]) -> Option<(u16, u32)> {
    refused(Reader::<Opening>::new().open(&agreed(digests)), wire)
}

fn changed(wire: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut wire = wire.to_vec();
    wire[at..at + bytes.len()].copy_from_slice(bytes);
    wire
}

fn bytes_of(frame: &Frame<'_>) -> Vec<u8> {
    let mut wire = Vec::new();
    frame.append_to(&mut wire);
    wire
}

fn capsule(digests: Digests, data: &[u8]) -> Vec<u8> {
    bytes_of(&Writer::<HostPdu>::new(&agreed(digests)).command(&Command::new(1, 2, 3), &[data]))
}

fn h2c_data(digests: Digests, data: &[u8]) -> Vec<u8> {
    let at = H2cData { command: CommandId(2), tag: TransferTag(0), offset_bytes: 0, last: true };
    bytes_of(&Writer::<HostPdu>::new(&agreed(digests)).data(&at, &[data]))
}

fn c2h_data(digests: Digests, data: &[u8]) -> Vec<u8> {
    let at = C2hData { command: CommandId(2), offset_bytes: 0, end: C2hEnd::Success };
    bytes_of(&Writer::<ControllerPdu>::new(&agreed(digests)).data(&at, &[data]))
}

fn response(digests: Digests) -> Vec<u8> {
    let completion = Completion::new(0, 0, 2, Status::SUCCESS);
    bytes_of(&Writer::<ControllerPdu>::new(&agreed(digests)).response(&completion))
}

fn r2t(digests: Digests) -> Vec<u8> {
    let asked = ReadyToTransfer { command: CommandId(2), tag: TransferTag(0), offset_bytes: 0, bytes: 512 };
    bytes_of(&Writer::<ControllerPdu>::new(&agreed(digests)).ready_to_transfer(&asked))
}

/// A termination request of this type with `data_bytes` behind its header.
fn term_req(kind: u8, data_bytes: usize) -> Vec<u8> {
    let mut wire = vec![0; 24 + data_bytes];
    wire[..10].copy_from_slice(&[kind, 0, 24, 0, 24 + data_bytes as u8, 0, 0, 0, 1, 0]);
    wire
}

#[test]
fn a_type_that_does_not_come_from_that_side_is_an_invalid_field() {
    let opening = IcReq::default().encode();
    for kind in (0..=255_u8).filter(|kind| ![0, 2, 4, 6].contains(kind)) {
        assert_eq!(
            refused(Reader::<IcReq>::new(), &changed(&opening, 0, &[kind])),
            Some((FIELD, 0)),
            "{kind}"
        );
        let wire = changed(&capsule(Digests::NONE, b""), 0, &[kind]);
        assert_eq!(from_host(Digests::NONE, &wire), Some((FIELD, 0)), "{kind}");
    }
    for kind in (0..=255_u8).filter(|kind| ![1, 3, 5, 7, 9].contains(kind)) {
        assert_eq!(
            refused(Reader::<Opening>::new(), &changed(&opening, 0, &[kind])),
            Some((FIELD, 0)),
            "{kind}"
        );
        let wire = changed(&response(Digests::NONE), 0, &[kind]);
        assert_eq!(from_controller(Digests::NONE, &wire), Some((FIELD, 0)), "{kind}");
    }
}

#[test]
fn a_type_of_another_phase_is_out_of_sequence() {
    for kind in [2, 4, 6] {
        assert_eq!(refused(Reader::<IcReq>::new(), &term_req(kind, 8)), Some((SEQUENCE, 0)), "{kind}");
    }
    for kind in [5, 7, 9] {
        assert_eq!(refused(Reader::<Opening>::new(), &term_req(kind, 8)), Some((SEQUENCE, 0)), "{kind}");
    }
    let asked = IcReq::default();
    assert_eq!(from_host(Digests::NONE, &asked.encode()), Some((SEQUENCE, 0)));
    let (answer, _) = asked.answer(&Offer::default());
    assert_eq!(from_controller(Digests::NONE, &answer.encode()), Some((SEQUENCE, 0)));
}

#[test]
fn a_header_length_that_is_not_its_types_is_refused_at_byte_2() {
    let check = |wire: &[u8], read: Judged<'_>| {
        assert_eq!(read(wire), None);
        for hlen in (0..=255).filter(|hlen| *hlen != wire[2]) {
            assert_eq!(read(&changed(wire, 2, &[hlen])), Some((FIELD, 2)), "{hlen} of {wire:?}");
        }
    };
    let host = |wire: &[u8]| from_host(Digests::NONE, wire);
    let controller = |wire: &[u8]| from_controller(Digests::NONE, wire);
    check(&capsule(Digests::NONE, b"data"), &host);
    check(&h2c_data(Digests::NONE, b"data"), &host);
    check(&term_req(2, 8), &host);
    check(&response(Digests::NONE), &controller);
    check(&c2h_data(Digests::NONE, b"data"), &controller);
    check(&r2t(Digests::NONE), &controller);
    check(&term_req(3, 8), &controller);
    check(&IcReq::default().encode(), &|wire| refused(Reader::<IcReq>::new(), wire));
    let (answer, _) = IcReq::default().answer(&Offer::default());
    check(&answer.encode(), &|wire| refused(Reader::<Opening>::new(), wire));
}

#[test]
fn digest_flags_that_were_not_agreed_on_are_refused_at_byte_1() {
    let header = Digests { header: true, data: false };
    let data = Digests { header: false, data: true };
    for (flags, agreed) in [
        (Digests::NONE, header),
        (Digests::NONE, data),
        (header, Digests::NONE),
        (data, Digests::NONE),
        (Digests::BOTH, header),
        (Digests::BOTH, data),
    ] {
        for wire in [capsule(flags, b"data"), h2c_data(flags, b"data")] {
            assert_eq!(from_host(agreed, &wire), Some((FIELD, 1)), "{flags:?} for {agreed:?}");
        }
        assert_eq!(from_controller(agreed, &c2h_data(flags, b"data")), Some((FIELD, 1)));
    }
    for wire in [response(Digests::NONE), r2t(Digests::NONE)] {
        assert_eq!(from_controller(header, &wire), Some((FIELD, 1)));
        assert_eq!(
            from_controller(data, &changed(&wire, 1, &[2])),
            Some((FIELD, 1)),
            "no data, no digest of it"
        );
    }
    assert_eq!(from_host(data, &changed(&capsule(data, b""), 1, &[2])), Some((FIELD, 1)));
    assert_eq!(from_host(Digests::BOTH, &changed(&term_req(2, 8), 1, &[1])), Some((FIELD, 1)));
    assert_eq!(from_host(Digests::BOTH, &changed(&term_req(2, 8), 1, &[2])), Some((FIELD, 1)));
    assert_eq!(from_host(Digests::BOTH, &term_req(2, 8)), None, "those that end a connection have none");
}

#[test]
fn data_that_begins_within_the_header_or_unaligned_is_refused_at_byte_3() {
    for pdo in (0..72).chain([73, 74, 75, 77]) {
        let wire = changed(&capsule(Digests::NONE, &[0; 200]), 3, &[pdo]);
        assert_eq!(from_host(Digests::NONE, &wire), Some((FIELD, 3)), "{pdo}");
    }
    for pdo in (0..76).chain([77, 79]) {
        let wire = changed(&capsule(Digests::BOTH, &[0; 200]), 3, &[pdo]);
        assert_eq!(from_host(Digests::BOTH, &wire), Some((FIELD, 3)), "{pdo}");
    }
    for pdo in 0..24 {
        let none = Digests::NONE;
        assert_eq!(from_host(none, &changed(&h2c_data(none, &[0; 200]), 3, &[pdo])), Some((FIELD, 3)));
        assert_eq!(from_controller(none, &changed(&c2h_data(none, &[0; 200]), 3, &[pdo])), Some((FIELD, 3)));
    }
}

#[test]
fn more_padding_than_is_needed_is_skipped() {
    let wire = capsule(Digests::NONE, &[7; 10]);
    let mut padded = changed(&wire, 3, &[252]);
    padded[4..8].copy_from_slice(&262_u32.to_le_bytes());
    padded.splice(72..72, [0xff; 180]);
    let mut reader = Reader::<IcReq>::new().open(&agreed(Digests::NONE));
    let mut input = &padded[..];
    assert!(matches!(reader.next(&mut input), Ok(Some(Incoming::Pdu { data_bytes: 10, .. }))));
    assert_eq!(reader.next(&mut input), Ok(Some(Incoming::Data(&[7; 10]))));
}

#[test]
fn a_length_that_does_not_fit_its_parts_is_refused_at_byte_4() {
    let with = |wire: &[u8], plen: u32| changed(wire, 4, &plen.to_le_bytes());
    for plen in (0..72).chain([0x8000_0000, u32::MAX]) {
        let wire = with(&capsule(Digests::NONE, b"data"), plen);
        assert_eq!(from_host(Digests::NONE, &wire), Some((FIELD, 4)), "{plen}");
    }
    for plen in [76 + 4, 75, 77, 79] {
        let wire = with(&capsule(Digests::BOTH, b"data"), plen);
        assert_eq!(from_host(Digests::BOTH, &wire), Some((FIELD, 4)), "{plen}");
    }
    for plen in [0, 23, 25, 28, u32::MAX] {
        assert_eq!(from_controller(Digests::NONE, &with(&response(Digests::NONE), plen)), Some((FIELD, 4)));
        assert_eq!(from_controller(Digests::NONE, &with(&r2t(Digests::NONE), plen)), Some((FIELD, 4)));
    }
    for plen in [0, 23, 24] {
        assert_eq!(
            from_host(Digests::NONE, &with(&h2c_data(Digests::NONE, b"data"), plen)),
            Some((FIELD, 4))
        );
        assert_eq!(
            from_controller(Digests::NONE, &with(&c2h_data(Digests::NONE, b"d"), plen)),
            Some((FIELD, 4))
        );
    }
    for plen in [0, 127, 129, u32::MAX] {
        assert_eq!(
            refused(Reader::<IcReq>::new(), &with(&IcReq::default().encode(), plen)),
            Some((FIELD, 4))
        );
    }
    for plen in [0, 23, 153, u32::MAX] {
        assert_eq!(from_host(Digests::NONE, &with(&term_req(2, 8), plen)), Some((FIELD, 4)));
    }
}

#[test]
fn a_termination_request_may_repeat_up_to_128_bytes_and_none() {
    for bytes in [0, 1, 8, 128] {
        assert_eq!(from_host(Digests::BOTH, &term_req(2, bytes)), None);
        assert_eq!(from_controller(Digests::BOTH, &term_req(3, bytes)), None);
        assert_eq!(refused(Reader::<Opening>::new(), &term_req(3, bytes)), None);
    }
}

#[test]
fn nothing_is_read_after_a_termination_request() {
    let wire = [term_req(2, 8), vec![0xff; 1000]].concat();
    let mut reader = Reader::<IcReq>::new().open(&agreed(Digests::NONE));
    let mut input = &wire[..];
    let said = TermReq { status: FatalStatus::INVALID_HEADER_FIELD, information: 0 };
    let first = Incoming::Pdu { pdu: HostPdu::Terminate(said), data_bytes: 8 };
    assert_eq!(reader.next(&mut input), Ok(Some(first)));
    assert_eq!(reader.next(&mut input), Ok(Some(Incoming::Data(&[0; 8]))));
    assert_eq!(reader.next(&mut input), Ok(Some(Incoming::End(DataCheck::Intact))));
    assert_eq!(reader.next(&mut input), Ok(None));
    assert!(input.is_empty() && reader.is_between_pdus());
}

#[test]
fn in_capsule_data_has_the_limit_of_its_queue() {
    let wire = capsule(Digests::BOTH, &[0; 8193]);
    assert_eq!(from_host(Digests::BOTH, &capsule(Digests::BOTH, &[0; 8192])), None);
    assert_eq!(from_host(Digests::BOTH, &wire), Some((FIELD, 4)));
    let with_limit = |limit_bytes| {
        let mut reader = Reader::<IcReq>::new().open(&agreed(Digests::BOTH));
        reader.set_capsule_data_bytes(limit_bytes);
        reader
    };
    assert_eq!(refused(with_limit(8193), &wire), None);
    assert_eq!(refused(with_limit(4096), &capsule(Digests::BOTH, &[0; 8192])), None, "fabrics commands may");
}

#[test]
fn more_data_in_one_pdu_than_was_agreed_on_exceeds_a_limit() {
    assert_eq!(from_host(Digests::BOTH, &h2c_data(Digests::BOTH, &[0; 4096])), None);
    assert_eq!(from_host(Digests::BOTH, &h2c_data(Digests::BOTH, &[0; 4097])), Some((LIMIT, 0)));
}

#[test]
fn a_data_length_that_is_not_that_of_the_pdu_is_refused_at_byte_16() {
    for datal in [0, 3, 5, u32::MAX] {
        let wire = changed(&h2c_data(Digests::NONE, b"data"), 16, &datal.to_le_bytes());
        assert_eq!(from_host(Digests::NONE, &wire), Some((FIELD, 16)));
        let wire = changed(&c2h_data(Digests::NONE, b"data"), 16, &datal.to_le_bytes());
        assert_eq!(from_controller(Digests::NONE, &wire), Some((FIELD, 16)));
    }
}

#[test]
fn an_r2t_for_nothing_is_refused_at_byte_16() {
    assert_eq!(from_controller(Digests::NONE, &changed(&r2t(Digests::NONE), 16, &[0; 4])), Some((FIELD, 16)));
}

#[test]
fn success_before_the_last_data_is_refused_at_byte_1() {
    let wire = changed(&c2h_data(Digests::NONE, b"data"), 1, &[8]);
    assert_eq!(from_controller(Digests::NONE, &wire), Some((FIELD, 1)));
}

#[test]
fn wrong_header_digest_is_reported_as_received() {
    for wire in
        [capsule(Digests::BOTH, b"data"), capsule(Digests::BOTH, b""), h2c_data(Digests::BOTH, b"data")]
    {
        let at = usize::from(wire[2]);
        let wire = changed(&wire, at, &[1, 2, 3, 4]);
        assert_eq!(from_host(Digests::BOTH, &wire), Some((DIGEST, 0x0403_0201)));
    }
    for wire in [response(Digests::BOTH), r2t(Digests::BOTH), c2h_data(Digests::BOTH, b"data")] {
        assert_eq!(
            from_controller(Digests::BOTH, &changed(&wire, 24, &[1, 2, 3, 4])),
            Some((DIGEST, 0x0403_0201))
        );
    }
}

#[test]
fn a_wrong_data_digest_fails_one_command_and_the_next_is_read() {
    let mut wire = capsule(Digests::BOTH, b"data");
    *wire.last_mut().unwrap() ^= 1;
    wire.extend(capsule(Digests::BOTH, b"more"));
    let mut reader = Reader::<IcReq>::new().open(&agreed(Digests::BOTH));
    let mut input = &wire[..];
    let mut checks = Vec::new();
    while let Some(incoming) = reader.next(&mut input).unwrap() {
        if let Incoming::End(check) = incoming {
            checks.push(check);
        }
    }
    let computed = Digest::of(b"data").value();
    assert_eq!(checks, [DataCheck::Corrupt { computed, received: computed ^ 1 << 24 }, DataCheck::Intact]);
}

#[test]
fn every_field_of_an_icreq_is_held_against_its_range() {
    let read = |wire: &[u8]| refused(Reader::<IcReq>::new(), wire);
    let wire = IcReq::default().encode();
    assert_eq!(read(&changed(&wire, 8, &[1])), Some((UNSUPPORTED, 8)));
    assert_eq!(read(&changed(&wire, 9, &[1])), Some((UNSUPPORTED, 8)));
    assert_eq!(read(&changed(&wire, 10, &[31])), None);
    assert_eq!(read(&changed(&wire, 10, &[32])), Some((FIELD, 10)));
    assert_eq!(read(&changed(&wire, 12, &[0xff; 4])), None, "a host may take any number of R2Ts");
    assert_eq!(read(&changed(&wire, 16, &[0xff; 112])), None, "what is reserved is not looked at");
}

#[test]
fn every_field_of_an_icresp_is_held_against_its_range() {
    let read = |wire: &[u8]| refused(Reader::<Opening>::new(), wire);
    let (answer, _) = IcReq::default().answer(&Offer::default());
    let wire = answer.encode();
    assert_eq!(read(&changed(&wire, 8, &[1])), Some((UNSUPPORTED, 8)));
    assert_eq!(read(&changed(&wire, 10, &[32])), Some((FIELD, 10)));
    for bytes in [0_u32, 4095, 4092, 4097, u32::MAX] {
        assert_eq!(read(&changed(&wire, 12, &bytes.to_le_bytes())), Some((FIELD, 12)), "{bytes}");
    }
    assert_eq!(read(&changed(&wire, 12, &4096_u32.to_le_bytes())), None);
}

#[test]
fn digests_that_were_not_proposed_and_digests_that_were_declined_are_both_refused() {
    let header = Digests { header: true, data: false };
    for (proposed, had) in [(Digests::NONE, header), (header, Digests::BOTH), (Digests::BOTH, header)] {
        let asked = IcReq { digests: proposed, ..IcReq::default() };
        let (answer, _) = asked.answer(&Offer::default());
        let violation = asked.accept(&IcResp { digests: had, ..answer }).unwrap_err();
        assert_eq!((violation.status().0, violation.information()), (UNSUPPORTED, 11));
    }
}

#[test]
fn a_controller_without_digests_agrees_on_none() {
    let asked = IcReq { digests: Digests::BOTH, ..IcReq::default() };
    let (answer, agreed) = asked.answer(&Offer { digests: Digests::NONE, ..Offer::default() });
    assert_eq!((answer.digests, agreed.digests()), (Digests::NONE, Digests::NONE));
}

/// A header that is wrong is refused with its eighth byte: a peer cannot have this side wait for the rest of it.
#[test]
fn a_wrong_header_is_refused_before_the_rest_of_it_came() {
    let wire = changed(&capsule(Digests::NONE, b""), 2, &[73]);
    assert_eq!(from_host(Digests::NONE, &wire[..7]), None);
    assert_eq!(from_host(Digests::NONE, &wire[..8]), Some((FIELD, 2)));
}

#[test]
fn violation_found_by_the_caller_ends_the_connection() {
    let mut reader = Reader::<IcReq>::new().open(&agreed(Digests::BOTH));
    let wire = [h2c_data(Digests::BOTH, b"data"), capsule(Digests::BOTH, b"")].concat();
    let mut input = &wire[..];
    assert!(matches!(reader.next(&mut input), Ok(Some(Incoming::Pdu { pdu: HostPdu::Data(_), .. }))));
    let violation = Violation::UnknownTag(TransferTag(0));
    let mut out = Vec::new();
    reader.refuse(&violation, &mut out);
    assert_eq!(out[..14], [3, 0, 24, 0, 48, 0, 0, 0, 1, 0, 10, 0, 0, 0]);
    assert_eq!(out[24..], wire[..24], "the header, without its digest");
    assert_eq!(reader.next(&mut input), Err(violation));
}
