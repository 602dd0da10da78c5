//! Whose turn it is to run a device.
//!
//! One thread runs a device at a time. A caller that finds it running leaves a mark and goes; the runner sees the
//! mark before it can leave, and runs again for that caller. Nobody waits.
//!
//! ```text
//! doorbells.store(index, tail);
//! if !turn.try_enter() {
//!     doorbells.mark(index);
//!     if !turn.enter() { return }      // the runner has our mark
//! }
//! loop {
//!     run_the_device();                // takes the marks of the doorbells
//!     if turn.leave() { break }
//! }
//! ```
//!
//! The turn guards no data: what a runner may touch is kept by its owner, whose lock is never contended inside a
//! turn. A runner that panics fails the turn: nobody gets it any more, and who asks is told. The device stands still,
//! which is what a device with an unknown state should do.

use crate::sync::{AtomicU8, Ordering, pause};

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
/// Running, and somebody came since.
const AGAIN: u8 = 2;
/// Nobody gets it any more.
const FAILED: u8 = 3;

/// The turn to run one device.
#[derive(Debug)]
pub struct Turn {
    state: AtomicU8,
}

impl Turn {
    /// A turn that nobody has.
    pub fn new() -> Self {
        Self { state: AtomicU8::new(IDLE) }
    }

    /// Takes the turn if nobody has it, and leaves no mark otherwise. One atomic operation.
    ///
    /// Acquire: what the last runner did is seen.
    #[inline]
    pub fn try_enter(&self) -> bool {
        self.state.compare_exchange(IDLE, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Waits for the turn, and leaves no mark. For turns that are held for short. Says whether the caller has it, which
    /// is not where it [failed](Turn::fail).
    ///
    /// Acquire, as [`Turn::try_enter`].
    #[inline]
    #[must_use]
    pub fn wait(&self) -> bool {
        let mut round = 0;
        // The look first: a locked operation takes the word from whoever has the turn. The model checker would let it see
        // an old value for ever.
        while !cfg!(loom) && self.is_running() || !self.try_enter() {
            if self.has_failed() {
                return false;
            }
            pause(round);
            round = round.saturating_add(1);
        }
        true
    }

    /// Takes the turn, or leaves a mark for the runner, which then runs again: everything the caller did before is
    /// seen by that run. Returns whether the caller has the turn and must run. Of a turn that failed, nothing comes.
    #[inline]
    pub fn enter(&self) -> bool {
        let mut seen = IDLE;
        loop {
            let next = match seen {
                IDLE => RUNNING,
                FAILED => return false,
                _ => AGAIN,
            };
            // Also where the mark is set already: the exchange puts the caller's writes before the runner's look.
            match self.state.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return next == RUNNING,
                Err(now) => seen = now,
            }
        }
    }

    /// Gives the turn back, unless somebody came since: then the mark is taken and the runner must run again.
    /// Returns whether the turn was given back.
    ///
    /// Release on the way out: the next runner sees this one's work. Acquire with a mark: the run that follows sees
    /// what the caller did before it.
    #[inline]
    pub fn leave(&self) -> bool {
        if self.state.compare_exchange(RUNNING, IDLE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return true;
        }
        // Callers can only set the mark again, which this run then covers too; or the turn failed meanwhile.
        self.state.compare_exchange(AGAIN, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_err()
    }

    /// Nobody gets the turn any more; who has it keeps it until it leaves.
    pub fn fail(&self) {
        self.state.store(FAILED, Ordering::Release);
    }

    /// Whether nobody gets the turn any more.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FAILED
    }

    /// Whether somebody has the turn now.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.state.load(Ordering::Relaxed) != IDLE
    }
}

impl Default for Turn {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_finds_the_device_running_makes_the_runner_run_again() {
        let turn = Turn::new();
        assert!(turn.enter());
        assert!(!turn.enter());
        assert!(!turn.enter());
        assert!(!turn.leave(), "somebody came");
        assert!(turn.leave(), "nobody came since");
        assert!(turn.try_enter());
    }

    #[test]
    fn a_try_leaves_no_mark() {
        let turn = Turn::new();
        assert!(turn.try_enter());
        assert!(!turn.try_enter());
        assert!(turn.leave());
        assert!(!turn.is_running());
    }

    #[test]
    fn nobody_gets_a_turn_that_failed_nor_waits_for_it() {
        let turn = Turn::new();
        assert!(turn.enter());
        assert!(!turn.enter());
        turn.fail();
        assert!(turn.leave(), "there is nothing to run again for");
        assert!(!turn.try_enter() && !turn.enter() && !turn.wait());
        assert!(turn.has_failed());
    }
}
