//! The event descriptor of a queue.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use byway_sys::Wakeup;
use rustix::event::epoll::EventFlags;

use crate::event_set::EventSet;
use crate::line::Line;

/// The event descriptor: the socket, messages of the admin thread and the next deadline.
pub(super) struct EventDescriptor {
    set: EventSet,
    /// The socket is asked for room to send as well.
    for_room: bool,
}

impl EventDescriptor {
    /// On the socket of a connection that is open, and on `wakeup`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new(line: &Line, wakeup: &Wakeup) -> io::Result<Self> {
        let (set, for_room) = (EventSet::new()?, line.has_unsent());
        if line.connection.is_open() {
            set.add(line.stream(), flags(for_room))?;
        }
        set.add(wakeup, EventFlags::IN)?;
        Ok(Self { set, for_room })
    }

    /// The descriptor that a program polls.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.set.event()
    }

    /// Removes the socket of a connection that has ended: it stays readable, which must wake no event loop.
    pub fn remove(&self, line: &Line) {
        // Fails where the socket was not added.
        let _ = self.set.remove(line.stream());
    }

    /// Adds the socket of another connection.
    pub fn add(&mut self, line: &Line) {
        self.for_room = true;
        // The descriptor stays the same. The kernel has room for one socket where it had room for another.
        let _ = self.set.add(line.stream(), flags(true));
    }

    /// Makes the descriptor readable after this time, and for what the connection waits for now.
    pub fn arm(&mut self, line: &Line, time_left: Option<Duration>) {
        self.set.set_deadline(time_left);
        let for_room = line.has_unsent();
        if line.connection.is_open() && for_room != self.for_room {
            self.for_room = for_room;
            // The socket is there for as long as the connection is open.
            let _ = self.set.modify(line.stream(), flags(for_room));
        }
    }
}

fn flags(for_room: bool) -> EventFlags {
    match for_room {
        true => EventFlags::IN | EventFlags::OUT,
        false => EventFlags::IN,
    }
}
