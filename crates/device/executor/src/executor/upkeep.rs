//! Upkeep by threads that have nothing to execute (decision 0077).
//!
//! A thread takes the run lock only if that is free, does steps of upkeep for [`QUANTUM_NS`] at most, and leaves. It leaves after the step at
//! hand when another thread waits for the lock, or has a doorbell served.

use byway_sys::time::monotonic_ns;

use super::Executor;
use crate::core::Core;
use crate::parker::PARK_MAX;
use crate::upkeep::Quantum;

/// A quantum ends with the first step behind this: 50 µs.
const QUANTUM_NS: u64 = 50_000;

impl Executor {
    /// Looks whether upkeep is due of a device that was just opened.
    pub(crate) fn begin_upkeep(&self) {
        let _ = self.with_core_as_it_is(|core| self.note_upkeep(core));
    }

    /// Notes whether upkeep is due, under the run lock, after anything that may have changed that.
    #[inline]
    pub(crate) fn note_upkeep(&self, core: &Core) {
        if self.upkeep.is_on() {
            self.upkeep.set_owed(core.subsystem.owes_upkeep());
        }
    }

    /// Whether the device has a thread of its own for upkeep.
    pub(crate) fn has_upkeep_thread(&self) -> bool {
        self.upkeep.has_thread()
    }

    /// Does a quantum of upkeep, if any is due and no other thread has the run lock. For a thread that has nothing to execute.
    #[inline]
    pub(crate) fn keep_up(&self) -> Quantum {
        match self.upkeep.is_owed() && !self.has_failed() {
            true => self.do_quantum(),
            false => Quantum::Nothing,
        }
    }

    #[cold]
    fn do_quantum(&self) -> Quantum {
        if self.core.is_wanted() || self.check_process().is_err() {
            return Quantum::Busy;
        }
        let done = self.core.try_run_as_it_is(|core| self.keep_up_locked(core), |core| core.run_now(self));
        match done {
            None => Quantum::Busy,
            Some(0) => Quantum::Nothing,
            Some(_) => Quantum::Done,
        }
    }

    fn keep_up_locked(&self, core: &mut Core) -> u64 {
        let since_ns = monotonic_ns();
        let is_over = || self.core.is_wanted() || monotonic_ns().saturating_sub(since_ns) >= QUANTUM_NS;
        let steps = core.subsystem.keep_up(is_over);
        if steps == 0 {
            // Whatever is owed cannot be done now. The next holder of the lock looks again.
            self.upkeep.set_owed(false);
            return 0;
        }
        core.subsystem.count_upkeep(monotonic_ns().saturating_sub(since_ns));
        self.note_upkeep(core);
        steps
    }

    /// Does upkeep for as long as any is due, and no doorbell waits: for a thread of the device that is about to park.
    pub(crate) fn keep_up_until_rung(&self, stops: impl Fn() -> bool) {
        while !stops() && !self.doorbells.is_dirty() && self.keep_up() != Quantum::Nothing {}
    }

    /// Does all upkeep that is due, then parks: what the device's own thread for it repeats.
    pub(crate) fn keep_up_and_park(&self, stops: impl Fn() -> bool) {
        while !stops() {
            match self.keep_up() {
                Quantum::Nothing => break,
                Quantum::Busy => std::thread::yield_now(),
                Quantum::Done => {}
            }
        }
        self.upkeep.parker().park(PARK_MAX, || stops() || self.upkeep.is_owed());
    }
}
