//! The descriptor that a program waits by.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use byway_sys::{Alarm, Wakeup};
use rustix::event::epoll;

use crate::line::Line;

/// The event descriptor: the socket, messages of the admin thread and the next deadline.
pub(super) struct Listening {
    both: OwnedFd,
    alarm: Alarm,
    /// The socket is asked for room to send as well.
    for_room: bool,
}

impl Listening {
    /// On the socket of a connection that is open, and on `wakeup`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new(line: &Line, wakeup: &Wakeup) -> io::Result<Self> {
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let for_room = line.has_unsent();
        let data = epoll::EventData::new_u64(0);
        if line.connection.is_open() {
            epoll::add(&both, line.stream(), data, flags(for_room))?;
        }
        epoll::add(&both, wakeup, data, epoll::EventFlags::IN)?;
        let alarm = Alarm::beside(both.as_fd())?;
        Ok(Self { both, alarm, for_room })
    }

    pub fn event(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    /// The connection has ended: a socket that has ended stays readable, which must wake no event loop.
    pub fn remove(&self, line: &Line) {
        // Fails where the socket was not added.
        let _ = epoll::delete(&self.both, line.stream());
    }

    /// There is another connection.
    pub fn add(&mut self, line: &Line) {
        self.for_room = true;
        let data = epoll::EventData::new_u64(0);
        // The descriptor stays the same. The kernel has room for one socket where it had room for another.
        let _ = epoll::add(&self.both, line.stream(), data, flags(true));
    }

    /// Makes the descriptor readable after this time, and for what the connection waits for now.
    pub fn arm(&mut self, line: &Line, time_left: Option<Duration>) {
        self.alarm.set(time_left);
        let for_room = line.has_unsent();
        if line.connection.is_open() && for_room != self.for_room {
            self.for_room = for_room;
            let data = epoll::EventData::new_u64(0);
            // The socket is there for as long as the connection is open.
            let _ = epoll::modify(&self.both, line.stream(), data, flags(for_room));
        }
    }
}

fn flags(for_room: bool) -> epoll::EventFlags {
    match for_room {
        true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        false => epoll::EventFlags::IN,
    }
}
