//! Whatever one side writes the other reads, in any pieces, with the data lent from where it was received.
#![allow(clippy::unwrap_used)]

use byway_nvme_tcp::*;
use byway_spec::{Command, Completion};
use proptest::collection::vec;
use proptest::prelude::*;

/// A PDU as read: its data in one piece, and the digest check.
type Read<P> = (P, Vec<u8>, Option<DataCheck>);

/// Reads `bytes` in pieces of these lengths, over and over.
fn read<P: Dialect>(mut reader: Reader<P>, bytes: &[u8], pieces: &[usize]) -> Vec<Read<P>> {
    let mut out: Vec<Read<P>> = Vec::new();
    let mut rest = bytes;
    for piece in pieces.iter().cycle() {
        let (mut now, later) = rest.split_at((*piece).min(rest.len()));
        let received = now.as_ptr_range();
        while let Some(incoming) = reader.next(&mut now).unwrap() {
            match incoming {
                Incoming::Pdu { pdu, data_bytes } => {
                    out.push((pdu, Vec::with_capacity(data_bytes as usize), None));
                }
                Incoming::Data(data) => {
                    assert!(received.contains(&data.as_ptr()), "data is lent, not copied");
                    out.last_mut().unwrap().1.extend_from_slice(data);
                }
                Incoming::End(check) => out.last_mut().unwrap().2 = Some(check),
            }
        }
        assert!(now.is_empty(), "None means that all was read");
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    assert!(reader.is_between_pdus());
    out
}

fn command() -> impl Strategy<Value = Command> {
    (any::<[u64; 8]>()).prop_map(|words| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Command::from_bytes(bytes.first_chunk().unwrap())
    })
}

fn host_pdu() -> impl Strategy<Value = (HostPdu, Vec<u8>)> {
    let data =
        (any::<[u16; 2]>(), any::<u32>(), any::<bool>()).prop_map(|([command, tag], offset_bytes, last)| {
            HostPdu::Data(H2cData { command: CommandId(command), tag: TransferTag(tag), offset_bytes, last })
        });
    prop_oneof![
        (command().prop_map(HostPdu::Command), vec(any::<u8>(), 0..300)),
        (data, vec(any::<u8>(), 1..300)),
    ]
}

fn controller_pdu() -> impl Strategy<Value = (ControllerPdu, Vec<u8>)> {
    let response = any::<[u64; 2]>().prop_map(|words| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        ControllerPdu::Response(Completion::from_bytes(bytes.first_chunk().unwrap()))
    });
    let end = prop_oneof![Just(C2hEnd::More), Just(C2hEnd::Response), Just(C2hEnd::Success)];
    let data = (any::<u16>(), any::<u32>(), end).prop_map(|(command, offset_bytes, end)| {
        ControllerPdu::Data(C2hData { command: CommandId(command), offset_bytes, end })
    });
    let ready =
        (any::<[u16; 2]>(), any::<u32>(), 1..u32::MAX).prop_map(|([command, tag], offset_bytes, bytes)| {
            let (command, tag) = (CommandId(command), TransferTag(tag));
            ControllerPdu::ReadyToTransfer(ReadyToTransfer { command, tag, offset_bytes, bytes })
        });
    prop_oneof![(response, Just(Vec::new())), (data, vec(any::<u8>(), 1..300)), (ready, Just(Vec::new())),]
}

fn agreement() -> impl Strategy<Value = Agreement> {
    (any::<[bool; 2]>(), any::<[u8; 2]>())
        .prop_map(|([header, data], alignments)| agreed(Digests { header, data }, alignments))
}

fn agreed(digests: Digests, alignments: [u8; 2]) -> Agreement {
    let [host, controller] = alignments.map(|any| Alignment::from_dwords_z(any % 32).unwrap());
    let asked = IcReq { alignment: host, digests, max_r2t_z: 0 };
    asked.answer(&Offer { alignment: controller, ..Offer::default() }).1
}

/// With the data cut in two, as scattered memory is.
fn write_host(agreed: &Agreement, pdus: &[(HostPdu, Vec<u8>)]) -> Vec<u8> {
    let (writer, mut wire) = (Writer::<HostPdu>::new(agreed), Vec::new());
    for (pdu, data) in pdus {
        let (first, second) = data.split_at(data.len() / 3);
        match pdu {
            HostPdu::Command(command) => writer.command(command, &[first, second]).append_to(&mut wire),
            HostPdu::Data(at) => writer.data(at, &[first, second]).append_to(&mut wire),
            HostPdu::Terminate(_) => {}
        }
    }
    wire
}

fn write_controller(agreed: &Agreement, pdus: &[(ControllerPdu, Vec<u8>)]) -> Vec<u8> {
    let (writer, mut wire) = (Writer::<ControllerPdu>::new(agreed), Vec::new());
    for (pdu, data) in pdus {
        let (first, second) = data.split_at(data.len() / 3);
        match pdu {
            ControllerPdu::Response(completion) => writer.response(completion).append_to(&mut wire),
            ControllerPdu::Data(at) => writer.data(at, &[first, second]).append_to(&mut wire),
            ControllerPdu::ReadyToTransfer(asked) => writer.ready_to_transfer(asked).append_to(&mut wire),
            ControllerPdu::Terminate(_) => {}
        }
    }
    wire
}

