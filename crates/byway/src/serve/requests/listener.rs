//! The side of the server: sockets that requests come to, each with a thread that takes them one after the other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use byway_core::{Error, Result};
use byway_sys::{OwnerProcess, Wakeup, handover};
use byway_vfio_user::Door;
use rustix::event::{PollFd, PollFlags, poll};

use super::CLIENT_TIMEOUT;
use super::reply::Part;
use super::request::Request;
use crate::serve::from_door;
use crate::serve::live::ServeControl;
use crate::serve::subsystem::House;

/// Bytes of a request at most: the longest of a thousand names.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// A socket that requests come to, for as long as this is kept.
#[derive(Debug)]
pub(in crate::serve) struct Requests {
    owner: OwnerProcess,
    talk: Arc<Talk>,
    thread: Option<JoinHandle<()>>,
}

/// What a thread shares with whoever ends it.
#[derive(Debug)]
struct Talk {
    stop: AtomicBool,
    bell: Wakeup,
    /// Who is answered now.
    client: Mutex<Option<UnixStream>>,
}

/// What is listened at.
#[derive(Debug)]
enum Entry {
    /// A path, whose file goes with it.
    Path(Door),
    /// A name without a file, which follows from an image.
    Name(UnixListener),
}

impl Entry {
    fn of_image(image: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&address_of_image(image)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Name(listener))
    }

    fn accept(&self) -> Option<UnixStream> {
        let stream = match self {
            Self::Path(door) => door.accept(),
            Self::Name(listener) => listener.accept().ok().map(|(stream, _)| stream),
        };
        stream.filter(|stream| stream.set_nonblocking(false).is_ok())
    }

    /// Waits until somebody may have come, or `bell` is raised.
    fn wait(&self, bell: &Wakeup) {
        let entry = match self {
            Self::Path(door) => door.as_fd(),
            Self::Name(listener) => listener.as_fd(),
        };
        let mut waited = [PollFd::new(&entry, PollFlags::IN), PollFd::new(bell, PollFlags::IN)];
        // Interrupted or not: whoever came is looked for.
        let _ = poll(&mut waited, None);
    }
}

/// The name that the socket of an image's server has.
pub(super) fn address_of_image(image: &Path) -> io::Result<SocketAddr> {
    let found = std::fs::metadata(image)?;
    SocketAddr::from_abstract_name(format!("byway-serve-{:x}-{:x}", found.dev(), found.ino()))
}

impl Requests {
    /// Takes requests at `path`, and by the images that are served. Without sockets for these there are none.
    ///
    /// # Errors
    /// As [`Door::open`] has them of `path`.
    pub fn start_all(path: Option<&Path>, house: &House, control: &ServeControl) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        if let Some(path) = path {
            let door = Door::open(path).map_err(|error| from_door(path, error))?;
            let started = Self::start(Entry::Path(door), control.clone());
            all.push(started.map_err(|error| Error::kernel(format!("listen at {}", path.display()), error))?);
        }
        for image in house.housed().iter().filter_map(|housed| housed.image.as_ref()) {
            let entry = Entry::of_image(image);
            all.extend(entry.and_then(|entry| Self::start(entry, control.clone())));
        }
        Ok(all)
    }

    fn start(entry: Entry, control: ServeControl) -> io::Result<Self> {
        let (stop, bell) = (AtomicBool::new(false), Wakeup::new()?);
        let talk = Arc::new(Talk { stop, bell, client: Mutex::default() });
        let shared = Arc::clone(&talk);
        let answer_all = move || answer_all(&entry, &control, &shared);
        let thread = std::thread::Builder::new().name("byway-requests".into()).spawn(answer_all)?;
        Ok(Self { owner: OwnerProcess::current(), talk, thread: Some(thread) })
    }
}

impl Drop for Requests {
    /// A forked child has no such thread, and its parent goes on answering.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return std::mem::forget(self.thread.take());
        }
        self.talk.stop.store(true, Ordering::SeqCst);
        // Nothing more is heard of a client that has not made its request yet. The answer to one that has goes out.
        if let Some(client) = &*self.talk.client.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = client.shutdown(Shutdown::Read);
        }
        self.talk.bell.raise();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer_all(entry: &Entry, control: &ServeControl, talk: &Talk) {
    let client = |stream| *talk.client.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    while !talk.stop.load(Ordering::SeqCst) {
        let Some(stream) = entry.accept() else {
            entry.wait(&talk.bell);
            continue;
        };
        client(stream.try_clone().ok());
        // Looked at after the client is known: whoever stops the thread sees the client, or the thread sees the stop.
        if !talk.stop.load(Ordering::SeqCst) {
            // Who asked and went away needs no answer.
            let _ = answer(&stream, control);
        }
        client(None);
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
