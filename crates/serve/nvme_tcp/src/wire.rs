//! What a connection is over: a socket that never blocks, or what a fuzzer has in its place.

use std::fmt::Debug;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

/// How long a host may be silent before the kernel asks its machine whether it is still there, which may have been switched off;
/// how often it asks, and how many times in vain.
const ASKED_AFTER: Duration = Duration::from_secs(60);
const ASKED_EVERY: Duration = Duration::from_secs(10);
const ASKED_TIMES: u32 = 6;

/// Has a socket never block, send at once, and end with its host's machine.
///
/// # Errors
/// The system's answer.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_tcp_keepidle(stream, ASKED_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, ASKED_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, ASKED_TIMES)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// Bytes there and back. Nothing waits: [`Errno::AGAIN`] says that there is nothing, or no room.
pub trait Wire: Debug {
    /// Receives what is there; 0 where nothing more comes.
    ///
    /// # Errors
    /// The system's answer.
    fn receive(&self, into: &mut [u8]) -> Result<usize, Errno>;

    /// The same, and leaves it there.
    ///
    /// # Errors
    /// The system's answer.
    fn peek(&self, into: &mut [u8]) -> Result<usize, Errno>;

    /// Sends as much as there is room for.
    ///
    /// # Errors
    /// The system's answer.
    fn send(&self, bytes: &[u8]) -> Result<usize, Errno>;

    /// Nothing more is sent.
    fn end(&self);
}

impl Wire for TcpStream {
    #[inline]
    fn receive(&self, into: &mut [u8]) -> Result<usize, Errno> {
        recv(self, into, RecvFlags::empty()).map(|(bytes, _)| bytes)
    }

    fn peek(&self, into: &mut [u8]) -> Result<usize, Errno> {
        recv(self, into, RecvFlags::PEEK).map(|(bytes, _)| bytes)
    }

    #[inline]
    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        send(self, bytes, SendFlags::NOSIGNAL)
    }

    fn end(&self) {
        // It fails where the host has gone already.
        let _ = self.shutdown(Shutdown::Write);
    }
}
