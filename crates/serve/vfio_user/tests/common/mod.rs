//! A device behind a socket, and clients of it: one that speaks the protocol, and a host with queues on top of it.
#![allow(clippy::unwrap_used, dead_code)]

pub mod host;

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use byway_controller::{Identity, Subsystem, SubsystemOptions};
use byway_executor::{Embedded, Hosts, UpkeepBy};
use byway_flash::{Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec, RunOptions};
use byway_link::{ClockMode, Profile};
use byway_sys::map::{Mapping, Sharing};
use byway_sys::{SocketListener, Wakeup};
use byway_vfio_user::{DoorbellPage, Function, Server, Vectors};
use byway_vfio_user_wire::{
    Access, Capabilities, Errno, HEADER_BYTES, Header, MessageId, RegionIndex, RegionInfo, Reply, Request,
    Version, WireError,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tempfile::TempDir;

pub use host::Host;

/// Nothing here takes so long: a test that waits for more has found a hang.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What the thread is called that serves.
pub const SERVER: &str = "server";

/// A served device in memory: namespace 1 holds 8 MiB of 512-byte blocks.
pub struct Served {
    pub socket: PathBuf,
    stop: Arc<Wakeup>,
    thread: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Served {
    pub fn new() -> Self {
        Self::with(None)
    }

    /// One whose doorbells clients may map.
    pub fn polling() -> Self {
        Self::with(Some(DoorbellPage::new().unwrap()))
    }

    /// One in a file, whose operations are watched.
    pub fn watched(run: RunOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let media = MediaKind::File(folder.path().join("image"));
        Self::of(subsystem(true, media, run), None, folder, ClockMode::Off)
    }

    /// One whose completions wait for their modelled time.
    pub fn paced() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = subsystem(true, MediaKind::Ram, RunOptions::default());
        Self::of(device, None, folder, ClockMode::Paced)
    }

    fn with(page: Option<DoorbellPage>) -> Self {
        let device = subsystem(page.is_none(), MediaKind::Ram, RunOptions::default());
        Self::of(device, page, tempfile::tempdir().unwrap(), ClockMode::Off)
    }

    fn of(subsystem: Subsystem, page: Option<DoorbellPage>, folder: TempDir, clock: ClockMode) -> Self {
        Self::shared_by(1, subsystem, page, folder, clock)
    }

    /// One whose queues so many threads share, with doorbells that clients may map, or without.
    pub fn by_threads(threads: u16, polls: bool) -> Self {
        let page = polls.then(|| DoorbellPage::new().unwrap());
        let device = subsystem(!polls, MediaKind::Ram, RunOptions::default());
        Self::shared_by(threads, device, page, tempfile::tempdir().unwrap(), ClockMode::Off)
    }

    fn shared_by(
        threads: u16,
        subsystem: Subsystem,
        page: Option<DoorbellPage>,
        folder: TempDir,
        clock: ClockMode,
    ) -> Self {
        let socket = folder.path().join("socket");
        let vectors = Arc::new(Vectors::default());
        let doorbells = page.as_ref().map(|page| page.memory().clone());
        let threads = NonZeroU16::new(threads).unwrap();
        let (interrupts, upkeep_by) = (vectors.clone(), UpkeepBy::default());
        let hosts = Hosts { interrupts, doorbells, threads, engines: None, upkeep_by };
        let device = Embedded::serve(subsystem, clock, true, hosts).unwrap();
        let function = Function::new(device.front(), vectors, page);
        let mut server = Server::new(SocketListener::open(&socket).unwrap(), function).unwrap();
        let stop = server.stop();
        let thread = std::thread::Builder::new().name(SERVER.to_owned());
        let thread = thread.spawn(move || server.serve(|_| {}).unwrap()).unwrap();
        Self { socket, stop, thread: Some(thread), _folder: folder }
    }

    pub fn connect(&self) -> Client {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Client { stream, next_id: 0 }
    }

    /// A client that has begun, where all others have left.
    pub fn client(&self) -> Client {
        let mut client = self.connect();
        client.ask(&begin()).unwrap();
        client
    }

    /// Waits for an end of the service that the test did not ask for; whether it reported why.
    pub fn ends_by_itself(mut self) -> bool {
        self.thread.take().is_some_and(|thread| thread.join().is_err())
    }

    /// A client that has begun by `version`, and the second socket that it was given.
    pub fn client_with_twin(&self, version: &Request<'_>) -> (Client, OwnedFd) {
        let mut client = self.connect();
        let (mut bytes, id) = (Vec::new(), client.id());
        version.encode(id, false, &mut bytes);
        client.send(&bytes, &[]);
        let (header, payload, fd) = client.receive_with_fd();
        let Ok(Reply::Version(version)) = Reply::parse(&header, &payload) else { panic!("{header:?}") };
        assert!(version.capabilities.has_twin_socket());
        (client, fd.unwrap())
    }

    /// Ends the service; whether the thread ended well.
    pub fn stop(&mut self) -> bool {
        self.stop.raise();
        self.thread.take().is_none_or(|thread| thread.join().is_ok())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let well = self.stop();
        assert!(well || std::thread::panicking(), "the server panicked");
    }
}

fn subsystem(doorbell_buffers: bool, media: MediaKind, run: RunOptions) -> Subsystem {
    let profile = Profile::by_name("gen4x4").unwrap();
    let options = FlashOptions::new(32 << 20, profile.flash, media).uuid([7; 16]).run(run);
    let kind = NamespaceKind::Nvm { lba_bytes: 512 };
    let flash = Flash::create(options, &[NamespaceSpec { nsid: None, kind, size_bytes: 8 << 20 }]).unwrap();
    let identity = Identity {
        nqn: "nqn.2026-01.example:byway:test".to_owned(),
        serial: "TEST0001".to_owned(),
        model: "Byway software SSD".to_owned(),
    };
    let options = SubsystemOptions::default().doorbell_buffers(doorbell_buffers);
    Subsystem::new(identity, profile, flash, options).unwrap()
}

/// What every client says first.
pub fn begin() -> Request<'static> {
    let capabilities = Capabilities { write_multiple: Some(true), ..Capabilities::default() };
    Request::Version(Version { major: 0, minor: 0, capabilities })
}

