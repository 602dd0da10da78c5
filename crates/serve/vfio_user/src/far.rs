//! Memory of a client that came without a descriptor: its bytes are asked for by messages (DMA_READ, DMA_WRITE), on the second
//! socket that the client agreed to.
//!
//! One question at a time, from whichever thread runs the device. Between two looks at the client's own socket its answers may
//! take [`PATIENCE`] together, whether it is one that does not come or many that each come late. A client that uses that up
//! is not asked again: what points at its memory fails at once from there on.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use byway_dma::{Access, BusAddr, DmaSpace, MessageDma, Why};
use byway_vfio_user_wire::{Command, DmaMap, DmaUnmap, Incoming, Kind, MessageId, Reply, Request, WireError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::{Connection, Received};
use crate::memory::access_of;
use crate::session::LIMITS;

/// How long a client may have the device wait for its bytes, all its answers together, until the server has looked at its
/// messages again.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What one client has mapped without a descriptor, and the way to it.
#[derive(Debug)]
pub struct FarRanges {
    /// By first address: the last one, and what the function may do there.
    ranges: Mutex<BTreeMap<u64, (u64, Access)>>,
    line: Mutex<Line>,
    /// How often the server looked at the client's messages.
    looks: AtomicU64,
    /// Bytes of one message at most.
    most: usize,
}

/// The second socket.
#[derive(Debug)]
struct Line {
    /// None once the client did not answer.
    connection: Option<Connection>,
    next_id: u16,
    waited: Waited,
}

/// How long the client was waited for since the server looked at its messages.
#[derive(Debug, Default)]
struct Waited {
    look: u64,
    time: Duration,
}

impl Waited {
    /// What is left of the client's time after so many looks.
    fn left(&mut self, looks: u64) -> Duration {
        if self.look != looks {
            *self = Self { look: looks, time: Duration::ZERO };
        }
        PATIENCE.saturating_sub(self.time)
    }
}

/// Why there is no answer.
enum Fault {
    /// The client says no.
    Refused,
    /// It says nothing, or nothing that can be.
    Lost,
}

impl From<io::Error> for Fault {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

impl FarRanges {
    /// Nothing mapped yet, and the client's end of the socket.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new(client_max_bytes: u64) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        let line = Line { connection: Some(Connection::new(ours)?), next_id: 0, waited: Waited::default() };
        let most = client_max_bytes.clamp(1, LIMITS.data_bytes as u64) as usize;
        let (ranges, line) = (Mutex::default(), Mutex::new(line));
        Ok((Self { ranges, line, looks: AtomicU64::new(0), most }, theirs.into()))
    }

    /// The server has looked at the client's messages, and others have had their turn: the client's time begins anew.
    pub fn looked(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a range that came without a descriptor.
    pub fn map(&self, map: &DmaMap) {
        if let Some(access) = access_of(map) {
            self.lock().insert(map.range.first(), (map.range.last(), access));
        }
    }

    /// Forgets the ranges within these addresses.
    pub fn unmap(&self, unmap: &DmaUnmap) {
        let mut ranges = self.lock();
        match unmap {
            DmaUnmap::All => ranges.clear(),
            DmaUnmap::Range(range) => {
                ranges.retain(|first, (last, _)| *first < range.first() || *last > range.last())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (u64, Access)>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks about the bytes from `at` on that are in one range and one message, of `len`, and returns how many those are.
    /// `request` says what is asked of so many, and `take` makes something of the answer if it can be.
    fn ask<'a>(
        &self,
        space: &DmaSpace,
        (at, len): (u64, usize),
        may: impl Fn(Access) -> Result<(), Why>,
        request: impl FnOnce(usize) -> Request<'a>,
        mut take: impl FnMut(usize, Reply<'_>) -> bool,
    ) -> Result<usize, Why> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever takes memory away does so before the message or after it: none follows.
        let asked = space.while_visible(|| -> Result<_, Why> {
            let ranges = self.lock();
            let bytes = piece(&ranges, at, len.min(self.most), may)?;
            let request = request(bytes);
            Ok((bytes, line.put(&request).map(|id| (id, request.command()))))
        });
        let (bytes, asked) = asked??;
        let answered = asked.and_then(|asked| self.answer(&mut line, asked, |reply| take(bytes, reply)));
        match answered {
            Ok(()) => Ok(bytes),
            Err(fault) => {
                if matches!(fault, Fault::Lost) {
                    line.connection = None;
                }
                Err(Why::MessageFailed)
            }
        }
    }

    /// Waits for the answer to a question for what is left of the client's time.
    fn answer(
        &self,
        line: &mut Line,
        asked: (MessageId, Command),
        take: impl FnMut(Reply<'_>) -> bool,
    ) -> Result<(), Fault> {
        let left = line.waited.left(self.looks.load(Ordering::Relaxed));
        let since = Instant::now();
        let answered = line.answer(asked, since + left, take);
        line.waited.time += since.elapsed();
        answered
    }
}

/// The bytes from `at` on that are in one range, of `len`.
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

impl MessageDma for FarRanges {
    fn read(&self, space: &DmaSpace, at: BusAddr, into: &mut [u8]) -> Result<(), Why> {
        let may = |access: Access| if access.reads() { Ok(()) } else { Err(Why::NotReadable) };
        let (mut address, mut rest) = (at.0, into);
        while !rest.is_empty() {
            let request = |bytes| Request::DmaRead { address, bytes: bytes as u64 };
            let here = (address, rest.len());
            let bytes =
                self.ask(space, here, may, request, |bytes, reply| match (reply, rest.get_mut(..bytes)) {
                    (Reply::DmaRead { address: from, data }, Some(now))
                        if from == address && data.len() == now.len() =>
                    {
                        now.copy_from_slice(data);
                        true
                    }
                    _ => false,
                })?;
            // The range holds what was read, so its end is at most 2^64; there is nothing behind that.
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
            let bytes = self.ask(
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

impl Line {
    /// Puts a question, of which as much is sent as the socket takes at once. All answers before have come, so that is some of
    /// it at least.
    fn put(&mut self, request: &Request<'_>) -> Result<MessageId, Fault> {
        let id = MessageId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        let connection = self.connection.as_mut().ok_or(Fault::Lost)?;
        request.encode(id, false, &mut connection.out.bytes);
        connection.send()?;
        Ok(id)
    }

    /// Waits for the answer, of which `take` makes something if it can be.
    fn answer(
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
                // Nothing else was asked, and a client asks by the other socket.
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

/// Waits until something can be sent or received.
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
