//! Files handed over to another process through a socket, and who is at its other end.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// Hands a file over.
///
/// # Errors
/// What the system says.
pub fn send(stream: &UnixStream, file: &File) -> io::Result<()> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(stream, &[IoSlice::new(b"F")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Takes a file that is handed over; `None` where the other end sent something else, or nothing.
///
/// # Errors
/// What the system says.
pub fn receive(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok(files.flatten().next())
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
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