fn as_read<P: Copy>(pdus: &[(P, Vec<u8>)]) -> Vec<Read<P>> {
    let check = |data: &Vec<u8>| (!data.is_empty()).then_some(DataCheck::Intact);
    pdus.iter().map(|(pdu, data)| (*pdu, data.clone(), check(data))).collect()
}

proptest! {
    #[test]
    fn host_pdus_round_trip_to_the_controller(
        agreed in agreement(), pdus in vec(host_pdu(), 1..6), pieces in vec(1..200_usize, 1..5),
    ) {
        let wire = write_host(&agreed, &pdus);
        prop_assert_eq!(read(Reader::<IcReq>::new().open(&agreed), &wire, &pieces), as_read(&pdus));
        prop_assert_eq!(read(Reader::<IcReq>::new().open(&agreed), &wire, &[1]), as_read(&pdus));
    }

    #[test]
    fn controller_pdus_round_trip_to_the_host(
        agreed in agreement(), pdus in vec(controller_pdu(), 1..6), pieces in vec(1..200_usize, 1..5),
    ) {
        let wire = write_controller(&agreed, &pdus);
        prop_assert_eq!(read(Reader::<Opening>::new().open(&agreed), &wire, &pieces), as_read(&pdus));
        prop_assert_eq!(read(Reader::<Opening>::new().open(&agreed), &wire, &[1]), as_read(&pdus));
    }

    #[test]
    fn both_sides_come_to_the_same_agreement(
        host in 0..32_u8, controller in 0..32_u8, digests: [bool; 2], max_r2t_z: u32, most in 4096..u32::MAX, piece in 1..200_usize,
    ) {
        let alignment = Alignment::from_dwords_z(host).unwrap();
        let [header, data] = digests;
        let asked = IcReq { alignment, digests: Digests { header, data }, max_r2t_z };
        let got = read(Reader::<IcReq>::new(), &asked.encode(), &[piece]);
        prop_assert_eq!(&got, &[(asked, Vec::new(), None)]);
        let alignment = Alignment::from_dwords_z(controller).unwrap();
        let offer = Offer { alignment, digests: Digests::BOTH, max_h2c_data_bytes: most };
        let (answer, agreed) = got[0].0.answer(&offer);
        let got = read(Reader::<Opening>::new(), &answer.encode(), &[piece]);
        prop_assert_eq!(&got, &[(Opening::Accepted(answer), Vec::new(), None)]);
        prop_assert_eq!(asked.accept(&answer), Ok(agreed));
    }

    /// One flipped bit of a stream with both digests is never read as something else that is right: in a header it ends
    /// the connection or, within padding, is not looked at; in data it fails the command.
    #[test]
    fn a_flipped_bit_is_found_by_one_digest_or_the_other(
        alignments: [u8; 2], data in vec(any::<u8>(), 1..300), at: prop::sample::Index, bit in 0..8_u8,
    ) {
        let agreed = agreed(Digests::BOTH, alignments);
        let pdu = HostPdu::Command(Command::new(1, 2, 3));
        let mut wire = write_host(&agreed, &[(pdu, data.clone())]);
        let at = at.index(wire.len());
        wire[at] ^= 1_u8 << bit;
        let mut reader = Reader::<IcReq>::new().open(&agreed);
        let mut rest = &wire[..];
        let mut seen = Vec::new();
        while let Ok(Some(incoming)) = reader.next(&mut rest) {
            seen.push(incoming);
        }
        let data_begin = usize::from(wire[3]);
        match at {
            0..76 => prop_assert!(seen.is_empty(), "{seen:?}"),
            _ if at < data_begin => prop_assert_eq!(seen.last(), Some(&Incoming::End(DataCheck::Intact))),
            _ => prop_assert!(matches!(seen.last(), Some(Incoming::End(DataCheck::Corrupt { .. }))), "{seen:?}"),
        }
    }
}

#[test]
fn data_may_be_received_where_it_belongs() {
    let agreed = IcReq { digests: Digests::BOTH, ..IcReq::default() }.answer(&Offer::default()).1;
    let data: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    let at = C2hData { command: CommandId(1), offset_bytes: 0, end: C2hEnd::Success };
    let mut wire = Vec::new();
    Writer::<ControllerPdu>::new(&agreed).data(&at, &[&data]).append_to(&mut wire);

    let mut reader = Reader::<Opening>::new().open(&agreed);
    let (mut head, mut rest) = wire.split_at(1000);
    let mut place = vec![0; data.len()];
    let mut have = 0;
    while let Some(incoming) = reader.next(&mut head).unwrap() {
        if let Incoming::Data(data) = incoming {
            place[have..have + data.len()].copy_from_slice(data);
            have += data.len();
        }
    }
    assert_eq!(reader.data_left_bytes() as usize, data.len() - have);
    let left = reader.data_left_bytes() as usize;
    place[have..].copy_from_slice(&rest[..left]);
    rest = &rest[left..];
    let mut received = &place[have..];
    assert_eq!(reader.next(&mut received), Ok(Some(Incoming::Data(&place[have..]))));
    assert_eq!(reader.next(&mut rest), Ok(Some(Incoming::End(DataCheck::Intact))));
    assert_eq!(place, data);
}
