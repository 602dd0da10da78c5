//! Finished commands that were not reaped yet, and the event descriptor for them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use byway_core::{Error, ErrorKind, Finished, Result};
use byway_sys::Wakeup;

/// Signals completions to an event loop, once the program has asked for its descriptor: a polled queue pays nothing.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    wakeup: Option<Wakeup>,
    /// It was raised since it was lowered last, so that lowering takes a system call.
    is_raised: Cell<bool>,
}

impl Notifier {
    /// There are completions. Needed for the first of them: the descriptor stays readable until it is [cleared](Self::clear).
    #[inline]
    pub(crate) fn ring(&self) {
        if let Some(wakeup) = &self.wakeup {
            wakeup.raise();
            self.is_raised.set(true);
        }
    }

    /// There are none left.
    #[inline]
    pub(crate) fn clear(&self) {
        if let Some(wakeup) = &self.wakeup
            && self.is_raised.replace(false)
        {
            wakeup.lower();
        }
    }

    /// The descriptor; readable at once if there are completions already.
    pub(crate) fn event(&mut self, ringing: bool) -> Result<BorrowedFd<'_>> {
        if self.wakeup.is_none() {
            let made = Wakeup::new();
            self.wakeup = Some(made.map_err(|cause| Error::kernel("no descriptor for completions", cause))?);
        }
        if ringing {
            self.ring();
        }
        let wakeup = self.wakeup.as_ref();
        wakeup.map(AsFd::as_fd).ok_or_else(|| Error::host(ErrorKind::System, "no descriptor for completions"))
    }
}

/// Finished commands of one queue, in the order in which they finished.
#[derive(Debug)]
pub(crate) struct Ready {
    finished: VecDeque<Finished>,
    notifier: Notifier,
}

impl Ready {
    /// Room for `depth` of them.
    pub(crate) fn new(depth: u32) -> Self {
        Self { finished: VecDeque::with_capacity(depth as usize), notifier: Notifier::default() }
    }

    /// Adds one.
    #[inline]
    pub(crate) fn push(&mut self, finished: Finished) {
        let is_first = self.finished.is_empty();
        self.finished.push_back(finished);
        if is_first {
            self.notifier.ring();
        }
    }

    /// Takes the first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Finished> {
        let first = self.finished.pop_front();
        if first.is_none() {
            self.notifier.clear();
        }
        first
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.finished.len() as u32
    }

    /// A descriptor that can be read while there are some.
    pub(crate) fn event(&mut self) -> Result<BorrowedFd<'_>> {
        self.notifier.event(!self.finished.is_empty())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use byway_core::Outcome;
    use byway_sys::wakeup::wait_readable;

    use super::*;

    fn is_readable(ready: &mut Ready) -> bool {
        wait_readable(ready.event().unwrap(), Duration::ZERO).unwrap()
    }

    #[test]
    fn descriptor_is_readable_from_the_first_completion_until_none_was_found() {
        let mut ready = Ready::new(4);
        let finished = |tag| Finished { tag, result: Ok(Outcome::default()) };
        assert!(!is_readable(&mut ready));
        for round in 0..3 {
            (0..4).for_each(|tag| ready.push(finished(round * 4 + tag)));
            for tag in 0..4 {
                assert!(is_readable(&mut ready));
                assert_eq!(ready.pop().unwrap().tag, round * 4 + tag);
            }
            ready.push(finished(99));
            assert!(is_readable(&mut ready));
            assert_eq!(ready.pop().unwrap().tag, 99);
            assert!(ready.pop().is_none() && !is_readable(&mut ready));
        }
    }
}
