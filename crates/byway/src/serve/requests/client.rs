//! The client's side.

use std::io::{BufReader, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use byway_core::{Error, ErrorKind, Result};
use byway_sys::handover;

use super::reply::{Part, Reply};
use super::request::Request;
use super::{CLIENT_TIMEOUT, SERVER_TIMEOUT};
use crate::embedded::control_folder::{self, Purpose};
use crate::embedded::reply_line::{REPLY_BYTES_MAX, next_line};
use crate::uri::{decode, encode, has_path, of_file, scheme_of, split_options, with_options};

/// Asks the server that takes requests at the socket `server`, or that serves the image `server`.
///
/// # Errors
/// [`ErrorKind::NotFound`] where no trusted server has the image open or listens at the socket; [`ErrorKind::Denied`] where the
/// listener at a socket's path is neither this user's, nor root's, nor the folder owner's; what the server answers.
pub fn ask(server: &Path, request: &Request) -> Result<Reply> {
    let doing = |error: std::io::Error| Error::kernel(format!("ask {}", server.display()), error);
    let stream = connect(server)?;
    stream.set_read_timeout(Some(SERVER_TIMEOUT)).map_err(doing)?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT)).map_err(doing)?;
    (&stream).write_all(request.to_line().as_bytes()).map_err(doing)?;
    let (mut reply, mut lines) = (Reply::default(), BufReader::new(&stream));
    let mut left_bytes = REPLY_BYTES_MAX;
    while let Some(line) = next_line(&mut lines, left_bytes).map_err(doing)? {
        left_bytes = left_bytes.saturating_sub(line.len() as u64 + 1);
        match Part::of_line(&line) {
            Some(Part::Done) => return Ok(reply),
            Some(Part::Refused(why)) => return Err(Error::host(ErrorKind::InvalidArgument, why)),
            Some(part) => reply.add(part),
            None => return Err(silent(server, "says what is not understood: it may be of another version")),
        }
    }
    Err(silent(server, "ended before it had answered"))
}

/// A URI as a server reads it that is in another folder: a path that is not absolute is one of `folder`.
#[must_use]
pub fn absolute(uri: &str, folder: &Path) -> String {
    let (place, options) = split_options(uri);
    let whole = match scheme_of(place) {
        Some((scheme, path)) if has_path(scheme) => {
            format!("{scheme}:{}", encode(&folder.join(decode(path))))
        }
        Some(_) => return uri.to_owned(),
        None => of_file(folder.join(place)),
    };
    with_options(&whole, options.unwrap_or_default())
}

/// Connects to a listener that may be trusted with the request.
fn connect(server: &Path) -> Result<UnixStream> {
    let missing = |error| Error::kernel(format!("look for {}", server.display()), error);
    let shown = server.display();
    if !std::fs::metadata(server).map_err(missing)?.file_type().is_socket() {
        return control_folder::connect(server, Purpose::Serve, CLIENT_TIMEOUT).map_err(|why| {
            let said = format!("no server has {shown} open and takes requests: {why}");
            Error::host(ErrorKind::NotFound, said)
        });
    }
    let stream = handover::connect(server, CLIENT_TIMEOUT).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput | std::io::ErrorKind::PermissionDenied => {
            Error::kernel(format!("connect to {shown}"), error)
        }
        _ => Error::host(ErrorKind::NotFound, format!("no server listens at {shown}")),
    })?;
    handover::check_listener(&stream, server).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Error::host(ErrorKind::Denied, error.to_string()),
        _ => Error::kernel(format!("ask {shown}"), error),
    })?;
    Ok(stream)
}

fn silent(server: &Path, what: &str) -> Error {
    Error::host(ErrorKind::System, format!("the server of {} {what}", server.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reply_without_end_is_refused_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let flood = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"port\t1\t127.0.0.1:4420\n").is_ok() {}
        });
        let error = ask(&path, &Request::Ports).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("longer than 16 MiB"), "{error}: {source}");
        flood.join().unwrap();
    }

    #[test]
    fn relative_path_is_resolved_by_the_client_and_other_uris_are_kept() {
        let folder = Path::new("/home/a");
        for (uri, wanted) in [
            ("disk", "/home/a/disk"),
            ("disk?direct=1", "/home/a/disk?direct=1"),
            ("file:disk", "file:/home/a/disk"),
            ("embedded:disk.img?ns=2", "embedded:/home/a/disk.img?ns=2"),
            ("embedded:x?y.img?ns=2", "embedded:/home/a/x%3Fy.img?ns=2"),
            ("/dev/nvme0n1", "/dev/nvme0n1"),
            ("blocks:1G", "blocks:1G"),
            ("tcp://10.0.0.1/nqn.a:b", "tcp://10.0.0.1/nqn.a:b"),
        ] {
            assert_eq!(absolute(uri, folder), wanted);
        }
    }
}
