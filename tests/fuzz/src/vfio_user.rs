//! Bytes of a vfio-user socket, for either side.

use byway_vfio_user_wire::{
    Broken, Header, Incoming, Kind, Limits, MessageId, Reader, Reply, Request, encode_error,
};

/// The first byte gives the piece size; the rest was sent by a peer. The result does not depend on the pieces, and
/// what parses encodes to the same bytes.
pub fn vfio_user(bytes: &[u8]) {
    let Some((&cut, stream)) = bytes.split_first() else { return };
    let whole = messages(stream, stream.len().max(1));
    assert_eq!(messages(stream, usize::from(cut) + 1), whole, "it depends on the pieces");
}

/// The messages of `stream`, read in pieces of `piece_bytes`.
fn messages(stream: &[u8], piece_bytes: usize) -> (Vec<String>, Option<Broken>) {
    let limits = Limits { data_bytes: 64, fds: 2 };
    let mut reader = Reader::<()>::new(limits);
    let mut seen = Vec::new();
    for piece in stream.chunks(piece_bytes) {
        reader.push(piece, []);
        loop {
            match reader.next() {
                Ok(None) => break,
                Ok(Some(incoming)) => seen.push(look(&incoming)),
                Err(broken) => return (seen, Some(broken)),
            }
        }
    }
    (seen, None)
}

fn look(incoming: &Incoming<'_, ()>) -> String {
    match incoming {
        Incoming::Message(message) => {
            assert_eq!(message.header.size_bytes as usize, 16 + message.payload.len());
            request(&message.header, message.payload);
            reply(&message.header, message.payload);
            format!("{:?} {:?}", message.header, message.payload)
        }
        Incoming::Refused { header, why } => {
            let mut answer = Vec::new();
            encode_error(header, why.errno(), &mut answer);
            assert_eq!(answer.len(), 16);
            format!("{header:?} {why}")
        }
    }
}

fn request(header: &Header, payload: &[u8]) {
    let Ok(request) = Request::parse(header.command, payload) else { return };
    assert_eq!(request.command(), header.command);
    let mut bytes = Vec::new();
    request.encode(MessageId(header.id.0), header.no_reply, &mut bytes);
    let again = Request::parse(header.command, bytes.get(16..).unwrap_or_default());
    assert_eq!(again, Ok(request));
}

fn reply(header: &Header, payload: &[u8]) {
    let as_reply = Header { kind: Kind::Reply, ..*header };
    let Ok(reply) = Reply::parse(&as_reply, payload) else { return };
    let mut bytes = Vec::new();
    reply.encode(header, &mut bytes);
    let again = Reply::parse(&as_reply, bytes.get(16..).unwrap_or_default());
    assert_eq!(again, Ok(reply));
}
