//! Those who have come and are not served: whoever has said its first word is the next client, or is told that there is one.

use byway_vfio_user_wire::{Errno, Incoming, encode_error};
use rustix::event::{PollFd, PollFlags};

use crate::connection::{Connection, Received};
use crate::door::Door;

/// Clients that are kept until they have spoken. Of more the oldest are closed.
const MOST: usize = 8;

/// One who waits.
#[derive(Debug)]
struct Waiter {
    connection: Connection,
    /// Its first message is whole, and nothing more of it is read.
    has_spoken: bool,
}

/// Clients in the order in which they came.
#[derive(Debug, Default)]
pub struct Waiting {
    waiters: Vec<Waiter>,
}

impl Waiting {
    /// Lets in who is at `door`, and listens to all.
    pub fn hear(&mut self, door: &Door) {
        for socket in std::iter::from_fn(|| door.accept()).take(MOST) {
            if self.waiters.len() == MOST {
                let silent = self.waiters.iter().position(|waiter| !waiter.has_spoken);
                self.waiters.remove(silent.unwrap_or(0));
            }
            let connection = Connection::new(socket).ok();
            self.waiters.extend(connection.map(|connection| Waiter { connection, has_spoken: false }));
        }
        self.waiters.retain_mut(Waiter::listen);
    }

    /// The next client: the first of those who have spoken. What it said is still to be answered.
    pub fn next(&mut self) -> Option<Connection> {
        let next = self.waiters.iter().position(|waiter| waiter.has_spoken)?;
        Some(self.waiters.remove(next).connection)
    }

    /// Whether somebody wants to be served now.
    pub fn has_next(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.has_spoken)
    }

    /// What to wait for: a word of those who have said none.
    pub fn wanted(&self) -> impl Iterator<Item = PollFd<'_>> {
        let silent = self.waiters.iter().filter(|waiter| !waiter.has_spoken);
        silent.map(|waiter| PollFd::new(&waiter.connection, PollFlags::IN))
    }
}

impl Waiter {
    /// Hears what it says; false when it has gone.
    fn listen(&mut self) -> bool {
        if self.has_spoken {
            return true;
        }
        match self.connection.receive() {
            Ok(Received::Nothing) => true,
            Ok(Received::Some) => {
                // A message without an end is the service's to complain about.
                self.has_spoken = self.connection.reader.is_ready().unwrap_or(true);
                true
            }
            Ok(Received::End) | Err(_) => false,
        }
    }
}

/// Answers the first message of a client that is not served.
pub fn refuse(mut client: Connection) {
    let header = match client.reader.next() {
        Ok(Some(Incoming::Message(message))) => message.header,
        Ok(Some(Incoming::Refused { header, .. })) => header,
        Ok(None) | Err(_) => return,
    };
    encode_error(&header, Errno::EBUSY, &mut client.out.bytes);
    // Whoever does not take 16 bytes is not told.
    let _ = client.send();
}
