//! The transport of a connection: a non-blocking socket, or a fuzzer's pipe.

use std::fmt::Debug;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

/// TCP keep alive: idle time before the first probe, interval of probes, and unanswered probes until the connection fails.
const KEEPIDLE: Duration = Duration::from_secs(60);
const KEEPINTVL: Duration = Duration::from_secs(10);
const KEEPCNT: u32 = 6;

/// Makes a socket non-blocking, without Nagle's algorithm, with TCP keep alive.
///
/// # Errors
/// The system's error.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_tcp_keepidle(stream, KEEPIDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPINTVL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPCNT)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// A non-blocking byte stream; [`Errno::AGAIN`] means no data or no room.
pub trait Wire: Debug {
    /// Receives available bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// The system's error.
    fn receive(&self, into: &mut [u8]) -> Result<usize, Errno>;

    /// Receives without consuming.
    ///
    /// # Errors
    /// The system's error.
    fn peek(&self, into: &mut [u8]) -> Result<usize, Errno>;

    /// Sends as much as there is room for; returns how many bytes.
    ///
    /// # Errors
    /// The system's error.
    fn send(&self, bytes: &[u8]) -> Result<usize, Errno>;

    /// Shuts down the sending side.
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
        // Fails if the host is gone, which is fine.
        let _ = self.shutdown(Shutdown::Write);
    }
}
