//! Keep Alive (Base 2.1, sections 3.9 and 5.1.14): a host that is silent too long has lost its controller.

use byway_spec::Status;
use byway_spec::base::log::ErrorEntry;

use super::Noted;
use crate::controller::Controller;
use crate::error::{CommandError, NO_LOCATION};
use crate::namespace::Outcome;

/// Granularity of the timer in units of 100 ms (Identify Controller KAS).
pub(super) const GRANULARITY_100MS: u16 = 10;

const PS_PER_MS: u64 = 1_000_000_000;

/// The timer; 0 is off.
#[derive(Debug, Default)]
pub(super) struct KeepAlive {
    timeout_ms: u32,
    deadline_ps: Option<u64>,
    /// Somebody else keeps the time.
    kept_elsewhere: bool,
}

impl KeepAlive {
    /// Sets the timeout, rounded up to the granularity, and starts the timer.
    pub fn set(&mut self, timeout_ms: u32, now_ps: u64) -> Result<(), CommandError> {
        let step_ms = u32::from(GRANULARITY_100MS) * 100;
        let rounded = timeout_ms.div_ceil(step_ms).checked_mul(step_ms);
        self.timeout_ms = rounded
            .ok_or(CommandError::new(Status::KEEP_ALIVE_INVALID, "keep alive timeout out of range"))?;
        self.restart(now_ps);
        Ok(())
    }

    /// The timeout in milliseconds, 0 if the timer is off.
    pub fn timeout_ms(&self) -> u32 {
        self.timeout_ms
    }

    /// The timer is kept elsewhere: no deadline comes here.
    pub fn mind_not(&mut self) {
        self.kept_elsewhere = true;
    }

    /// What a controller reset leaves: a timeout that Connect gave is the connection's, and stays.
    pub fn after_reset(self) -> Self {
        if self.kept_elsewhere { self } else { Self::default() }
    }

    /// When the timer ends.
    #[inline]
    pub fn deadline_ps(&self) -> Option<u64> {
        self.deadline_ps
    }

    fn restart(&mut self, now_ps: u64) {
        let timeout_ps = u64::from(self.timeout_ms) * PS_PER_MS;
        self.deadline_ps =
            (timeout_ps > 0 && !self.kept_elsewhere).then(|| now_ps.saturating_add(timeout_ps));
    }
}

impl Controller {
    /// The command.
    pub(super) fn keep_alive(&mut self) -> Result<Outcome, CommandError> {
        self.admin.keep_alive.restart(self.admin.now_ps);
        Ok(Outcome::OK)
    }

    /// Stops the controller if the host has been silent too long.
    #[inline]
    pub(super) fn mind_keep_alive(&mut self, now_ps: u64) {
        if self.admin.keep_alive.deadline_ps.is_some_and(|deadline| deadline <= now_ps) {
            self.keep_alive_expired();
        }
    }

    pub(crate) fn keep_alive_expired(&mut self) {
        self.admin.keep_alive.deadline_ps = None;
        let entry = ErrorEntry {
            sqid: 0xffff,
            cid: 0xffff,
            phase_and_status: Status::KEEP_ALIVE_EXPIRED.0 << 1,
            parameter: NO_LOCATION,
            ..ErrorEntry::default()
        };
        let words = "the host said nothing within its keep alive time";
        self.admin.errors.add(Noted { entry, words });
        self.fail();
    }
}
