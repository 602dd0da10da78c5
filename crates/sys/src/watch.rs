//! One descriptor for many: it can be read while any of those can that are in it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::epoll;

use crate::wakeup::wait_readable;

/// Descriptors that are watched together. They may come and go while others wait.
#[derive(Debug)]
pub struct Watch {
    poll: OwnedFd,
    members: Mutex<Vec<(u64, OwnedFd)>>,
}

impl Watch {
    /// None yet.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { poll: epoll::create(epoll::CreateFlags::CLOEXEC)?, members: Mutex::default() })
    }

    /// Watches `fd` too, under a name to [leave it out](Self::remove) by.
    ///
    /// # Errors
    /// The system's answer.
    pub fn add(&self, name: u64, fd: BorrowedFd<'_>) -> io::Result<()> {
        let fd = fd.try_clone_to_owned()?;
        epoll::add(&self.poll, &fd, epoll::EventData::new_u64(name), epoll::EventFlags::IN)?;
        crate::locked(&self.members).push((name, fd));
        Ok(())
    }

    /// Watches it no more.
    pub fn remove(&self, name: u64) {
        let mut members = crate::locked(&self.members);
        for (_, fd) in members.extract_if(.., |(known, _)| *known == name) {
            // It is open still, as this is a duplicate; one that is not in it is left out already.
            let _ = epoll::delete(&self.poll, &fd);
        }
    }

    /// Sleeps until any of them can be read, at most `timeout`; says whether one can.
    ///
    /// # Errors
    /// The system's answer.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        wait_readable(self.poll.as_fd(), timeout)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wakeup::Wakeup;

    #[test]
    fn watch_is_readable_while_a_member_is() {
        let (watch, first, second) = (Watch::new().unwrap(), Wakeup::new().unwrap(), Wakeup::new().unwrap());
        watch.add(1, first.as_fd()).unwrap();
        watch.add(2, second.as_fd()).unwrap();
        assert!(!watch.wait(Duration::ZERO).unwrap());
        second.raise();
        assert!(watch.wait(Duration::from_secs(9)).unwrap());
        watch.remove(2);
        assert!(!watch.wait(Duration::ZERO).unwrap());
        first.raise();
        assert!(watch.wait(Duration::ZERO).unwrap());
    }
}
