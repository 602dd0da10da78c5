//! Client memory that was mapped without a descriptor, accessed by messages (DMA_READ, DMA_WRITE) on the client's second socket.
//!
//! One request at a time, from the thread that holds the run lock. Between two polls of the client's first socket, the replies may
//! take [`DMA_REPLY_TIMEOUT`] together. A client that exceeds it gets no further request; accesses to its memory then fail at once.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use byway_dma::{Access, BusAddr, DmaSpace, MessageDma, Why};
use byway_vfio_user_wire::{Command, DmaMap, DmaUnmap, Incoming, Kind, MessageId, Reply, Request, WireError};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::{Connection, Received};
use crate::limits::LIMITS;
use crate::memory::access_of;

/// Time limit of a client's replies together, until the server has polled its messages again.
pub const DMA_REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Ranges that a client mapped without a descriptor, and the socket for DMA messages.
#[derive(Debug)]
pub struct MessageRanges {
    /// By first address: last address and access rights.
    ranges: Mutex<BTreeMap<u64, (u64, Access)>>,
    channel: Mutex<DmaChannel>,
    /// Polls of the client's messages by the server.
    polls: AtomicU64,
    /// Bytes of one message, at most.
    message_bytes_max: usize,
}

/// The second socket.
#[derive(Debug)]
struct DmaChannel {
    /// `None` once the client failed to reply.
    connection: Option<Connection>,
    next_id: u16,
    waited: Waited,
}

/// Time spent pending for the client since the server's last poll.
#[derive(Debug, Default)]
struct Waited {
    poll: u64,
    time: Duration,
}

impl Waited {
    /// The remaining time, after `polls` polls of the server.
    fn left(&mut self, polls: u64) -> Duration {
        if self.poll != polls {
            *self = Self { poll: polls, time: Duration::ZERO };
        }
        DMA_REPLY_TIMEOUT.saturating_sub(self.time)
    }
}

/// Why a request failed.
enum Fault {
    /// The client replied with an error.
    Refused,
    /// No reply in time, or an invalid one.
    Lost,
}

impl From<io::Error> for Fault {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

impl MessageRanges {
    /// No ranges; returns the client's end of the socket as well.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(client_max_bytes: u64) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        let channel =
            DmaChannel { connection: Some(Connection::new(ours)?), next_id: 0, waited: Waited::default() };
        let message_bytes_max = client_max_bytes.clamp(1, LIMITS.data_bytes as u64) as usize;
        let (ranges, channel) = (Mutex::default(), Mutex::new(channel));
        Ok((Self { ranges, channel, polls: AtomicU64::new(0), message_bytes_max }, theirs.into()))
    }

