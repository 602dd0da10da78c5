//! Finished commands that were not taken yet, and the descriptor that tells of them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use byway_core::{Error, ErrorKind, Finished, Result};
use byway_sys::Wakeup;

/// Tells an event loop of completions, once somebody has asked for it: a queue that is polled pays nothing.
#[derive(Debug, Default)]
pub(crate) struct Bell(Option<Wakeup>);

impl Bell {
    /// There are completions.
    #[inline]
    pub(crate) fn ring(&self) {
        if let Some(wakeup) = &self.0 {
            wakeup.raise();
        }
    }

    /// There are none left.
    #[inline]
    pub(crate) fn hush(&self) {
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
    bell: Bell,
}

impl Ready {
    /// Room for `depth` of them.
    pub(crate) fn new(depth: u32) -> Self {
        Self { finished: VecDeque::with_capacity(depth as usize), bell: Bell::default() }
    }

    /// Adds one.
    #[inline]
    pub(crate) fn push(&mut self, finished: Finished) {
        self.finished.push_back(finished);
        self.bell.ring();
    }

    /// Takes the first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Finished> {
        let first = self.finished.pop_front();
        if first.is_none() {
            self.bell.hush();
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
        self.bell.event(!self.finished.is_empty())
    }
}
