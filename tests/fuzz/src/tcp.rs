//! Bytes of an NVMe/TCP connection, for either side.

use byway_nvme_tcp::{
    Agreement, Alignment, CommandId, ControllerPdu, DataCheck, Dialect, Digests, HostPdu, IcReq, Inbound,
    Incoming, Offer, Opening, Outbound, Reader, Solicitations, Violation, Writer,
};

/// A PDU with its data and the verdict on it.
type Seen<P> = (P, Vec<u8>, Option<DataCheck>);

/// The violation that ends a stream, if any.
type End = Option<Violation>;

/// The first byte gives the piece size, the second the agreement; the rest was sent by a host. The result does not
/// depend on the pieces, and each PDU read encodes to the same bytes.
pub fn from_host(bytes: &[u8]) {
    let Some((piece_bytes, agreed, stream)) = split_input(bytes) else { return };
    alike(&Reader::<IcReq>::new(), stream, piece_bytes);
    let reader = Reader::<IcReq>::new().open(&agreed);
    let mut r2ts = some_asked();
    for (pdu, data, check) in alike(&reader, stream, piece_bytes) {
        let (writer, mut wire) = (Writer::<HostPdu>::new(&agreed), Vec::new());
        match &pdu {
            HostPdu::Command(command) => writer.command(command, &[&data]).append_to(&mut wire),
            HostPdu::Data(at) => writer.data(at, &[&data]).append_to(&mut wire),
            HostPdu::Terminate(_) => continue,
        }
        is_read_again(&reader, &wire, (pdu, data, check));
        if let (HostPdu::Data(at), Some(_)) = (pdu, check) {
            answered(&mut r2ts, &at);
        }
    }
}

/// As [`from_host`], for bytes sent by a controller.
pub fn from_controller(bytes: &[u8]) {
    let Some((piece_bytes, agreed, stream)) = split_input(bytes) else { return };
    alike(&Reader::<Opening>::new(), stream, piece_bytes);
    let reader = Reader::<Opening>::new().open(&agreed);
    let (mut read, mut write) = (Inbound::new(8192), Outbound::new(8192));
    for (pdu, data, check) in alike(&reader, stream, piece_bytes) {
        let (writer, mut wire) = (Writer::<ControllerPdu>::new(&agreed), Vec::new());
        match &pdu {
            ControllerPdu::Response(completion) => writer.response(completion).append_to(&mut wire),
            ControllerPdu::Data(at) => writer.data(at, &[&data]).append_to(&mut wire),
            ControllerPdu::ReadyToTransfer(asked) => writer.ready_to_transfer(asked).append_to(&mut wire),
            ControllerPdu::Terminate(_) => continue,
        }
        is_read_again(&reader, &wire, (pdu, data.clone(), check));
        match pdu {
            ControllerPdu::Data(at) if check.is_some() => {
                let before = read.received_bytes();
                if let Ok(range) = read.accept(&at, data.len() as u32) {
                    assert!(range.start == before && range.end == read.received_bytes() && range.end <= 8192);
                }
            }
            ControllerPdu::ReadyToTransfer(asked) => {
                let Ok(grant) = write.accept(&asked, &agreed) else { continue };
                let sent: u32 = grant.map(|(_, range)| range.len() as u32).sum();
                assert_eq!(sent, asked.bytes);
                write.sent();
            }
            _ => {}
        }
    }
}

fn split_input(bytes: &[u8]) -> Option<(usize, Agreement, &[u8])> {
    let [cut, wishes, stream @ ..] = bytes else { return None };
    let alignment = Alignment::from_dwords_z(wishes >> 3)?;
    let digests = Digests { header: wishes & 1 != 0, data: wishes & 2 != 0 };
    let asked = IcReq { alignment, digests, max_r2t_z: 1 };
    let (_, agreed) = asked.answer(&Offer { alignment, max_h2c_data_bytes: 4096, ..Offer::default() });
    Some((usize::from(*cut) + 1, agreed, stream))
}

/// The PDUs of `stream`, read in pieces and in one piece: both must agree.
fn alike<P>(reader: &Reader<P>, stream: &[u8], piece_bytes: usize) -> Vec<Seen<P>>
where
    P: Dialect + Clone + PartialEq + std::fmt::Debug,
{
    let (whole, end) = read(reader.clone(), stream, stream.len().max(1));
    let (mut pieces, its_end) = read(reader.clone(), stream, piece_bytes);
    assert_eq!(end, its_end, "it depends on the pieces");
    assert_eq!(whole, pieces, "it depends on the pieces");
    // A PDU that the stream cut off has no digest check yet.
    pieces.retain(|(_, data, check)| data.is_empty() || check.is_some());
    pieces
}

fn read<P: Dialect>(mut reader: Reader<P>, stream: &[u8], piece_bytes: usize) -> (Vec<Seen<P>>, End) {
    let mut seen: Vec<Seen<P>> = Vec::new();
    for mut piece in stream.chunks(piece_bytes) {
        loop {
            match reader.next(&mut piece) {
                Ok(None) => break,
                Ok(Some(Incoming::Pdu { pdu, .. })) => seen.push((pdu, Vec::new(), None)),
                Ok(Some(Incoming::Data(data))) => {
                    assert!(!data.is_empty());
                    seen.last_mut().expect("data follows a header").1.extend_from_slice(data);
                }
                Ok(Some(Incoming::End(check))) => {
                    seen.last_mut().expect("an end follows data").2 = Some(check)
                }
                Err(violation) => return (seen, Some(refused(reader, violation))),
            }
        }
        assert!(piece.is_empty());
    }
    (seen, None)
}

/// Encodes the termination request, which the peer must be able to read.
fn refused<P: Dialect>(mut reader: Reader<P>, violation: Violation) -> Violation {
    let mut wire = Vec::new();
    reader.refuse(&violation, &mut wire);
    assert!((24 + 8..=152).contains(&wire.len()));
    assert_eq!(usize::from(wire[4]), wire.len());
    assert_eq!(reader.next(&mut &wire[..]).map(|_| ()), Err(violation));
    violation
}

fn is_read_again<P>(reader: &Reader<P>, wire: &[u8], (pdu, data, check): Seen<P>)
where
    P: Dialect + Clone + PartialEq + std::fmt::Debug,
{
    let check = check.map(|_| DataCheck::Intact);
    // A header whose data never came is encoded without data, which is valid only for commands.
    if data.is_empty() && !matches!(wire.first(), Some(4 | 5 | 9)) {
        return;
    }
    assert_eq!(read(reader.clone(), wire, wire.len()), (vec![(pdu, data, check)], None));
}

fn some_asked() -> Solicitations {
    let mut r2ts = Solicitations::new(4);
    for command in 0..3 {
        r2ts.ask(CommandId(command), 4096 * u32::from(command), 4096);
    }
    r2ts
}

fn answered(r2ts: &mut Solicitations, at: &byway_nvme_tcp::H2cData) {
    let before = r2ts.outstanding();
    match r2ts.accept(at, 4) {
        Ok(accepted) => {
            assert_eq!(r2ts.outstanding(), before - usize::from(accepted.whole));
            assert!(accepted.range_bytes.end <= 12288);
        }
        Err(_) => assert_eq!(r2ts.outstanding(), before),
    }
}
