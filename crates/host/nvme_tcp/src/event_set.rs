//! An epoll set and a deadline as one descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use byway_sys::Alarm;
use rustix::event::epoll;

/// An epoll set and a deadline as one descriptor, readable when a descriptor of the set is ready or the deadline has passed.
pub(crate) struct EventSet {
    all: OwnedFd,
    alarm: Alarm,
}

impl EventSet {
    /// Creates an empty set without a deadline.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new() -> io::Result<Self> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Alarm::beside(all.as_fd())?;
        Ok(Self { all, alarm })
    }

    /// The descriptor that a program polls.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    /// Adds a descriptor, with the events to wait for.
    ///
    /// # Errors
    /// The system's answer.
    pub fn add(&self, fd: impl AsFd, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.all, fd, epoll::EventData::new_u64(0), flags)?)
    }

    /// Changes the events of a descriptor in the set.
    ///
    /// # Errors
    /// The system's answer.
    pub fn modify(&self, fd: impl AsFd, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.all, fd, epoll::EventData::new_u64(0), flags)?)
    }

    /// Removes a descriptor.
    ///
    /// # Errors
    /// The system's answer.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.all, fd)?)
    }

    /// Sets the deadline to this much time from now; `None` clears it.
    pub fn set_deadline(&self, time_left: Option<Duration>) {
        self.alarm.set(time_left);
    }
}
