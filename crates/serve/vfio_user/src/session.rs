//! The protocol state of one client: messages in, replies out, without a socket.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use byway_vfio_user_wire::{
    Capabilities, Errno, Header, Incoming, Kind, Message, RegionIoFds, Reply, Request, TwinSocket, Version,
    encode_error,
};

use crate::connection::Outbox;
use crate::function::{Function, Refusal};
use crate::limits::LIMITS;
use crate::memory::MAX_RANGES;

/// The protocol's only major version.
const MAJOR: u16 = 0;

/// The protocol state of one client, from its VERSION message on.
#[derive(Debug, Default)]
pub struct Session {
    has_begun: bool,
    /// Buffer of region reads.
    data: Vec<u8>,
}

impl Session {
    /// Executes a message on `function` and appends the reply to `out`.
    pub fn take(&mut self, function: &mut Function, incoming: Incoming<'_, OwnedFd>, out: &mut Outbox) {
        match incoming {
            Incoming::Message(message) if message.header.kind == Kind::Command => {
                self.answer(function, message, out);
            }
            // A reply without a request.
            Incoming::Message(_) => {}
            Incoming::Refused { header, why } => refuse(&header, why.errno(), &mut out.bytes),
        }
    }

    fn answer(&mut self, function: &mut Function, message: Message<'_, OwnedFd>, out: &mut Outbox) {
        let Message { header, payload, fds } = message;
        let request = match Request::parse(header.command, payload) {
            Ok(request) => request,
            Err(why) => return refuse(&header, why.errno(), &mut out.bytes),
        };
        let before = out.bytes.len();
        if let Err(errno) = self.execute(function, &header, request, fds, out) {
            out.bytes.truncate(before);
            return refuse(&header, errno, &mut out.bytes);
        }
        if header.no_reply {
            out.bytes.truncate(before);
        }
    }

    fn execute(
        &mut self,
        function: &mut Function,
        header: &Header,
        request: Request<'_>,
        fds: Vec<OwnedFd>,
        out: &mut Outbox,
    ) -> Result<(), Errno> {
        if !self.has_begun && !matches!(request, Request::Version(_)) {
            return Err(Errno::EINVAL);
        }
        match request {
            Request::Version(proposed) => {
                let mut version = self.agree(&proposed)?;
                version.capabilities.twin_socket = second_socket(function, header, &proposed, out);
                Reply::Version(version).encode(header, &mut out.bytes);
            }
            Request::RegionRead(from) => {
                function.read(&from, &mut self.data).map_err(number)?;
                Reply::RegionRead { from, data: &self.data }.encode(header, &mut out.bytes);
            }
            Request::RegionWrite { to, data } => {
                function.write(&to, data).map_err(number)?;
                Reply::RegionWritten(to).encode(header, &mut out.bytes);
            }
            Request::RegionWriteMulti(writes) => {
                let mut made = 0;
                for write in writes.iter() {
                    let data = write.data.get(..write.to.bytes as usize).ok_or(Errno::EINVAL)?;
                    function.write(&write.to, data).map_err(number)?;
                    made += 1;
                }
                Reply::RegionWrittenMulti { writes: made }.encode(header, &mut out.bytes);
            }
            other => set_up(function, header, other, fds, out)?,
        }
        Ok(())
    }

    /// Negotiates capabilities.
    fn agree(&mut self, proposed: &Version) -> Result<Version, Errno> {
        if self.has_begun || proposed.major != MAJOR {
            return Err(Errno::EINVAL);
        }
        self.has_begun = true;
        let capabilities = Capabilities {
            max_msg_fds: Some(LIMITS.fds as u32),
            max_data_xfer_size: Some(LIMITS.data_bytes as u64),
            max_dma_maps: Some(MAX_RANGES as u64),
            pgsizes: Some(4096),
            write_multiple: proposed.capabilities.write_multiple().then_some(true),
            ..Capabilities::default()
        };
        Ok(Version { major: MAJOR, minor: 0, capabilities })
    }
}

/// Creates the second socket, for DMA messages, if the client supports it; the client's end goes with the reply.
fn second_socket(
    function: &mut Function,
    header: &Header,
    proposed: &Version,
    out: &mut Outbox,
) -> Option<TwinSocket> {
    let capabilities = &proposed.capabilities;
    if header.no_reply || !capabilities.has_twin_socket() {
        return None;
    }
    // Without free descriptors the client is served without DMA messages.
    let theirs = function.open_dma_channel(capabilities.max_data_xfer_size()).ok()?;
    out.attach(out.bytes.len(), Arc::new(theirs));
    Some(TwinSocket { supported: true, fd_index: Some(0) })
}

/// Requests of a client that sets the function up.
fn set_up(
    function: &mut Function,
    header: &Header,
    request: Request<'_>,
    fds: Vec<OwnedFd>,
    out: &mut Outbox,
) -> Result<(), Errno> {
    match request {
        Request::DeviceGetInfo => Reply::DeviceInfo(Function::info()).encode(header, &mut out.bytes),
        Request::RegionGetInfo { index, argsz } => {
            let info = function.region(index).map_err(number)?;
            let fd = function.region_file(index).filter(|_| !header.no_reply).cloned();
            fd.into_iter().for_each(|fd| out.attach(out.bytes.len(), fd));
            Reply::RegionInfo(info).encode_within(header, argsz, &mut out.bytes);
        }
        Request::IrqGetInfo { index } => {
            Reply::IrqInfo(Function::irq(index).map_err(number)?).encode(header, &mut out.bytes);
        }
        Request::SetIrqs(set) => {
            function.set_irqs(&set, fds).map_err(number)?;
            Reply::Done.encode(header, &mut out.bytes);
        }
        Request::DmaMap(map) => {
            function.map(&map, one(fds)?).map_err(number)?;
            Reply::Done.encode(header, &mut out.bytes);
        }
        Request::DmaUnmap(unmap) => {
            function.unmap(&unmap).map_err(number)?;
            Reply::DmaUnmapped(unmap).encode(header, &mut out.bytes);
        }
        Request::DeviceReset => {
            function.reset().map_err(number)?;
            Reply::Done.encode(header, &mut out.bytes);
        }
        // An eventfd says that a doorbell was rung and not with which value, so none stands for one (README).
        Request::RegionGetIoFds { index, argsz } => {
            function.region(index).map_err(number)?;
            let none = RegionIoFds { index, parts: Vec::new(), full_bytes: None };
            Reply::RegionIoFds(none).encode_within(header, argsz, &mut out.bytes);
        }
        // Requests that only a server sends.
        _ => return Err(Errno::ENOTSUP),
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn number(refusal: Refusal) -> Errno {
    refusal.errno()
}

/// A range of memory has one descriptor or none.
fn one(mut fds: Vec<OwnedFd>) -> Result<Option<OwnedFd>, Errno> {
    let fd = fds.pop();
    if fds.is_empty() { Ok(fd) } else { Err(Errno::EINVAL) }
}

/// Sends an error, unless the message is a reply or wants none.
fn refuse(header: &Header, errno: Errno, out: &mut Vec<u8>) {
    if header.kind == Kind::Command && !header.no_reply {
        encode_error(header, errno, out);
    }
}
