//! What relays between hosts and a target share: a test decides what becomes of each connection and of each piece of it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// Bytes of a piece at most: fewer than an IPv4 datagram carries beside its headers.
pub const PIECE_BYTES_MAX: usize = 60_000;

/// Gives connections to a free local port to `take`, on a thread of their own, until it returns false. Returns the address.
///
/// # Errors
/// When no port can be listened at.
pub fn accept_while(take: impl FnMut(TcpStream) -> bool + Send + 'static) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || listener.incoming().flatten().all(take));
    Ok(address)
}

/// Copies from one connection to another until either has ended. `passes` sees each piece first; those that it
/// returns false for are dropped.
pub fn copy(mut from: &TcpStream, mut to: &TcpStream, mut passes: impl FnMut(&[u8]) -> bool) {
    let mut bytes = vec![0; PIECE_BYTES_MAX];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let piece = &bytes[..count];
        if passes(piece) && to.write_all(piece).is_err() {
            break;
        }
    }
}
