//! Finished commands that were not reaped yet, and the event descriptor for them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use byway_core::{Error, ErrorKind, Finished, Result};
use byway_sys::Wakeup;

/// Signals completions to an event loop, once the program has asked for its descriptor: a polled queue pays nothing.
#[derive(Debug, Default)]
pub(crate) struct Notifier(Option<Wakeup>);

impl Notifier {
    /// There are completions.
    #[inline]
    pub(crate) fn ring(&self) {
        if let Some(wakeup) = &self.0 {
            wakeup.raise();
        }
    }

    /// There are none left.
    #[inline]
    pub(crate) fn clear(&self) {
        if let Some(wakeup) = &self.0 {
            wakeup.lower();
        }
    }

    /// The descriptor; readable at once if there are completions already.
    pub(crate) fn event(&mut self, ringing: bool) -> Result<BorrowedFd<'_>> {
        if self.0.is_none() {
            let made = Wakeup::new();
            self.0 = Some(made.map_err(|cause| Error::kernel("no descriptor for completions", cause))?);
        }
        if ringing {
            self.ring();
        }
        let wakeup = self.0.as_ref();
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
        self.finished.push_back(finished);
        self.notifier.ring();
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