/// A client that says one thing after the other.
pub struct Client {
    pub stream: UnixStream,
    next_id: u16,
}

impl Client {
    /// Sends bytes with descriptors.
    pub fn send(&mut self, bytes: &[u8], fds: &[&OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let sent = sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
        self.stream.write_all(&bytes[sent..]).unwrap();
    }

    /// Asks, and waits for the reply: its payload, or the error.
    pub fn ask(&mut self, request: &Request<'_>) -> Result<Vec<u8>, Errno> {
        self.ask_with(request, &[])
    }

    pub fn ask_with(&mut self, request: &Request<'_>, fds: &[&OwnedFd]) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        let id = self.id();
        request.encode(id, false, &mut bytes);
        self.send(&bytes, fds);
        let (header, payload) = self.receive().expect("the server closed the connection");
        assert_eq!((header.id, header.command), (id, request.command()));
        match Reply::parse(&header, &payload) {
            Ok(_) => Ok(payload),
            Err(WireError::Failed(errno)) => Err(errno),
            Err(other) => panic!("{other}"),
        }
    }

    pub fn id(&mut self) -> MessageId {
        self.next_id = self.next_id.wrapping_add(1);
        MessageId(self.next_id)
    }

    /// The next message; `None` at the stream's end.
    pub fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).ok()?;
        let header = Header::parse(&header);
        let mut payload = vec![0; header.size_bytes as usize - HEADER_BYTES];
        self.stream.read_exact(&mut payload).ok()?;
        Some((header, payload))
    }

    /// Maps the doorbells by the descriptor that comes with what the region is.
    pub fn map_doorbells(&mut self) -> Mapping {
        let (info, file) = self.region(RegionIndex::BAR0);
        let [area] = info.areas[..] else { panic!("{info:?}") };
        let (at, bytes) = (info.file_offset + area.offset, area.bytes as usize);
        Mapping::file(&file.unwrap(), at, bytes, Sharing::Shared).unwrap()
    }

    /// Maps device memory.
    pub fn map_device_memory(&mut self) -> Mapping {
        let (info, file) = self.region(RegionIndex::BAR2);
        assert!(info.flags.mappable && info.areas.is_empty(), "{info:?}");
        Mapping::file(&file.unwrap(), info.file_offset, info.bytes as usize, Sharing::Shared).unwrap()
    }

    /// What a region is, and the descriptor that comes with it.
    pub fn region(&mut self, index: RegionIndex) -> (RegionInfo, Option<File>) {
        let (mut bytes, id) = (Vec::new(), self.id());
        Request::RegionGetInfo { index, argsz: 256 }.encode(id, false, &mut bytes);
        self.send(&bytes, &[]);
        let (header, payload, fd) = self.receive_with_fd();
        let Ok(Reply::RegionInfo(info)) = Reply::parse(&header, &payload) else { panic!() };
        (info, fd.map(File::from))
    }

    /// The next message, which is short, with the descriptor that comes with it.
    fn receive_with_fd(&mut self) -> (Header, Vec<u8>, Option<OwnedFd>) {
        let mut reply = [0; 512];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut reply)];
        let got = recvmsg(&self.stream, &mut into, &mut control, RecvFlags::empty()).unwrap().bytes;
        let header = Header::parse(reply.first_chunk().unwrap());
        assert_eq!(header.size_bytes as usize, got);
        let fd = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        (header, reply[HEADER_BYTES..got].to_vec(), fd)
    }

    /// Reads `bytes` of a region.
    pub fn read(&mut self, region: RegionIndex, offset: u64, bytes: u32) -> Result<Vec<u8>, Errno> {
        let payload = self.ask(&Request::RegionRead(Access { region, offset, bytes }))?;
        Ok(payload[16..].to_vec())
    }

    pub fn write(&mut self, region: RegionIndex, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let to = Access { region, offset, bytes: data.len() as u32 };
        self.ask(&Request::RegionWrite { to, data }).map(drop)
    }

    pub fn register(&mut self, offset: u64) -> u32 {
        let bytes = self.read(RegionIndex::BAR0, offset, 4).unwrap();
        u32::from_le_bytes(bytes.try_into().unwrap())
    }

    pub fn set_register(&mut self, offset: u64, value: u32) {
        self.write(RegionIndex::BAR0, offset, &value.to_le_bytes()).unwrap();
    }
}
