//! What a connection is over: a socket that never blocks, or what a fuzzer has in its place.

use std::fmt::Debug;
use std::net::{Shutdown, TcpStream};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

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
