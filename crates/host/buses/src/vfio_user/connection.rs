//! The socket: one question at a time, and the server's own questions answered on the way.

use std::fmt;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use byway_driver::BusError;
use byway_sys::handover;
use byway_vfio_user_wire::{
    Capabilities, Errno, Header, Incoming, Kind, Limits, MessageId, Reader, Reply, Request, TwinSocket,
    Version, WireError, encode_error,
};
use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::ANSWER;

/// Descriptors that are taken with one message.
const FDS_MAX: usize = 16;

/// Bytes of data in one message that are sent and taken.
pub(crate) const DATA_BYTES_MAX: u64 = 1 << 20;

/// What is received at once.
const RECEIVED_BYTES: usize = 64 << 10;

/// Receives before the thread that answered the server's requests meanwhile goes on with its own.
const RECEIVES_AT_ONCE: u32 = 16;

/// Why a question has no answer.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The server is gone.
    Gone(String),
    /// It is there, and has not answered.
    Silent(String),
    /// It refuses.
    Refused(Errno),
    /// Its answer cannot be.
    Lie(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(why) | Self::Silent(why) => f.write_str(why),
            Self::Refused(errno) => write!(f, "the server refuses it: {errno}"),
            Self::Lie(what) => write!(f, "the server's answer cannot be: {what}"),
        }
    }
}

impl From<Fault> for BusError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Gone(why) => Self::Gone(why),
            Fault::Silent(why) => Self::Silent(why),
            Fault::Refused(Errno::EBUSY) => Self::Busy("the server is at something else (EBUSY)".to_owned()),
            other => Self::Protocol(other.to_string()),
        }
    }
}

/// Memory of this process that the server asks for by messages, where it does not map what it was given.
pub(crate) trait HostBytes {
    /// Copies out what the device sees at `address`; says whether all of it is there.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;
    /// Copies in.
    fn write(&self, address: u64, from: &[u8]) -> bool;
}

/// Makes something of a reply, if it is the one that is looked for.
type Wanted<'a, T> = dyn FnMut(&Header, &[u8], Vec<OwnedFd>) -> Option<Result<T, Fault>> + 'a;

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: UnixStream,
    line: Mutex<Line>,
    gone: OnceLock<String>,
    server: Capabilities,
    /// Where the server sends requests, until a thread answers there.
    twin: Option<OwnedFd>,
}

/// What one thread at a time holds of the socket.
#[derive(Debug)]
struct Line {
    reader: Reader<OwnedFd>,
    received: Box<[u8]>,
    out: Vec<u8>,
    next_id: u16,
}

impl Connection {
    /// Connects, and agrees on a version.
    ///
    /// # Errors
    /// No server listens there, or it speaks another protocol.
    pub(crate) fn open(path: &Path) -> Result<Self, BusError> {
        let socket = UnixStream::connect(path);
        let socket = socket.map_err(|cause| no_server(path, &cause))?;
        // What is sent first is memory of this process, for the server to map.
        handover::check_listener(&socket, path).map_err(|cause| match cause.kind() {
            io::ErrorKind::PermissionDenied => BusError::Unready(cause.to_string()),
            _ => no_server(path, &cause),
        })?;
        let setup = || {
            socket.set_nonblocking(false)?;
            socket.set_write_timeout(Some(ANSWER))
        };
        setup().map_err(|cause| BusError::Gone(format!("the socket cannot be used: {cause}")))?;
        let line = Line {
            reader: Reader::new(Limits { data_bytes: DATA_BYTES_MAX as usize, fds: FDS_MAX }),
            received: vec![0; RECEIVED_BYTES].into_boxed_slice(),
            out: Vec::new(),
            next_id: 0,
        };
        let mut connection = Self {
            socket,
            line: Mutex::new(line),
            gone: OnceLock::new(),
            server: Capabilities::default(),
            twin: None,
        };
        (connection.server, connection.twin) = connection.agree()?;
        Ok(connection)
    }

    /// The socket where the server asks, if it has one of its own for that.
    pub(crate) fn take_twin(&mut self) -> Option<OwnedFd> {
        self.twin.take()
    }

    fn agree(&self) -> Result<(Capabilities, Option<OwnedFd>), BusError> {
        let capabilities = Capabilities {
            max_msg_fds: Some(FDS_MAX as u32),
            max_data_xfer_size: Some(DATA_BYTES_MAX),
            pgsizes: Some(4096),
            twin_socket: Some(TwinSocket { supported: true, fd_index: None }),
            ..Capabilities::default()
        };
        let proposed = Request::Version(Version { major: 0, minor: 0, capabilities });
        let answered = self.ask(&proposed, &[], &NoBytes, |reply, fds| match reply {
            Reply::Version(version) if version.major == 0 => {
                let twin = version.capabilities.twin_socket.filter(|twin| twin.supported);
                let index = twin.and_then(|twin| twin.fd_index);
                let fd = index.and_then(|index| fds.into_iter().nth(index as usize));
                Ok((version.capabilities, fd))
            }
            Reply::Version(version) => Err(format!("it speaks version {}.{}", version.major, version.minor)),
            other => Err(format!("{other:?} is no version")),
        });
        answered.map_err(|fault| match fault {
            Fault::Refused(Errno::EBUSY) => BusError::Busy("the server serves another client".to_owned()),
            Fault::Gone(why) => BusError::Gone(format!("no version was agreed on: {why}")),
            Fault::Silent(why) => BusError::Silent(format!("no version was agreed on: {why}")),
            other => BusError::Protocol(format!("no version was agreed on: {other}")),
        })
    }

