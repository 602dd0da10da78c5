//! A server that does what a test says: honest unless the test says otherwise.

#![allow(clippy::unwrap_used, dead_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use byway_sys::memfd;
use byway_vfio_user_wire::*;
use parking_lot::{Mutex, MutexGuard};
use rustix::net::*;

/// Bytes of BAR 0: registers, then a page of doorbells.
pub const BAR0_BYTES: u64 = 0x4000;
/// Bytes of BAR 2.
pub const BAR2_BYTES: u64 = 0x2000;

/// What a server does with a message instead of answering it honestly.
pub enum Instead {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Closes the connection.
    Hang,
    /// Nothing.
    Silence,
    /// Replies to nothing that was asked, without end.
    Flood,
}

/// Says what to do instead, for the n-th message.
pub type Trick = Box<dyn FnMut(usize, &Header, &Request<'_>) -> Option<Instead> + Send>;

/// What the server has seen and holds.
#[derive(Default)]
pub struct State {
    /// Registers and other words that were written by messages, by region and offset.
    pub words: BTreeMap<(u32, u64), u64>,
    pub maps: Vec<(DmaMap, Option<File>)>,
    pub eventfds: BTreeMap<u32, OwnedFd>,
    pub seen: Vec<Command>,
    pub replies: Vec<(Command, Vec<u8>)>,
    pub socket: Option<UnixStream>,
}

pub struct Server {
    pub path: PathBuf,
    pub state: Arc<Mutex<State>>,
    /// Emulated BAR 0, with mappable doorbells.
    pub doorbells: Arc<File>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Server {
    pub fn honest() -> Self {
        Self::tricky(true, Box::new(|_, _, _| None))
    }

    /// One whose page of doorbells can be cut short if `sealed` is false.
    pub fn tricky(sealed: bool, trick: Trick) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let doorbells = if sealed {
            memfd::sealed("doorbells", 0x2000).unwrap()
        } else {
            let file = tempfile::tempfile().unwrap();
            file.set_len(0x2000).unwrap();
            file
        };
        let doorbells = Arc::new(doorbells);
        let state = Arc::new(Mutex::new(State::default()));
        let (seen, page) = (Arc::clone(&state), Arc::clone(&doorbells));
        let thread = std::thread::spawn(move || serve(&listener, &seen, &page, trick));
        Self { path, state, doorbells, thread: Some(thread), _folder: folder }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Ends the connection as a server does that dies.
    pub fn die(&self) {
        if let Some(socket) = self.state().socket.take() {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Sends a request of the server's own.
    pub fn ask(&self, request: &Request<'_>) {
        let mut out = Vec::new();
        request.encode(MessageId(77), false, &mut out);
        send(self.state().socket.as_ref().unwrap(), &out, &[]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.die();
        // A server without a client is still waiting.
        drop(UnixStream::connect(&self.path));
        self.thread.take().unwrap().join().unwrap();
    }
}

fn serve(listener: &UnixListener, state: &Mutex<State>, doorbells: &File, mut trick: Trick) {
    let (socket, _) = listener.accept().unwrap();
    state.lock().socket = Some(socket.try_clone().unwrap());
    let mut reader = Reader::new(Limits::default());
    let mut count = 0;
    while receive(&socket, &mut reader) {
        while let Some(incoming) = reader.next().unwrap() {
            let Incoming::Message(Message { header, payload, fds }) = incoming else {
                panic!("{incoming:?}")
            };
            if header.kind == Kind::Reply {
                state.lock().replies.push((header.command, payload.to_vec()));
                continue;
            }
            let request = Request::parse(header.command, payload).unwrap();
            count += 1;
            match trick(count - 1, &header, &request) {
                Some(Instead::Send(bytes)) => send(&socket, &bytes, &[]),
                Some(Instead::Hang) => {
                    let _ = socket.shutdown(std::net::Shutdown::Both);
                    return;
                }
                Some(Instead::Silence) => {}
                Some(Instead::Flood) => flood(&socket, &header),
                None => answer(&socket, state, doorbells, &header, &request, fds),
            }
        }
    }
}

fn flood(socket: &UnixStream, asked: &Header) {
    let mut other = Vec::new();
    let header = Header { id: MessageId(asked.id.0.wrapping_add(1)), ..*asked };
    Reply::Done.encode(&header, &mut other);
    let many = other.repeat(1000);
    while rustix::net::send(socket, &many, SendFlags::NOSIGNAL).is_ok() {}
}

fn answer(
    socket: &UnixStream,
    state: &Mutex<State>,
    doorbells: &File,
    header: &Header,
    request: &Request<'_>,
    fds: Vec<OwnedFd>,
) {
    let mut out = Vec::new();
    let mut with: Vec<BorrowedFd<'_>> = Vec::new();
    let mut state = state.lock();
    state.seen.push(header.command);
    let data;
    let reply = match *request {
        Request::Version(ref version) => Reply::Version(version.clone()),
        Request::DmaMap(map) => {
            state.maps.push((map, fds.into_iter().next().map(File::from)));
            Reply::Done
        }
        Request::DeviceGetInfo => {
            Reply::DeviceInfo(DeviceInfo { has_reset: true, is_pci: true, regions: 9, irqs: 5 })
        }
        Request::RegionGetInfo { index, .. } => {
            let info = region(index);
            if info.flags.mappable {
                with.push(doorbells.as_fd());
            }
            Reply::RegionInfo(info)
        }
        Request::IrqGetInfo { index } => {
            let flags = IrqFlags { eventfd: true, noresize: true, ..IrqFlags::default() };
            Reply::IrqInfo(IrqInfo { index, flags, count: 9 })
        }
        Request::SetIrqs(set) => {
            state.eventfds.insert(set.start, fds.into_iter().next().unwrap());
            Reply::Done
        }
        Request::RegionRead(from) => {
            let word = state.words.get(&(from.region.0, from.offset)).copied().unwrap_or_default();
            data = word.to_le_bytes();
            Reply::RegionRead { from, data: &data[..from.bytes as usize] }
        }
        Request::RegionWrite { to, data } => {
            let mut word = [0; 8];
            word[..data.len().min(8)].copy_from_slice(&data[..data.len().min(8)]);
            state.words.insert((to.region.0, to.offset), u64::from_le_bytes(word));
            Reply::RegionWritten(to)
        }
        _ => Reply::Done,
    };
    if !header.no_reply {
        reply.encode(header, &mut out);
        send(socket, &out, &with);
    }
}

pub fn region(index: RegionIndex) -> RegionInfo {
    let (bytes, mappable) = match index {
        RegionIndex::BAR0 => (BAR0_BYTES, true),
        RegionIndex::BAR2 => (BAR2_BYTES, false),
        RegionIndex::CONFIG => (4096, false),
        _ => (0, false),
    };
    let areas = if mappable { vec![Area { offset: 0x1000, bytes: 0x1000 }] } else { Vec::new() };
    let flags = RegionFlags { readable: bytes > 0, writable: bytes > 0, mappable };
    RegionInfo { index, flags, bytes, file_offset: 0, areas, full_bytes: None }
}

fn receive(socket: &UnixStream, reader: &mut Reader<OwnedFd>) -> bool {
    let mut bytes = vec![0; 1 << 16];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
    let Ok(got) = got else { return false };
    let fds: Vec<OwnedFd> = control
        .drain()
        .flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
            _ => Vec::new(),
        })
        .collect();
    reader.push(&bytes[..got.bytes], fds);
    got.bytes > 0
}

fn send(socket: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    // A client that is gone reads no answer.
    let _ = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
}
