//! Descriptors and a deadline as one descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use byway_sys::Alarm;
use rustix::event::epoll;

/// Descriptors and a deadline as one descriptor, which is readable when any of them has come.
pub(crate) struct EventSet {
    all: OwnedFd,
    alarm: Alarm,
}

impl EventSet {
    /// # Errors
    /// The system's answer.
    pub fn new() -> io::Result<Self> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Alarm::beside(all.as_fd())?;
        Ok(Self { all, alarm })
    }

    pub fn event(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    /// # Errors
    /// The system's answer.
    pub fn add(&self, fd: impl AsFd, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.all, fd, epoll::EventData::new_u64(0), flags)?)
    }

    /// # Errors
    /// The system's answer.
    pub fn modify(&self, fd: impl AsFd, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.all, fd, epoll::EventData::new_u64(0), flags)?)
    }

    /// # Errors
    /// The system's answer.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.all, fd)?)
    }

    /// Sets the time to the deadline.
    pub fn set_deadline(&self, time_left: Option<Duration>) {
        self.alarm.set(time_left);
    }
}