    /// What the server can do.
    pub(crate) fn server(&self) -> &Capabilities {
        &self.server
    }

    /// The socket, to be looked at for its end.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Why the server is gone, if it is known to be.
    pub(crate) fn gone(&self) -> Option<Fault> {
        self.gone.get().map(|why| Fault::Gone(why.clone()))
    }

    /// Whether the server is not known to be gone.
    ///
    /// # Errors
    /// Why it is.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.gone().map_or(Ok(()), Err)
    }

    /// The server is gone from now on.
    pub(crate) fn lose(&self, why: impl Into<String>) -> Fault {
        let why = self.gone.get_or_init(|| why.into());
        // Wakes the thread that sleeps on the socket.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        Fault::Gone(why.clone())
    }

    /// Asks, and has `take` make something of the answer and the descriptors that came with it.
    ///
    /// # Errors
    /// As [`Fault`]; what `take` says is wrong with the answer.
    pub(crate) fn ask<T>(
        &self,
        request: &Request<'_>,
        fds: &[BorrowedFd<'_>],
        bytes: &dyn HostBytes,
        take: impl FnOnce(Reply<'_>, Vec<OwnedFd>) -> Result<T, String>,
    ) -> Result<T, Fault> {
        let mut line = self.lock()?;
        let id = line.begin(request, false);
        self.send(&mut line, fds)?;
        self.await_reply(&mut line, id, request, bytes, take)
    }

    /// Sends a message that has no reply.
    ///
    /// # Errors
    /// The server is gone.
    pub(crate) fn post(&self, request: &Request<'_>) -> Result<(), Fault> {
        let mut line = self.lock()?;
        line.begin(request, true);
        self.send(&mut line, &[])
    }

    /// Answers the requests that the server has sent, unless another thread does: a bounded number at a time, so that a server
    /// that asks without end blocks no thread.
    ///
    /// # Errors
    /// The server is gone.
    pub(crate) fn serve(&self, bytes: &dyn HostBytes) -> Result<(), Fault> {
        self.check()?;
        let Some(mut line) = self.line.try_lock() else { return Ok(()) };
        let until = Instant::now() + ANSWER;
        for _ in 0..RECEIVES_AT_ONCE {
            if !self.is_readable(Some(&Timespec::default()))? {
                break;
            }
            self.receive(&mut line)?;
            // Replies without a waiting caller are dropped.
            self.look::<()>(&mut line, bytes, until, &mut |_, _, _| None)?;
        }
        Ok(())
    }

    fn lock(&self) -> Result<MutexGuard<'_, Line>, Fault> {
        let line = self.line.lock();
        self.check().map(|()| line)
    }

    /// Sends the queued bytes, the descriptors with the first one.
    fn send(&self, line: &mut Line, mut fds: &[BorrowedFd<'_>]) -> Result<(), Fault> {
        let mut sent = 0;
        while let Some(rest) = line.out.get(sent..).filter(|rest| !rest.is_empty()) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(Fault::Lie(format!("{} descriptors are too many for a message", fds.len())));
            }
            match sendmsg(&self.socket, &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL) {
                Ok(more) => {
                    sent += more;
                    fds = &[];
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) if sent == 0 => {
                    return Err(Fault::Silent(silent("took no message")));
                }
                // What follows a part of a message is read as the rest of it.
                Err(rustix::io::Errno::AGAIN) => {
                    return Err(self.lose(silent("took a part of a message alone")));
                }
                Err(cause) => return Err(self.lose(format!("the server cannot be reached: {cause}"))),
            }
        }
        line.out.clear();
        Ok(())
    }

    fn await_reply<T>(
        &self,
        line: &mut Line,
        id: MessageId,
        request: &Request<'_>,
        bytes: &dyn HostBytes,
        take: impl FnOnce(Reply<'_>, Vec<OwnedFd>) -> Result<T, String>,
    ) -> Result<T, Fault> {
        let until = Instant::now() + ANSWER;
        let mut take = Some(take);
        loop {
            let mut ours = |header: &Header, payload: &[u8], fds: Vec<OwnedFd>| {
                if header.id != id || header.command != request.command() {
                    return None;
                }
                let take = take.take()?;
                Some(match Reply::parse(header, payload) {
                    Ok(reply) => take(reply, fds).map_err(Fault::Lie),
                    Err(WireError::Failed(errno)) => Err(Fault::Refused(errno)),
                    Err(wrong) => Err(Fault::Lie(wrong.to_string())),
                })
            };
            if let Some(found) = self.look(line, bytes, until, &mut ours)? {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            // One that says other things all the time has not answered either.
            if left.is_zero() {
                return Err(Fault::Silent(silent(&format!("did not answer {}", request.command()))));
            }
            let left = Timespec::try_from(left).unwrap_or_default();
            if self.is_readable(Some(&left))? {
                self.receive(line)?;
            }
        }
    }

    /// Takes messages out of the reader until one is what is looked for, or `until` has come.
    fn look<T>(
        &self,
        line: &mut Line,
        bytes: &dyn HostBytes,
        until: Instant,
        wanted: &mut Wanted<'_, T>,
    ) -> Result<Option<Result<T, Fault>>, Fault> {
        loop {
            if Instant::now() >= until {
                return Ok(None);
            }
            let Line { reader, out, .. } = &mut *line;
            match reader.next() {
                Ok(None) => return Ok(None),
                Ok(Some(Incoming::Message(message))) if message.header.kind == Kind::Reply => {
                    if let Some(found) = wanted(&message.header, message.payload, message.fds) {
                        return Ok(Some(found));
                    }
                }
                Ok(Some(Incoming::Message(message))) => answer(&message.header, message.payload, bytes, out),
                Ok(Some(Incoming::Refused { header, why })) if header.kind == Kind::Reply => {
                    return Err(self.lose(format!("the server's answer cannot be taken: {why}")));
                }
                Ok(Some(Incoming::Refused { header, why })) => encode_error(&header, why.errno(), out),
                Err(broken) => return Err(self.lose(broken.to_string())),
            }
            self.send(line, &[])?;
        }
    }

    fn receive(&self, line: &mut Line) -> Result<(), Fault> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut line.received)];
        let (got, is_short) = match recvmsg(&self.socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => (got.bytes, got.flags.contains(ReturnFlags::CTRUNC)),
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(cause) => return Err(self.lose(format!("the server cannot be reached: {cause}"))),
        };
        if got == 0 {
            return Err(self.lose("the server has closed the connection"));
        }
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        // More than are taken is for the request to refuse.
        let are_lost = is_short && fds.len() < FDS_MAX;
        line.reader.push(line.received.get(..got).unwrap_or_default(), fds);
        if are_lost {
            line.reader.note_lost_fds();
        }
        Ok(())
    }

    fn is_readable(&self, timeout: Option<&Timespec>) -> Result<bool, Fault> {
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(cause) => Err(self.lose(format!("the socket cannot be waited on: {cause}"))),
        }
    }
}

