//! Threads by their numbers, whichever process they are of.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The number of the calling thread, which no other one has meanwhile.
#[must_use]
pub fn number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// The number of the calling process, asked of the system: a child of vfork has its own.
#[must_use]
pub fn process() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs()
}

/// Whether there is a thread of that number; one that has ended, and everything that it did, is none. Zero is none.
#[must_use]
pub fn is_there(number: u32) -> bool {
    let thread = i32::try_from(number).ok().and_then(Pid::from_raw);
    // The system answers by thread, not by process, where nothing is sent.
    thread.is_some_and(|thread| test_kill_process(thread) != Err(Errno::SRCH))
}

#[cfg(all(test, not(miri)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_thread_is_there_until_it_has_ended() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(number()).unwrap();
            ended.recv().unwrap();
        });
        let other = receiver.recv().unwrap();
        assert!(other != number() && is_there(other) && is_there(number()));
        end.send(()).unwrap();
        thread.join().unwrap();
        // It has said that it ends a moment before the system has forgotten it.
        let is_gone = |_: &u32| {
            std::thread::yield_now();
            !is_there(other)
        };
        assert!((0..1_000_000).any(|round| is_gone(&round)));
        assert!(!is_there(0));
    }
}
