//! A queue's connection with its socket.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use byway_core::{Deadline, Error, ErrorKind, Memory, Payload, Result};
use byway_spec::Completion;

use crate::channel::Channel;
use crate::connection::{Connection, GATHERED_MAX, Order};
use crate::result::ended;
use crate::stream::{Stream, WaitFor, Woken};

/// A queue's connection with its socket.
#[derive(Debug)]
pub(crate) struct Line {
    pub connection: Connection,
    pub channel: Channel,
}

impl Line {
    /// Of a queue that waits for its first connection.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn awaited(depth: u32) -> Result<Self> {
        let stream = Stream::unconnected().map_err(|cause| Error::kernel("no socket for a queue", cause))?;
        let channel = Channel::Clear(Arc::new(stream));
        Ok(Self { connection: Connection::awaited(depth), channel })
    }

    /// The socket.
    #[inline]
    pub fn stream(&self) -> &Stream {
        self.channel.stream()
    }

    /// Whether something waits to be sent.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.connection.unsent_bytes() > 0 || self.channel.has_unsent()
    }

    /// Sends what waits, as much as there is room for; says whether all of it went.
    ///
    /// # Errors
    /// When the connection has ended.
    #[inline]
    pub fn flush(&mut self) -> Result<bool> {
        self.channel.flush().map_err(ended)?;
        while self.connection.unsent_bytes() > 0 {
            let (wanted, sent) = match self.connection.unsent_in_one_place() {
                Some(bytes) => (bytes.len(), self.channel.send_bytes(bytes)),
                None => self.send_gathered(),
            };
            let sent = sent.map_err(ended)?;
            self.connection.sent(sent);
            if sent < wanted {
                return Ok(false);
            }
        }
        Ok(!self.channel.has_unsent())
    }

    /// Sends pieces from where they lie: how much that was to be, and was.
    fn send_gathered(&mut self) -> (usize, io::Result<usize>) {
        let mut pieces = [IoSlice::new(&[]); GATHERED_MAX];
        let count = self.connection.gather(&mut pieces);
        let gathered = pieces.get(..count).unwrap_or_default();
        (gathered.iter().map(|piece| piece.len()).sum(), self.channel.send(gathered))
    }

    /// Takes what was received, and sends what that asks for; says whether anything came.
    ///
    /// # Errors
    /// When the connection has ended, or the controller violated the protocol, for which a termination request was sent.
    #[inline]
    pub fn receive(&mut self) -> Result<bool> {
        let mut any = self.receive_once()?;
        while self.channel.holds_received() && self.receive_once()? {
            any = true;
        }
        if self.has_unsent() {
            self.flush()?;
        }
        Ok(any)
    }

    #[inline]
    fn receive_once(&mut self) -> Result<bool> {
        let bytes = self.channel.receive(&mut self.connection.room()).map_err(ended)?;
        if bytes == 0 {
            return Ok(false);
        }
        let taken = self.connection.received(bytes);
        if taken.is_err() {
            // The termination request says why, if the controller still listens.
            let _ = self.flush();
        }
        taken?;
        Ok(true)
    }

    /// Takes all that was received.
    ///
    /// # Errors
    /// When the connection has ended, or the controller broke a rule. What came before is taken.
    pub fn receive_all(&mut self) -> Result<()> {
        while self.receive()? {}
        Ok(())
    }

    /// Sleeps until something can be received, or sent where something waits to be, or `other` can be read.
    ///
    /// # Errors
    /// The system's answer.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>, timeout: Duration) -> Result<Woken> {
        let wait = if self.has_unsent() { WaitFor::BytesOrRoom } else { WaitFor::Bytes };
        let woken = self.stream().wait(wait, other, timeout);
        woken.map_err(|cause| Error::kernel("waiting for the connection failed", cause))
    }

    /// Sends one command while no other is outstanding, and waits for its answer.
    ///
    /// # Errors
    /// When the connection ends, or no answer comes in time.
    pub fn call(
        &mut self,
        order: Order,
        payload: Payload,
        deadline: Deadline,
    ) -> Result<(Completion, Memory)> {
        if self.connection.begin(order, payload).is_err() {
            return Err(Error::host(ErrorKind::QueueFull, "no command identifier is left"));
        }
        loop {
            self.flush()?;
            let received = self.receive_all();
            // What came before the connection ended has come.
            if let Some(ended) = self.connection.next_ended() {
                return Ok((ended.result?, ended.memory));
            }
            received?;
            let left = deadline.left_or_max();
            if left.is_zero() {
                return Err(Error::device(ErrorKind::TimedOut, "the controller does not answer"));
            }
            self.wait(None, left)?;
        }
    }
}
