//! The second socket, by which a server asks for memory: a thread answers there at any time, whatever other threads do.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::thread;

use byway_driver::BusError;
use byway_sys::OwnerProcess;
use byway_vfio_user_wire::{Incoming, Kind, Limits, Reader, encode_error};

use super::ANSWER;
use super::connection::{DATA_BYTES_MAX, answer};
use super::memory::Link;

/// What is received at once.
const RECEIVED_BYTES: usize = 64 << 10;

/// The socket, whose thread ends with it.
#[derive(Debug)]
pub(crate) struct Twin(OwnerProcess, UnixStream);

impl Twin {
    /// Answers what is asked at `socket` of the memory that is shared over `link`.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(crate) fn answer(socket: OwnedFd, link: &Arc<Link>) -> Result<Self, BusError> {
        let socket = UnixStream::from(socket);
        let link = Arc::downgrade(link);
        let begin = || {
            socket.set_nonblocking(false)?;
            // A server that asks and does not read is not waited for without end.
            socket.set_write_timeout(Some(ANSWER))?;
            let theirs = socket.try_clone()?;
            thread::Builder::new().name("byway-dma".to_owned()).spawn(move || serve(theirs, &link))
        };
        begin()
            .map_err(|cause| BusError::Unready(format!("the server's questions cannot be heard: {cause}")))?;
        Ok(Self(OwnerProcess::current(), socket))
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // The thread's own descriptor is of the same socket; so is the one of a forked child's parent.
        if self.0.is_current() {
            let _ = self.1.shutdown(Shutdown::Both);
        }
    }
}

/// Answers until the server closes the socket, or breaks it.
fn serve(mut socket: UnixStream, link: &Weak<Link>) {
    let mut reader: Reader<OwnedFd> = Reader::new(Limits { data_bytes: DATA_BYTES_MAX as usize, fds: 0 });
    let mut received = vec![0; RECEIVED_BYTES];
    let mut out = Vec::new();
    while let Ok(got @ 1..) = socket.read(&mut received) {
        reader.push(received.get(..got).unwrap_or_default(), []);
        loop {
            out.clear();
            match reader.next() {
                Ok(None) => break,
                Ok(Some(Incoming::Message(message))) if message.header.kind == Kind::Command => {
                    let Some(link) = link.upgrade() else { return };
                    answer(&message.header, message.payload, &link.host, &mut out);
                }
                Ok(Some(Incoming::Message(_))) => {}
                Ok(Some(Incoming::Refused { header, why })) => encode_error(&header, why.errno(), &mut out),
                Err(_) => return,
            }
            if socket.write_all(&out).is_err() {
                return;
            }
        }
    }
}
