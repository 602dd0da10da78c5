//! The server's side: control sockets, each with a thread that answers its requests one after the other.

use std::io;
use std::path::Path;
use std::sync::Arc;

use byway_admin::{Client, Listener};
use byway_core::{Error, Result};
use byway_sys::SocketListener;
use parking_lot::Mutex;

use super::request::Request;
use crate::embedded::control_folder::{ControlSocket, OpenImage, Purpose};
use crate::serve::events::{EventQueue, ServeEvent};
use crate::serve::from_socket;
use crate::serve::live::{ImageSockets, ServeControl};
use crate::serve::subsystem::SubsystemTable;

/// Control sockets of a server: at the path of its options, and one for each served image.
#[derive(Debug)]
pub(in crate::serve) struct Requests {
    events: Arc<EventQueue>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(Vec<Socket>),
    /// The server ends, and opens no more sockets.
    Closed,
}

/// A socket with the thread that answers its requests.
#[derive(Debug)]
struct Socket {
    /// NQN of the subsystem whose image leads to it; `None` for the socket of the options.
    subsystem: Option<String>,
    listener: Listener,
}

impl Requests {
    /// No sockets yet. `events` gets the reason for each image of a later subsystem that has no socket.
    pub fn new(events: Arc<EventQueue>) -> Self {
        Self { events, state: Mutex::new(State::Open(Vec::new())) }
    }

    /// Listens at `path`, and at a socket for each served image. Returns the sockets; the reason stands for one that cannot be opened.
    ///
    /// # Errors
    /// As [`SocketListener::open`] has them of `path`.
    pub fn start_all(
        &self,
        path: Option<&Path>,
        table: &SubsystemTable,
        control: &ServeControl,
    ) -> Result<Vec<ControlSocket>> {
        let mut sockets = Vec::new();
        if let Some(path) = path {
            let socket = SocketListener::open(path).map_err(|error| from_socket(path, error))?;
            let started = self.start(socket, None, control);
            started.map_err(|error| Error::kernel(format!("listen at {}", path.display()), error))?;
            sockets.push(ControlSocket::At(path.to_owned()));
        }
        let list = table.list();
        let images = list.iter().filter_map(|open| Some((&open.nqn, open.image.as_ref()?)));
        sockets.extend(images.map(|(nqn, image)| self.start_for(nqn, image, control)));
        Ok(sockets)
    }

    /// Closes all sockets, once each has answered its request.
    pub fn close(&self) {
        let last = std::mem::replace(&mut *self.state.lock(), State::Closed);
        // Join the threads without the lock: a request that is being answered may take it.
        drop(last);
    }

    fn start_for(&self, nqn: &str, image: &OpenImage, control: &ServeControl) -> ControlSocket {
        let started = image.listen(Purpose::Serve).and_then(|(socket, path)| {
            self.start(socket, Some(nqn), control).map(|()| path).map_err(|error| error.to_string())
        });
        started.map_or_else(ControlSocket::Missing, ControlSocket::At)
    }

    fn start(
        &self,
        socket: SocketListener,
        subsystem: Option<&str>,
        control: &ServeControl,
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        let State::Open(sockets) = &mut *state else { return Err(io::Error::other("the server ends")) };
        sockets.retain(|socket| !socket.listener.has_ended());
        let control = control.clone();
        let refused = "the server belongs to another user";
        let listener = Listener::start(socket, "byway-requests", refused, move |request, client| {
            answer(&request.text, client, &control)
        })?;
        sockets.push(Socket { subsystem: subsystem.map(str::to_owned), listener });
        Ok(())
    }
}

impl ImageSockets for Requests {
    fn add(&self, nqn: &str, image: &OpenImage, control: &ServeControl) {
        if let ControlSocket::Missing(why) = self.start_for(nqn, image, control) {
            self.events.put(ServeEvent::NoControlSocket { subsystem: nqn.to_owned(), why });
        }
    }

    fn remove(&self, nqn: &str) {
        if let State::Open(sockets) = &*self.state.lock() {
            let of_it = sockets.iter().filter(|socket| socket.subsystem.as_deref() == Some(nqn));
            of_it.for_each(|socket| socket.listener.stop());
        }
    }
}

fn answer(text: &str, client: &Client<'_>, control: &ServeControl) -> io::Result<()> {
    let Some(request) = Request::of_text(text) else {
        return client.refuse("the request is not one that this server knows");
    };
    match request.carry_out(control) {
        Ok(reply) => client.reply(&reply.into_frames()),
        Err(error) => client.refuse(&error.to_string()),
    }
}
