//! A TCP connection that never blocks: bytes gathered and scattered, and waits with an end.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use byway_core::{Deadline, Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags,
    SocketType, socket_with,
};

/// A connected socket.
#[derive(Debug)]
pub struct Stream(TcpStream);

/// What a wait is for, beside what can be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// Nothing else.
    Bytes,
    /// Room to send.
    BytesOrRoom,
}

/// What a wait has ended by; neither where its time was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// The socket has what was waited for.
    pub socket: bool,
    /// The other descriptor can be read.
    pub other: bool,
}

impl Stream {
    /// Connects to the first of a host's addresses that answers.
    ///
    /// # Errors
    /// One sentence says where, and why not.
    pub fn connect(host: &str, port: u16, deadline: Deadline) -> Result<Self> {
        let found = (host, port).to_socket_addrs();
        let addresses: Vec<SocketAddr> =
            found.map_err(|cause| Error::kernel(format!("there is no host {host}"), cause))?.collect();
        let mut last = Error::host(ErrorKind::NotFound, format!("the host {host} has no address"));
        for address in addresses {
            match Self::connect_to(address, deadline) {
                Ok(stream) => return Ok(stream),
                Err(cause) => last = not_connected(address, cause),
            }
        }
        Err(last)
    }

    /// A socket without a connection.
    ///
    /// # Errors
    /// The system's answer.
    pub fn unconnected() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        Ok(Self(TcpStream::from(socket)))
    }

    fn connect_to(address: SocketAddr, deadline: Deadline) -> io::Result<Self> {
        let left = deadline.left_or_max().max(Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&address, left)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self(stream))
    }

    /// Sends contiguous bytes without blocking; returns how many were taken.
    ///
    /// # Errors
    /// When the connection has ended.
    #[inline]
    pub fn send_bytes(&self, bytes: &[u8]) -> io::Result<usize> {
        sent(rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL))
    }

    /// Sends what is gathered, as much as there is room for now; nothing where there is none.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        sent(rustix::net::sendmsg(&self.0, pieces, &mut nothing, SendFlags::NOSIGNAL))
    }

    /// Receives the available bytes, without blocking; 0 if there are none.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let received = match into {
            [first, second] if first.is_empty() => {
                rustix::net::recv(&self.0, &mut second[..], RecvFlags::empty()).map(|(bytes, _)| bytes)
            }
            _ => {
                let mut nothing = RecvAncillaryBuffer::default();
                rustix::net::recvmsg(&self.0, into, &mut nothing, RecvFlags::empty()).map(|all| all.bytes)
            }
        };
        match received {
            Ok(0) => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the controller closed the connection"))
            }
            Ok(bytes) => Ok(bytes),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(other) => Err(other.into()),
        }
    }

    /// Sleeps until there is what is waited for, or `other` can be read, at most `timeout`; says which is there.
    ///
    /// # Errors
    /// The system's answer.
    pub fn wait(&self, wait: WaitFor, other: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<Woken> {
        let flags = match wait {
            WaitFor::Bytes => PollFlags::IN,
            WaitFor::BytesOrRoom => PollFlags::IN | PollFlags::OUT,
        };
        let socket = PollFd::new(&self.0, flags);
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let polled = match &other {
            Some(other) => {
                let mut both = [socket, PollFd::new(other, PollFlags::IN)];
                poll(&mut both, Some(&timeout)).map(|_| both.each_ref().map(|one| !one.revents().is_empty()))
            }
            None => poll(&mut [socket], Some(&timeout)).map(|ready| [ready > 0, false]),
        };
        match polled {
            Ok([socket, other]) => Ok(Woken { socket, other }),
            Err(Errno::INTR) => Ok(Woken::default()),
            Err(other) => Err(other.into()),
        }
    }

    /// Ends the connection, and wakes the thread that waits on it.
    pub fn close(&self) {
        // It fails where the connection has ended already.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// No room is no error.
fn sent(result: rustix::io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        other => Ok(other?),
    }
}

#[cold]
fn not_connected(address: SocketAddr, cause: io::Error) -> Error {
    let (said, kind) = match cause.kind() {
        io::ErrorKind::ConnectionRefused => {
            (format!("no server listens at {address}"), Some(ErrorKind::NotFound))
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            (format!("{address} does not answer"), Some(ErrorKind::TimedOut))
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            (format!("no way leads to {address}"), Some(ErrorKind::NotFound))
        }
        _ => (format!("no connection to {address}"), None),
    };
    let error = Error::kernel(said, cause);
    match kind {
        Some(kind) => error.with_kind(kind),
        None => error,
    }
}
