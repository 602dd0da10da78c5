//! The server's side: control sockets, each with a thread that answers its requests one after the other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use byway_core::{Error, Result};
use byway_sys::handover;
use byway_vfio_user::SocketListener;

use super::CLIENT_TIMEOUT;
use super::reply::Part;
use super::request::Request;
use crate::embedded::answering::Answering;
use crate::embedded::control_folder::{ControlSocket, Purpose};
use crate::serve::from_socket;
use crate::serve::live::ServeControl;
use crate::serve::subsystem::{OpenSubsystem, SubsystemTable};

/// Bytes of a request at most: the longest of a thousand names.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Control sockets, open until this is dropped.
#[derive(Debug, Default)]
pub(in crate::serve) struct Requests {
    answering: Vec<Answering>,
    sockets: Vec<ControlSocket>,
}

impl Requests {
    /// Listens at `path`, and at a socket for each served image. A socket that cannot be opened is listed with the reason.
    ///
    /// # Errors
    /// As [`SocketListener::open`] has them of `path`.
    pub fn start_all(path: Option<&Path>, table: &SubsystemTable, control: &ServeControl) -> Result<Self> {
        let mut all = Self::default();
        if let Some(path) = path {
            let socket = SocketListener::open(path).map_err(|error| from_socket(path, error))?;
            let started = all.start(socket, control.clone());
            started.map_err(|error| Error::kernel(format!("listen at {}", path.display()), error))?;
            all.sockets.push(ControlSocket::At(path.to_owned()));
        }
        for open in table.list().iter() {
            let socket = all.start_for(open, control);
            all.sockets.extend(socket);
        }
        Ok(all)
    }

    /// Where requests are taken, and why not where they are not.
    pub fn sockets(&self) -> &[ControlSocket] {
        &self.sockets
    }

    /// Takes requests by the image of a subsystem, if it has one.
    fn start_for(&mut self, open: &OpenSubsystem, control: &ServeControl) -> Option<ControlSocket> {
        let started = open.image.as_ref()?.listen(Purpose::Serve).and_then(|(socket, path)| {
            self.start(socket, control.clone()).map(|()| path).map_err(|error| error.to_string())
        });
        Some(started.map_or_else(ControlSocket::Missing, ControlSocket::At))
    }

    fn start(&mut self, socket: SocketListener, control: ServeControl) -> io::Result<()> {
        let answer = move |stream: &UnixStream| answer(stream, &control);
        self.answering.push(Answering::start(socket, "byway-requests", answer)?);
        Ok(())
    }
}

fn answer(stream: &UnixStream, control: &ServeControl) -> io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    if !handover::is_allowed(stream)? {
        return say(stream, &[Part::Refused("the server belongs to another user".to_owned())]);
    }
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let request = line.strip_suffix('\n').and_then(Request::of_line);
    let Some(request) = request else {
        return say(stream, &[Part::Refused("the request is not one that this server knows".to_owned())]);
    };
    say(stream, &Part::all_of(request.carry_out(control)))
}

fn say(mut stream: &UnixStream, parts: &[Part]) -> io::Result<()> {
    let text: String = parts.iter().map(Part::to_line).collect();
    stream.write_all(text.as_bytes())
}