impl Line {
    /// Puts a request into the line.
    fn begin(&mut self, request: &Request<'_>, no_reply: bool) -> MessageId {
        let id = MessageId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.out.clear();
        request.encode(id, no_reply, &mut self.out);
        id
    }
}

/// Answers what the server asks for: the memory that it was given, by messages.
pub(crate) fn answer(header: &Header, payload: &[u8], bytes: &dyn HostBytes, out: &mut Vec<u8>) {
    let mut refuse = |errno| {
        if !header.no_reply {
            encode_error(header, errno, out);
        }
    };
    match Request::parse(header.command, payload) {
        Ok(Request::DmaRead { bytes: count, .. }) if count > DATA_BYTES_MAX => refuse(Errno::E2BIG),
        Ok(Request::DmaRead { address, bytes: count }) => {
            let mut data = vec![0; count as usize];
            if !bytes.read(address, &mut data) {
                return refuse(Errno::EFAULT);
            }
            Reply::DmaRead { address, data: &data }.encode(header, out);
        }
        Ok(Request::DmaWrite { address, data }) => {
            if !bytes.write(address, data) {
                return refuse(Errno::EFAULT);
            }
            if !header.no_reply {
                Reply::DmaWritten { address, bytes: data.len() as u32 }.encode(header, out);
            }
        }
        Ok(_) => refuse(Errno::ENOTSUP),
        Err(wrong) => refuse(wrong.errno()),
    }
}

/// Of a connection that has shared nothing yet.
pub(crate) struct NoBytes;

impl HostBytes for NoBytes {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }

    fn write(&self, _: u64, _: &[u8]) -> bool {
        false
    }
}

fn silent(what: &str) -> String {
    format!("the server {what} within {ANSWER:?}")
}

fn no_server(path: &Path, cause: &io::Error) -> BusError {
    let shown = path.display();
    let unready = |said: String| BusError::Unready(format!("{said}; expected is the socket of a server"));
    match cause.kind() {
        io::ErrorKind::NotFound => {
            BusError::Unready(format!("there is no socket {shown}; is the server started?"))
        }
        io::ErrorKind::ConnectionRefused => match fs::metadata(path).map(|about| about.file_type()) {
            Ok(kind) if kind.is_dir() => unready(format!("{shown} is a directory")),
            Ok(kind) if kind.is_file() => unready(format!("{shown} is a regular file")),
            Ok(kind) if !kind.is_socket() => unready(format!("{shown} is no socket")),
            _ => BusError::Gone(format!("no server listens at {shown}: it has ended")),
        },
        io::ErrorKind::PermissionDenied => {
            BusError::Unready(format!("{shown} may not be opened by this user: {cause}"))
        }
        _ => BusError::Unready(format!("{shown} cannot be connected to: {cause}")),
    }
}
