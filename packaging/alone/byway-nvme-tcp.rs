//! The opening of an NVMe/TCP connection and a command, as bytes and as types: no socket, no threads.
use byway_nvme_tcp::{ControllerPdu, Digests, IcReq, Incoming, Offer, Reader, Violation, Writer};

fn main() -> Result<(), Violation> {
    let asked = IcReq { digests: Digests::BOTH, ..IcReq::default() };
    let mut opening = Reader::<IcReq>::new();
    let Some(Incoming::Pdu { pdu, .. }) = opening.next(&mut &asked.encode()[..])? else { return Ok(()) };
    let (answer, agreed) = pdu.answer(&Offer::default());
    let mut wire = Vec::new();
    Writer::<ControllerPdu>::new(&agreed).response(&byway_spec::Completion::default()).append_to(&mut wire);
    println!("answered with {} bytes, then a response of {} with its digest", answer.encode().len(), wire.len());
    Ok(())
}
