//! The socket of one client: bytes and descriptors, without blocking.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use byway_vfio_user_wire::Reader;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::limits::LIMITS;

/// Bytes of one receive.
const RECEIVED_BYTES: usize = 64 << 10;

/// Unsent bytes from which on no more messages of a client are executed.
const UNSENT_BYTES: usize = 256 << 10;

/// The result of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Bytes for the reader.
    Some,
    /// Nothing now.
    Nothing,
    /// The client closed its side.
    End,
}

/// Unsent replies, with the descriptors that some of them carry.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The replies, in order.
    pub bytes: Vec<u8>,
    /// Descriptors, each with the offset of its reply.
    fds: VecDeque<(usize, Arc<OwnedFd>)>,
}

impl Outbox {
    /// The reply that begins at `at` carries a descriptor.
    pub fn attach(&mut self, at: usize, fd: Arc<OwnedFd>) {
        self.fds.push_back((at, fd));
    }

    /// Sends once: bytes up to the next reply that carries a descriptor, or that one with it.
    fn send(&mut self, socket: &UnixStream) -> rustix::io::Result<()> {
        let carried = self.fds.front().filter(|(at, _)| *at == 0).map(|(_, fd)| fd.clone());
        let next = self.fds.get(usize::from(carried.is_some())).map_or(self.bytes.len(), |(at, _)| *at);
        let bytes = [IoSlice::new(self.bytes.get(..next).unwrap_or_default())];
        let fds: Vec<BorrowedFd<'_>> = carried.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let sent = sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL)?;
        // The descriptor goes with the first byte.
        if carried.is_some() {
            self.fds.pop_front();
        }
        self.bytes.drain(..sent);
        self.fds.iter_mut().for_each(|(at, _)| *at -= sent);
        Ok(())
    }
}

/// A client's socket with its receive and send buffers.
#[derive(Debug)]
pub struct Connection {
    socket: UnixStream,
    /// Received messages.
    pub reader: Reader<OwnedFd>,
    /// Unsent replies.
    pub out: Outbox,
    received: Box<[u8]>,
}

impl Connection {
    /// An accepted connection.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let received = vec![0; RECEIVED_BYTES].into_boxed_slice();
        Ok(Self { socket, reader: Reader::new(LIMITS), out: Outbox::default(), received })
    }

    /// Receives once.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn receive(&mut self) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LIMITS.fds))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut self.received)];
        let (got, is_short) = match recvmsg(&self.socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => (got.bytes, got.flags.contains(ReturnFlags::CTRUNC)),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
            Err(error) => return Err(error.into()),
        };
        if got == 0 {
            return Ok(Received::End);
        }
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        // Too many descriptors are refused with the request.
        let are_lost = is_short && fds.len() < LIMITS.fds;
        self.reader.push(self.received.get(..got).unwrap_or_default(), fds);
        if are_lost {
            self.reader.note_lost_fds();
        }
        Ok(Received::Some)
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            match self.out.send(&self.socket) {
                Ok(()) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether unsent bytes are left.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        !self.out.bytes.is_empty()
    }

    /// Whether the client must read its replies before anything more is done for it.
    #[must_use]
    pub fn is_clogged(&self) -> bool {
        self.out.bytes.len() >= UNSENT_BYTES
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