    /// The server has polled the client's messages: the time limit starts again.
    pub fn note_poll(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a range without a descriptor.
    pub fn map(&self, map: &DmaMap) {
        if let Some(access) = access_of(map) {
            self.ranges.lock().insert(map.range.first(), (map.range.last(), access));
        }
    }

    /// Removes the ranges within these addresses.
    pub fn unmap(&self, unmap: &DmaUnmap) {
        let mut ranges = self.ranges.lock();
        match unmap {
            DmaUnmap::All => ranges.clear(),
            DmaUnmap::Range(range) => {
                ranges.retain(|first, (last, _)| *first < range.first() || *last > range.last())
            }
        }
    }

    /// Transfers bytes from `at` on, at most `len`, as many as one range and one message hold; returns how many. `request` builds
    /// the message for that many bytes; `take` consumes the reply and says whether it is valid.
    fn transfer<'a>(
        &self,
        space: &DmaSpace,
        (at, len): (u64, usize),
        may: impl Fn(Access) -> Result<(), Why>,
        request: impl FnOnce(usize) -> Request<'a>,
        mut take: impl FnMut(usize, Reply<'_>) -> bool,
    ) -> Result<usize, Why> {
        let mut channel = self.channel.lock();
        // Under the space's guard, an unmap comes either before the message or after it; no message follows an unmap.
        let sent = space.while_visible(|| -> Result<_, Why> {
            let ranges = self.ranges.lock();
            let bytes = piece(&ranges, at, len.min(self.message_bytes_max), may)?;
            let request = request(bytes);
            Ok((bytes, channel.send(&request).map(|id| (id, request.command()))))
        });
        let (bytes, sent) = sent??;
        let answered = sent.and_then(|sent| self.await_reply(&mut channel, sent, |reply| take(bytes, reply)));
        match answered {
            Ok(()) => Ok(bytes),
            Err(fault) => {
                if matches!(fault, Fault::Lost) {
                    channel.connection = None;
                }
                Err(Why::MessageFailed)
            }
        }
    }

    /// Waits for a reply within the remaining time.
    fn await_reply(
        &self,
        channel: &mut DmaChannel,
        sent: (MessageId, Command),
        take: impl FnMut(Reply<'_>) -> bool,
    ) -> Result<(), Fault> {
        let left = channel.waited.left(self.polls.load(Ordering::Relaxed));
        let since = Instant::now();
        let answered = channel.await_reply(sent, since + left, take);
        channel.waited.time += since.elapsed();
        answered
    }
}

/// The number of bytes from `at` on, at most `len`, that are in one range.
fn piece(
    ranges: &BTreeMap<u64, (u64, Access)>,
    at: u64,
    len: usize,
    may: impl Fn(Access) -> Result<(), Why>,
) -> Result<usize, Why> {
    let (_, (last, access)) = ranges.range(..=at).next_back().ok_or(Why::Unmapped)?;
    let before_last = last.checked_sub(at).ok_or(Why::Unmapped)?;
    may(*access)?;
    Ok(len.min(usize::try_from(before_last).unwrap_or(usize::MAX - 1) + 1))
}

impl MessageDma for MessageRanges {
    fn read(&self, space: &DmaSpace, at: BusAddr, into: &mut [u8]) -> Result<(), Why> {
        let may = |access: Access| if access.reads() { Ok(()) } else { Err(Why::NotReadable) };
        let (mut address, mut rest) = (at.0, into);
        while !rest.is_empty() {
            let request = |bytes| Request::DmaRead { address, bytes: bytes as u64 };
            let here = (address, rest.len());
            let bytes = self.transfer(space, here, may, request, |bytes, reply| {
                match (reply, rest.get_mut(..bytes)) {
                    (Reply::DmaRead { address: from, data }, Some(now))
                        if from == address && data.len() == now.len() =>
                    {
                        now.copy_from_slice(data);
                        true
                    }
                    _ => false,
                }
            })?;
            // The range ends at 2^64 at most, so a wrapped address is not used again.
            (address, rest) = (address.wrapping_add(bytes as u64), rest.split_at_mut(bytes).1);
        }
        Ok(())
    }

    fn write(&self, space: &DmaSpace, at: BusAddr, from: &[u8]) -> Result<(), Why> {
        let may = |access: Access| if access.writes() { Ok(()) } else { Err(Why::NotWritable) };
        let (mut address, mut rest) = (at.0, from);
        while !rest.is_empty() {
            let request = |bytes| Request::DmaWrite { address, data: rest.get(..bytes).unwrap_or_default() };
            let here = (address, rest.len());
            let bytes = self.transfer(
                space,
                here,
                may,
                request,
                |_, reply| matches!(reply, Reply::DmaWritten { address: to, .. } if to == address),
            )?;
            (address, rest) = (address.wrapping_add(bytes as u64), rest.split_at(bytes).1);
        }
        Ok(())
    }
}

impl DmaChannel {
    /// Sends a request, as much as the socket takes at once. No other request is outstanding, so that is at least a part.
    fn send(&mut self, request: &Request<'_>) -> Result<MessageId, Fault> {
        let id = MessageId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        let connection = self.connection.as_mut().ok_or(Fault::Lost)?;
        request.encode(id, false, &mut connection.out.bytes);
        connection.send()?;
        Ok(id)
    }

    /// Waits for the reply and passes it to `take`.
    fn await_reply(
        &mut self,
        (id, command): (MessageId, Command),
        until: Instant,
        mut take: impl FnMut(Reply<'_>) -> bool,
    ) -> Result<(), Fault> {
        let connection = self.connection.as_mut().ok_or(Fault::Lost)?;
        loop {
            connection.send()?;
            if let Some(incoming) = connection.reader.next().map_err(io::Error::other)? {
                let Incoming::Message(message) = incoming else { return Err(Fault::Lost) };
                let header = message.header;
                // Only the outstanding request's reply is valid on this socket.
                if (header.kind, header.id, header.command) != (Kind::Reply, id, command) {
                    return Err(Fault::Lost);
                }
                return match Reply::parse(&header, message.payload) {
                    Ok(reply) => take(reply).then_some(()).ok_or(Fault::Lost),
                    Err(WireError::Failed(_)) => Err(Fault::Refused),
                    Err(_) => Err(Fault::Lost),
                };
            }
            wait(connection, until)?;
            if connection.receive()? == Received::End {
                return Err(Fault::Lost);
            }
        }
    }
}

/// Waits until the socket is ready.
fn wait(connection: &Connection, until: Instant) -> Result<(), Fault> {
    let wanted = if connection.has_unsent() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Fault::Lost);
    }
    let left = Timespec::try_from(left).map_err(|_| Fault::Lost)?;
    match poll(&mut [PollFd::new(connection, wanted)], Some(&left)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(_) => Err(Fault::Lost),
    }
}
