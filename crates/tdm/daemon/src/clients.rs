//! Connections of programs, each with its thread.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use parking_lot::Mutex;

/// The connections.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<Vec<Client>>);

/// A connection and its thread.
#[derive(Debug)]
struct Client {
    uid: Option<u32>,
    stream: UnixStream,
    thread: JoinHandle<()>,
}

impl Clients {
    /// Adds a connection and starts its thread. The list is locked until the thread runs: a client that is not listed has no
    /// connection.
    pub(crate) fn add<E>(
        &self,
        uid: Option<u32>,
        stream: UnixStream,
        spawn: impl FnOnce() -> Result<JoinHandle<()>, E>,
    ) -> Result<(), E> {
        let mut clients = self.0.lock();
        let thread = spawn()?;
        clients.retain(|client| !client.thread.is_finished());
        clients.push(Client { uid, stream, thread });
        Ok(())
    }

    /// Whether a program of the user is connected.
    pub(crate) fn is_connected(&self, uid: u32) -> bool {
        let clients = self.0.lock();
        clients.iter().any(|client| client.uid == Some(uid) && !client.thread.is_finished())
    }

    /// Shuts every connection down and waits for its thread.
    pub(crate) fn end(&self) {
        let clients = std::mem::take(&mut *self.0.lock());
        for client in clients {
            let _ = client.stream.shutdown(Shutdown::Both);
            let _ = client.thread.join();
        }
    }
}
