//! A listener, its clients, and peers of the release before, which spoke lines.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use byway_admin::{
    Client, Fields, Frame, FrameError, HEADER_BYTES, Kind, Listener, REPLY_BYTES_MAX, REQUEST_BYTES_MAX,
    ReplyError, Request, Text, VERSION, ask,
};
use byway_sys::SocketListener;
use proptest::prelude::*;

/// Answers `count` with progress and the number of descriptors, and refuses everything else.
fn answer(Request { text, files }: Request, client: &Client<'_>) -> std::io::Result<()> {
    if Fields::of(&text).0 != "count" {
        return client.refuse("unknown\trequest");
    }
    let progress = Frame::new(Kind::Progress, Text::default().with(0));
    let item = Frame::new(Kind::Item, Text::of("files").with(files.len()));
    client.reply(&[progress, item, Frame::new(Kind::Done, Text::default())])
}

fn listener() -> (tempfile::TempDir, PathBuf, Listener) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let socket = SocketListener::open(&path).unwrap();
    let listener = Listener::start(socket, "test", "of another user", answer).unwrap();
    (folder, path, listener)
}

/// Sends bytes and their end; the whole answer.
fn raw(path: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(path).unwrap();
    // A client that is refused early may find the connection closed.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn request_with_descriptors_is_answered_by_frames() {
    let (folder, path, _listener) = listener();
    let file = std::fs::File::open(folder.path()).unwrap();
    let stream = UnixStream::connect(&path).unwrap();
    let mut replies = ask(stream, Text::of("count"), &[file.as_fd(); 4]).unwrap();
    let frames: Vec<Frame> = (0..3).map(|_| replies.next_reply().unwrap()).collect();
    assert_eq!(
        frames.iter().map(|frame| frame.kind).collect::<Vec<_>>(),
        [Kind::Progress, Kind::Item, Kind::Done]
    );
    assert_eq!(frames[1].text, "files\t4");
    assert!(matches!(replies.next_reply(), Err(ReplyError::Ended)));
}

#[test]
fn request_of_a_release_with_lines_is_answered_by_lines() {
    let (_folder, path, _listener) = listener();
    assert_eq!(raw(&path, b"count\n"), b"progress\t0\nfiles\t0\ndone\n");
    assert_eq!(raw(&path, b"begone\n"), b"refused\tunknown\\trequest\n");
    assert_eq!(raw(&path, b"count"), b"refused\tunknown\\trequest\n", "a line that is cut off is none");
}

#[test]
fn reply_of_a_release_with_lines_is_of_another_release() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let server = std::os::unix::net::UnixListener::bind(&path).unwrap();
    // As servers of the release before answer a line that they do not know: once it ends, or the client sends no more.
    let old = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut line = String::new();
        BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_line(&mut line).unwrap();
        assert!(!line.ends_with('\n'));
        stream.write_all(b"refused\tthe request is not one that this server knows\n").unwrap();
    });
    let stream = UnixStream::connect(&path).unwrap();
    let error = ask(stream, Text::of("count"), &[]).unwrap().next_reply().unwrap_err();
    assert_eq!(error.to_string(), "is of another release: restart it");
    old.join().unwrap();
}

#[test]
fn malformed_frames_are_refused_and_the_next_request_is_answered() {
    let (_folder, path, _listener) = listener();
    let frame = |len: u32, version: u16, kind: u16, text: &[u8]| {
        [&len.to_be_bytes(), &version.to_be_bytes()[..], &kind.to_be_bytes(), text].concat()
    };
    let said = |bytes: &[u8]| {
        let answer = raw(&path, bytes);
        Frame::read(&mut &answer[..], REPLY_BYTES_MAX).unwrap().map(|frame| (frame.kind, frame.text))
    };
    for (bytes, why) in [
        (frame(5, VERSION + 1, 1, b"count"), "version 2"),
        (frame(5, VERSION, 9, b"count"), "kind 9"),
        (frame(5, VERSION, Kind::Done as u16, b"count"), "a reply"),
        (frame(1 + REQUEST_BYTES_MAX as u32, VERSION, 1, b"count"), "the limit"),
        (frame(2, VERSION, 1, b"\xff\xfe"), "UTF-8"),
        (frame(5, VERSION, 1, b"begon"), "unknown"),
    ] {
        let (kind, text) = said(&bytes).unwrap();
        assert!(kind == Kind::Refused && text.contains(why), "{why}: {text}");
    }
    for cut in [&b""[..], b"\0", &frame(5, VERSION, 1, b"coun")] {
        assert_eq!(said(cut), None, "a frame that is cut off needs no answer");
    }
    assert_eq!(said(&frame(5, VERSION, 1, b"count")).unwrap().0, Kind::Progress);
}

proptest! {
    #[test]
    fn frame_is_read_as_sent(fields in proptest::collection::vec(any::<String>(), 0..5), kind in 0_usize..6) {
        let kinds = [Kind::Request, Kind::Progress, Kind::Item, Kind::Done, Kind::Busy, Kind::Refused];
        let frame = Frame::new(kinds[kind], Text::of("word").with_all(&fields));
        let bytes = frame.encode().unwrap();
        prop_assert_eq!(bytes[0], 0);
        let read = Frame::read(&mut &bytes[..], REPLY_BYTES_MAX).unwrap().unwrap();
        prop_assert_eq!(&read, &frame);
        let (word, mut rest) = Fields::of(&read.text);
        prop_assert_eq!((word, rest.rest()), ("word", fields));
        let cut = Frame::read(&mut &bytes[..bytes.len() - 1], REPLY_BYTES_MAX);
        prop_assert!(matches!(cut, Err(FrameError::System(_))));
        let most = (bytes.len() - HEADER_BYTES - 1) as u64;
        prop_assert!(matches!(Frame::read(&mut &bytes[..], most), Err(FrameError::TooLong(_))));
    }
}
