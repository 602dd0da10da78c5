//! Modelled time of a device and its host.
//!
//! Off: no time, and nothing is charged. Virtual: the host's time moves when its software is charged for and
//! when it waits for the device; two runs from one seed agree to the picosecond. Paced: modelled time follows the
//! machine's clock, and completions are held back until it has come.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use byway_link::{ClockMode, HostCosts, HostStep, Profile};
use byway_sys::time::monotonic_ns;

/// Modelled time of one device and its host.
#[derive(Debug)]
pub(crate) struct Clock {
    mode: ClockMode,
    costs: HostCosts,
    /// Virtual: the host's time.
    host_ps: AtomicU64,
    /// Paced: when the clock began.
    epoch_ns: u64,
}

impl Clock {
    /// A clock at time 0.
    pub fn new(mode: ClockMode, profile: &Profile) -> Self {
        Self { mode, costs: profile.host, host_ps: AtomicU64::new(0), epoch_ns: monotonic_ns() }
    }

    /// How time is kept.
    #[inline]
    pub fn mode(&self) -> ClockMode {
        if cfg!(byway_without_clock) { ClockMode::Off } else { self.mode }
    }

    /// Modelled time now, in picoseconds; 0 with the clock off.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        match self.mode {
            ClockMode::Off => 0,
            ClockMode::Virtual => self.host_ps.load(Relaxed),
            ClockMode::Paced => (monotonic_ns() - self.epoch_ns) * 1000,
        }
    }

    /// Charges the host `times` steps of its software. Real time passes by itself.
    #[inline]
    pub fn charge(&self, step: HostStep, times: u32) {
        // The exception is for benches/clock.sh alone, which measures what a clock that is off costs.
        if cfg!(not(byway_without_clock)) && self.mode == ClockMode::Virtual {
            self.host_ps.fetch_add(self.costs.ps(step) * u64::from(times), Relaxed);
        }
    }

    /// Moves virtual time on to `at_ps`; never back.
    pub fn advance_to(&self, at_ps: u64) {
        if self.mode == ClockMode::Virtual {
            self.host_ps.fetch_max(at_ps, Relaxed);
        }
    }

    /// Nanoseconds: modelled where time is modelled, else the machine's.
    pub fn now_ns(&self) -> u64 {
        match self.mode {
            ClockMode::Off => monotonic_ns(),
            ClockMode::Virtual | ClockMode::Paced => self.now_ps() / 1000,
        }
    }
}
