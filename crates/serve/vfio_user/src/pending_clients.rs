//! Connected clients that are not served: the first with a complete message is served next, or refused while another is served.

use byway_sys::SocketListener;
use byway_vfio_user_wire::{Errno, Incoming, encode_error};
use rustix::event::{PollFd, PollFlags};

use crate::connection::{Connection, Received};

/// Pending clients, at most. Beyond that the oldest silent one is closed.
const PENDING_MAX: usize = 8;

/// A client that is not served.
#[derive(Debug)]
struct PendingClient {
    connection: Connection,
    /// Its first message is complete; nothing more is read.
    has_spoken: bool,
}

/// Pending clients in the order of their connections.
#[derive(Debug, Default)]
pub struct PendingClients {
    clients: Vec<PendingClient>,
}

impl PendingClients {
    /// Accepts new clients and receives from all silent ones.
    pub fn accept(&mut self, listener: &SocketListener) {
        for socket in std::iter::from_fn(|| listener.accept()).take(PENDING_MAX) {
            if self.clients.len() == PENDING_MAX {
                let silent = self.clients.iter().position(|client| !client.has_spoken);
                self.clients.remove(silent.unwrap_or(0));
            }
            let connection = Connection::new(socket).ok();
            self.clients.extend(connection.map(|connection| PendingClient { connection, has_spoken: false }));
        }
        self.clients.retain_mut(PendingClient::receive);
    }

    /// Takes the first client with a complete message, which is still to be answered.
    pub fn next(&mut self) -> Option<Connection> {
        let next = self.clients.iter().position(|client| client.has_spoken)?;
        Some(self.clients.remove(next).connection)
    }

    /// Whether a client has a complete message.
    pub fn has_next(&self) -> bool {
        self.clients.iter().any(|client| client.has_spoken)
    }

    /// What to poll for: messages of silent clients.
    pub fn wanted(&self) -> impl Iterator<Item = PollFd<'_>> {
        let silent = self.clients.iter().filter(|client| !client.has_spoken);
        silent.map(|client| PollFd::new(&client.connection, PollFlags::IN))
    }
}

impl PendingClient {
    /// Receives its first message; false when it has disconnected.
    fn receive(&mut self) -> bool {
        if self.has_spoken {
            return true;
        }
        match self.connection.receive() {
            Ok(Received::Nothing) => true,
            Ok(Received::Some) => {
                // An invalid message is reported by the service.
                self.has_spoken = self.connection.reader.is_ready().unwrap_or(true);
                true
            }
            Ok(Received::End) | Err(_) => false,
        }
    }
}

/// Answers the first message of a client with EBUSY.
pub fn refuse(mut client: Connection) {
    let header = match client.reader.next() {
        Ok(Some(Incoming::Message(message))) => message.header,
        Ok(Some(Incoming::Refused { header, .. })) => header,
        Ok(None) | Err(_) => return,
    };
    encode_error(&header, Errno::EBUSY, &mut client.out.bytes);
    // A client that does not read 16 bytes gets no reply.
    let _ = client.send();
}
