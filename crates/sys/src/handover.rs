//! Passing of open files to another process through a socket, and the peer's credentials.

use std::ffi::c_int;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::{Errno, retry_on_intr};
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// Connects to a socket, with `timeout` for this and for each later send.
///
/// # Errors
/// What the system says; `WouldBlock` where too many wait to be let in already.
pub fn connect(socket: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let (unix, stream) = (AddressFamily::UNIX, SocketType::STREAM);
    let made = UnixStream::from(rustix::net::socket_with(unix, stream, SocketFlags::CLOEXEC, None)?);
    made.set_write_timeout(Some(timeout))?;
    rustix::net::connect(&made, &address(socket)?)?;
    Ok(made)
}

/// Whether a socket can have that path at all.
///
/// # Errors
/// `InvalidInput` for one that it cannot.
pub fn is_nameable(socket: &Path) -> io::Result<()> {
    address(socket).map(drop)
}

/// Listens at a path, with these permission bits of its file from the first instant on; the umask takes some of them away.
///
/// # Errors
/// What the system says; `InvalidInput` for a path that no socket can have.
pub fn listen_with_mode(socket: &Path, mode: u32) -> io::Result<UnixListener> {
    let (unix, stream) = (AddressFamily::UNIX, SocketType::STREAM);
    let made = rustix::net::socket_with(unix, stream, SocketFlags::CLOEXEC, None)?;
    // `bind` gives the file the mode that the socket has by then: no instant passes with a wider one.
    rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))?;
    rustix::net::bind(&made, &address(socket)?)?;
    rustix::net::listen(&made, BACKLOG)?;
    Ok(UnixListener::from(made))
}

/// Connections that may wait to be accepted, as the standard library has it.
const BACKLOG: i32 = 128;

/// What a socket's address has room for, with a zero behind it (unix(7)).
const PATH_MOST_BYTES: usize = 107;

fn address(socket: &Path) -> io::Result<SocketAddrUnix> {
    let len = socket.as_os_str().len();
    if len > PATH_MOST_BYTES {
        let why = format!("a socket's path has {PATH_MOST_BYTES} bytes at most, and this one has {len}");
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(SocketAddrUnix::new(socket)?)
}

/// Between two looks whether the other end has read.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until bytes arrive, or the peer has read all that was sent to it. True if neither happened within `timeout`: a peer
/// that does not even read is stopped.
///
/// # Errors
/// What the system says.
pub fn is_left_unread(stream: &UnixStream, timeout: Duration) -> io::Result<bool> {
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left.min(LOOK)).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&left)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if unread_bytes(stream)? == 0 {
            return Ok(false);
        }
        if Instant::now() >= end {
            return Ok(true);
        }
    }
}

/// What was sent and is not read yet, in bytes of memory: zero once all of it is.
fn unread_bytes(stream: &UnixStream) -> io::Result<c_int> {
    const SIOCOUTQ: Opcode = 0x5411;
    // SAFETY: stores one integer, for any socket.
    Ok(unsafe { ioctl(stream, Getter::<SIOCOUTQ, c_int>::new()) }?)
}

/// The most files that come with one message.
pub const FILES_MAX: usize = 4;

/// Sends all of `bytes`, which are some, with up to [`FILES_MAX`] files.
///
/// # Errors
/// What the system says, and `InvalidInput` for more files or no bytes.
pub fn send_all(stream: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    if files.len() > FILES_MAX || bytes.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let parts = [IoSlice::new(bytes)];
    let sent = retry_on_intr(|| rustix::net::sendmsg(stream, &parts, &mut control, SendFlags::NOSIGNAL))?;
    let mut stream = stream;
    stream.write_all(&bytes[sent..])
}

/// Waits until `bytes` are full; says which files came with them, the first [`FILES_MAX`] of them.
///
/// # Errors
/// What the system says; `UnexpectedEof` where the other end sent less.
pub fn receive_all(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = retry_on_intr(|| rustix::net::recvmsg(stream, &mut parts, &mut control, flags))?.bytes;
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().collect();
    if got == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut stream = stream;
    stream.read_exact(&mut bytes[got..])?;
    Ok(files)
}

/// Whether the process at the other end belongs to this process's user, or to root.
///
/// # Errors
/// What the system says.
pub fn is_allowed(stream: &UnixStream) -> io::Result<bool> {
    let (uid, _) = peer(stream)?;
    Ok(uid == 0 || uid == rustix::process::geteuid().as_raw())
}

/// Refuses a listener that the caller has no reason to trust, before a byte or a descriptor is sent to it. Processes of
/// root and of this process's user are trusted. Another user's process is trusted only if that user or root owns the socket's
/// folder and no other user can write in it, so not in `/tmp`.
///
/// # Errors
/// `PermissionDenied` with a sentence; what the system says.
pub fn check_listener(stream: &UnixStream, socket: &Path) -> io::Result<()> {
    let (uid, _) = peer(stream)?;
    if uid == 0 || uid == rustix::process::geteuid().as_raw() || is_folder_of(socket, uid)? {
        return Ok(());
    }
    let why = format!(
        "user {uid} listens at {}, who is neither root nor this user, in a folder where others can make files too",
        socket.display()
    );
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

/// Whether only `uid` and root can make files in the folder that a socket is in.
fn is_folder_of(socket: &Path, uid: u32) -> io::Result<bool> {
    let socket = socket.canonicalize()?;
    let Some(folder) = socket.parent() else { return Ok(false) };
    let found = folder.metadata()?;
    let is_owners = found.uid() == 0 || (found.uid() == uid && uid != UNMAPPED_UID);
    Ok(is_owners && found.mode() & OTHERS_MAY_WRITE == 0)
}

/// As whom a user namespace shows every user that it does not know.
pub const UNMAPPED_UID: u32 = 65_534;

/// Permission bits by which the group or all others may make files in a folder.
pub const OTHERS_MAY_WRITE: u32 = 0o022;

/// The user of the process at the other end and its number, zero for one of a PID namespace that is not seen from here.
///
/// # Errors
/// What the system says.
pub fn peer(stream: &UnixStream) -> io::Result<(u32, i32)> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let into = (&raw mut found).cast();
    // SAFETY: the system stores so many bytes there at most, and any bytes are such a structure.
    let answer = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, into, &raw mut len)
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((found.uid, found.pid))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_peer_that_does_not_read_differs_from_one_that_read_and_is_slow() {
        let (one, other) = UnixStream::pair().unwrap();
        let timeout = Duration::from_millis(10);
        send_all(&one, b"question", &[]).unwrap();
        assert!(is_left_unread(&one, timeout).unwrap());
        receive_all(&other, &mut [0; 8]).unwrap();
        assert!(!is_left_unread(&one, timeout).unwrap());
        send_all(&one, b"another", &[]).unwrap();
        send_all(&other, b"answer", &[]).unwrap();
        assert!(!is_left_unread(&one, timeout).unwrap());
    }

    #[test]
    fn bytes_arrive_with_their_files_and_an_end_is_an_error() {
        let (one, other) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        send_all(&one, b"message", &[file.as_fd(), file.as_fd()]).unwrap();
        let mut bytes = [0; 7];
        assert_eq!(receive_all(&other, &mut bytes).unwrap().len(), 2);
        assert_eq!(&bytes, b"message");
        drop(one);
        assert_eq!(receive_all(&other, &mut bytes).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
