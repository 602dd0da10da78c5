//! The bytes and descriptors of one client's socket. Nothing here waits.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use byway_vfio_user_wire::Reader;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg};

use crate::session::LIMITS;

/// What is received at once.
const RECEIVED_BYTES: usize = 64 << 10;

/// With this much to be sent nothing more is done for a client: one that does not read its replies is not read either.
const UNSENT_BYTES: usize = 256 << 10;

/// Whether anything came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Bytes for the reader.
    Some,
    /// Nothing now.
    Nothing,
    /// Nothing ever again.
    End,
}

/// A client's socket, with what came and what is to go.
#[derive(Debug)]
pub struct Connection {
    socket: UnixStream,
    /// What came.
    pub reader: Reader<OwnedFd>,
    /// What is to go.
    pub out: Vec<u8>,
    received: Box<[u8]>,
}

impl Connection {
    /// A connection that has just been made.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let received = vec![0; RECEIVED_BYTES].into_boxed_slice();
        Ok(Self { socket, reader: Reader::new(LIMITS), out: Vec::new(), received })
    }

    /// Receives once.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn receive(&mut self) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LIMITS.fds))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut self.received)];
        let got = match recvmsg(&self.socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => got.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
            Err(error) => return Err(error.into()),
        };
        if got == 0 {
            return Ok(Received::End);
        }
        let fds = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        self.reader.push(self.received.get(..got).unwrap_or_default(), fds.flatten());
        Ok(Received::Some)
    }

    /// Sends what is to go, as much as the socket takes.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            match rustix::net::send(&self.socket, &self.out, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether something is to go that the socket did not take.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether the client must read its replies before anything more is done for it.
    #[must_use]
    pub fn is_clogged(&self) -> bool {
        self.out.len() >= UNSENT_BYTES
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
