//! A place at which hosts of these tests connect in the clear, and from which TLS goes to the target.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use byway_fabrics::authentication::Parties;
use byway_fabrics::tls::{PskForm, TlsKey, TlsPsk};
use byway_tls::{TlsHost, TlsSession};
use parking_lot::Mutex;

use crate::served::TIMEOUT;

/// For connections by one pre-shared key; a connection that ends at one side ends at the other.
pub struct Tunnel {
    pub address: SocketAddr,
}

impl Tunnel {
    pub fn new(to: SocketAddr, key: &TlsKey, parties: &Parties) -> Self {
        Self::by(to, TlsPsk::of(key, parties, PskForm::LATEST))
    }

    /// By a key that is known already.
    pub fn by(to: SocketAddr, psk: TlsPsk) -> Self {
        let host = TlsHost::new(psk).unwrap();
        let take = move |clear| {
            let (host, sealed) = (host.clone(), TcpStream::connect(to).unwrap());
            std::thread::spawn(move || carry(clear, sealed, &host));
            true
        };
        Self { address: byway_kit::accept_while(take).unwrap() }
    }
}

/// One end of a connection: a session and its socket, which are used together.
struct End {
    session: TlsSession,
    socket: TcpStream,
}

impl End {
    fn flush(&mut self) {
        // The reading side notices a target that is gone.
        let _ = self.socket.write_all(self.session.unsent());
        self.session.sent(self.session.unsent().len());
    }
}

fn carry(mut clear: TcpStream, mut sealed: TcpStream, host: &TlsHost) {
    sealed.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut session = host.session().unwrap();
    let mut buffer = vec![0; 64 << 10];
    while !session.shake().unwrap_or(true) {
        sealed.write_all(session.unsent()).unwrap();
        session.sent(session.unsent().len());
        let bytes = sealed.read(&mut buffer).unwrap_or(0);
        if bytes == 0 || session.put(&buffer[..bytes]).is_err() {
            break;
        }
    }
    sealed.set_read_timeout(None).unwrap();
    let end = Arc::new(Mutex::new(End { session, socket: sealed.try_clone().unwrap() }));
    end.lock().flush();
    let (writer, other) = (end.clone(), clear.try_clone().unwrap());
    std::thread::spawn(move || there(other, &writer));
    back(&mut sealed, &mut clear, &end);
    for socket in [&clear, &sealed] {
        // It may have ended by itself.
        let _ = socket.shutdown(Shutdown::Both);
    }
}

fn there(mut clear: TcpStream, end: &Mutex<End>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes @ 1..) = clear.read(&mut buffer) {
        let mut end = end.lock();
        let mut left = &buffer[..bytes];
        while let Ok(written @ 1..) = end.session.write(left) {
            left = &left[written..];
            end.flush();
        }
    }
    let _ = end.lock().socket.shutdown(Shutdown::Both);
}

fn back(sealed: &mut TcpStream, clear: &mut TcpStream, end: &Mutex<End>) {
    let (mut buffer, mut room) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        loop {
            let mut end = end.lock();
            let read = end.session.read(&mut room);
            end.flush();
            drop(end);
            match read {
                Ok(0) => break,
                Ok(bytes) if clear.write_all(&room[..bytes]).is_ok() => {}
                _ => return,
            }
        }
        let Ok(bytes @ 1..) = sealed.read(&mut buffer) else { return };
        if end.lock().session.put(&buffer[..bytes]).is_err() {
            return;
        }
    }
}
