//! A descriptor that can be read once another one can be, or when a time has come.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// A descriptor that can be read once another one can be, or when a time has come.
#[derive(Debug)]
pub struct Alarm {
    /// Of the other descriptor and the clock.
    both: OwnedFd,
    clock: OwnedFd,
    is_set: AtomicBool,
}

impl Alarm {
    /// Beside `other`, at no time yet.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn beside(other: BorrowedFd<'_>) -> io::Result<Self> {
        let clock =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for fd in [other, clock.as_fd()] {
            epoll::add(&both, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(Self { both, clock, is_set: AtomicBool::new(false) })
    }

    /// Goes off after `time`, and not at any earlier time that was said before; never for `None`.
    pub fn set(&self, time: Option<Duration>) {
        if !self.is_set.swap(time.is_some(), Ordering::Relaxed) && time.is_none() {
            return;
        }
        // No time at all would turn it off.
        let time = time.map(|time| time.max(Duration::from_nanos(1)));
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = time.map_or(never, |time| {
            Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
        });
        let spec = Itimerspec { it_interval: never, it_value };
        // It fails for a time that is none alone.
        let _ = timerfd_settime(&self.clock, TimerfdTimerFlags::empty(), &spec);
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wakeup::{Wakeup, wait_readable};

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn alarm_is_readable_with_its_descriptor_and_at_its_time() {
        let wakeup = Wakeup::new().unwrap();
        let alarm = Alarm::beside(wakeup.as_fd()).unwrap();
        let rings = |timeout| wait_readable(alarm.as_fd(), timeout).unwrap();
        assert!(!rings(Duration::ZERO));
        wakeup.raise();
        assert!(rings(Duration::ZERO));
        wakeup.lower();
        assert!(!rings(Duration::ZERO));
        for time in [Duration::from_millis(5), Duration::ZERO] {
            alarm.set(Some(time));
            assert!(rings(LONG));
            alarm.set(Some(LONG));
            assert!(!rings(Duration::ZERO), "set anew, it is quiet until then");
            alarm.set(Some(time));
            assert!(rings(LONG));
            alarm.set(None);
            assert!(!rings(Duration::ZERO));
        }
    }
}
