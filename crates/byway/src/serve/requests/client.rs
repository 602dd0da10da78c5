//! The client's side.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use byway_admin::{Fields, Kind, ReplyError};
use byway_core::{Error, ErrorKind, Result};
use byway_sys::handover;

use super::reply::{Part, Reply};
use super::request::Request;
use super::{CLIENT_TIMEOUT, SERVER_TIMEOUT};
use crate::embedded::control_folder::{self, Purpose};
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
    let mut replies = byway_admin::ask(stream, request.to_text(), &[]).map_err(doing)?;
    let mut reply = Reply::default();
    loop {
        let frame = replies.next_reply().map_err(|error| unanswered(server, error))?;
        match (frame.kind, Part::of_text(&frame.text)) {
            (Kind::Item, Some(part)) => reply.add(part),
            (Kind::Done, _) => return Ok(reply),
            (Kind::Refused | Kind::Busy, _) => {
                let why = Fields::of(&frame.text).1.text().unwrap_or_default();
                return Err(Error::host(ErrorKind::InvalidArgument, why));
            }
            (Kind::Progress, _) => {}
            _ => return Err(unanswered(server, ReplyError::OtherRelease)),
        }
    }
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
        None => of_file(folder.join(place.strip_prefix("./").unwrap_or(place))),
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

fn unanswered(server: &Path, error: ReplyError) -> Error {
    let server = server.display();
    match error {
        ReplyError::System(error) => Error::kernel(format!("ask {server}"), error),
        error => Error::host(ErrorKind::System, format!("the server of {server} {error}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::{UnixListener, UnixStream};

    use byway_admin::{Frame, Text};

    use super::*;

    /// Why a request fails at a server that answers its connection with `answer`.
    fn error_of(answer: impl FnOnce(UnixStream) + Send) -> Error {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| answer(listener.accept().unwrap().0));
            ask(&path, &Request::Ports).unwrap_err()
        })
    }

    #[test]
    fn reply_without_end_is_refused_at_the_limit() {
        let error = error_of(|mut stream| {
            let item = Frame::new(Kind::Item, Text::of("port").with(1).with("127.0.0.1:4420"));
            let bytes = item.encode().unwrap();
            while stream.write_all(&bytes).is_ok() {}
        });
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("longer than 16 MiB"), "{error}: {source}");
    }

    #[test]
    fn server_of_a_release_with_lines_is_to_be_restarted() {
        let error = error_of(|mut stream| {
            std::io::Read::read_to_end(&mut stream, &mut Vec::new()).unwrap();
            stream.write_all(b"refused\tthe request is not one that this server knows\n").unwrap();
        });
        let error = error.to_string();
        assert!(error.ends_with("is of another release: restart it"), "{error}");
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
