//! Waiting for descriptors, as a program's own event loop does.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until one of some descriptors can be read, a signal comes, or `timeout` is over; says whether one can be.
///
/// # Errors
/// When the system refuses.
pub fn wait_for_any<const N: usize>(events: [BorrowedFd<'_>; N], timeout: Duration) -> io::Result<bool> {
    let mut events = events.map(|event| PollFd::from_borrowed_fd(event, PollFlags::IN));
    let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
    let timeout = Timespec { tv_sec: seconds, tv_nsec: timeout.subsec_nanos().into() };
    match poll(&mut events, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        // The caller checks for signals.
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(cause) => Err(cause.into()),
    }
}
