//! A socket with a thread that answers its clients, one after the other, until it is ended.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use byway_sys::{OwnerProcess, SocketListener, Wakeup};
use parking_lot::Mutex;
use rustix::event::{PollFd, Timespec, poll};

use crate::client::{Client, Request};

/// Answers the clients of a socket until it is dropped.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread. In a forked child there is none to end.
    owner: OwnerProcess,
}

/// What the thread shares with its owner.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    wakeup: Wakeup,
    /// The client that is answered now.
    client: Mutex<Option<UnixStream>>,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

impl Listener {
    /// Starts a thread of that name, which has `answer` answer each request of this process's user and of root. Other users are
    /// refused with `of_another_user` before anything is read.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(
        socket: SocketListener,
        name: &str,
        of_another_user: &'static str,
        answer: impl Fn(Request, &Client<'_>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, wakeup) = (AtomicBool::new(false), Wakeup::new()?);
        let shared = Arc::new(Shared { stop, wakeup, client: Mutex::default() });
        let of_thread = Arc::clone(&shared);
        let answer_one = move |stream: &UnixStream| match Client::admit(stream, of_another_user)? {
            Some((request, client)) => answer(request, &client),
            None => Ok(()),
        };
        let answer_all = move || answer_all(&socket, &answer_one, &of_thread);
        let thread = std::thread::Builder::new().name(name.into()).spawn(answer_all)?;
        Ok(Self { shared, thread: Some(thread), owner: OwnerProcess::current() })
    }

    /// Ends the thread, without waiting, once it has answered the request that it has read.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // Shut down reading only: an incomplete request is cut off, a complete one is still answered.
        if let Some(client) = &*self.shared.client.lock() {
            let _ = client.shutdown(Shutdown::Read);
        }
        self.shared.wakeup.raise();
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return std::mem::forget(self.thread.take());
        }
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer_all(socket: &SocketListener, answer: &impl Fn(&UnixStream) -> io::Result<()>, shared: &Shared) {
    while !shared.is_stopping() {
        let Some(stream) = socket.accept().filter(|stream| stream.set_nonblocking(false).is_ok()) else {
            wait(socket, &shared.wakeup);
            continue;
        };
        *shared.client.lock() = stream.try_clone().ok();
        // Read after the client is stored: `drop` sees the client, or this thread sees the stop.
        if !shared.is_stopping() {
            // A client that has gone needs no answer.
            let _ = answer(&stream);
        }
        *shared.client.lock() = None;
    }
}

/// Waits until a client may have come, or `wakeup` is raised.
fn wait(socket: &SocketListener, wakeup: &Wakeup) {
    let (wanted, backs_off) = socket.wanted();
    let backs_off = backs_off.and_then(|time| Timespec::try_from(time).ok());
    let mut waited = [PollFd::new(socket, wanted), PollFd::new(wakeup, rustix::event::PollFlags::IN)];
    // Interrupted or not: the loop looks for clients.
    let _ = poll(&mut waited, backs_off.as_ref());
}
