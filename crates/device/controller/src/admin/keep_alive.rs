//! Keep Alive (Base 2.1, sections 3.9 and 5.1.14): a host that is silent too long has lost its controller.

use byway_spec::Status;

use crate::error::CommandError;

/// Granularity of the timer in units of 100 ms (Identify Controller KAS).
pub(super) const GRANULARITY_100MS: u16 = 10;

const PS_PER_MS: u64 = 1_000_000_000;

/// The timer; 0 is off.
#[derive(Debug, Default)]
pub(super) struct KeepAlive {
    timeout_ms: u32,
    deadline_ps: Option<u64>,
    /// The transport keeps the timer: no deadline is set here.
    kept_by_transport: bool,
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

    /// Leaves the timer to the transport.
    pub fn leave_to_transport(&mut self) {
        self.kept_by_transport = true;
    }

    /// The timer after a controller reset. A timeout that Connect set belongs to the connection and stays.
    pub fn after_reset(self) -> Self {
        if self.kept_by_transport { self } else { Self::default() }
    }

    /// When the timer ends.
    #[inline]
    pub fn deadline_ps(&self) -> Option<u64> {
        self.deadline_ps
    }

    /// Starts the timer anew.
    pub fn restart(&mut self, now_ps: u64) {
        let timeout_ps = u64::from(self.timeout_ms) * PS_PER_MS;
        self.deadline_ps =
            (timeout_ps > 0 && !self.kept_by_transport).then(|| now_ps.saturating_add(timeout_ps));
    }

    /// Ends the timer if its deadline has come; whether it has.
    #[inline]
    pub fn take_expired(&mut self, now_ps: u64) -> bool {
        let has_expired = self.deadline_ps.is_some_and(|deadline| deadline <= now_ps);
        if has_expired {
            self.stop();
        }
        has_expired
    }

    /// Stops the timer.
    pub fn stop(&mut self) {
        self.deadline_ps = None;
    }
}
