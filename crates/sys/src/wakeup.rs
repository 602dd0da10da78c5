//! An eventfd: a descriptor that is readable once raised, for event loops.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// An eventfd that is raised and lowered.
#[derive(Debug)]
pub struct Wakeup(OwnedFd);

impl Wakeup {
    /// A lowered one.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor readable.
    pub fn raise(&self) {
        // It fails only where it is raised 2^64 - 2 times already: then it is readable.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable until it is raised again.
    pub fn lower(&self) {
        // It fails only where it is lowered already.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// Sleeps until it is readable, at most `timeout`; says whether it is.
    ///
    /// # Errors
    /// The system's answer.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        wait_readable(self.0.as_fd(), timeout)
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until `fd` is readable, at most `timeout`; says whether it is. A signal ends the sleep early.
///
/// # Errors
/// The system's answer.
pub fn wait_readable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn wakeup_is_readable_from_raise_to_lower() {
        let wakeup = Wakeup::new().unwrap();
        assert!(!wakeup.wait(Duration::ZERO).unwrap());
        wakeup.raise();
        wakeup.raise();
        assert!(wakeup.wait(Duration::from_secs(9)).unwrap());
        wakeup.lower();
        assert!(!wakeup.wait(Duration::ZERO).unwrap());
    }
}
