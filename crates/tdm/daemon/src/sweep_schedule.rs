//! Schedule of sweeps, by their cost.

use std::time::Duration;

use byway_sys::time::{monotonic_ns, thread_ns};

/// Least interval of sweeps, in multiples of the last one's processor time; see also [`LEAST`].
const RARELY: u32 = 100;
const LEAST: Duration = Duration::from_secs(1);

/// Longest time that a closed, barred file waits, by the policy's clock.
const SELDOM: Duration = Duration::from_secs(60);

/// Schedule of sweeps.
#[derive(Debug, Default)]
pub(crate) struct SweepSchedule {
    /// Next sweep, in ns of the monotonic clock.
    again_ns: u64,
    /// Next sweep for barred files.
    barred_again_ns: u64,
}

impl SweepSchedule {
    pub(crate) fn is_due(&self) -> bool {
        monotonic_ns() >= self.again_ns
    }

    /// Runs a sweep and measures its processor time. Waiting for a processor does not count: the table may be filling.
    pub(crate) fn run(&mut self, sweep: impl FnOnce()) {
        let began_ns = thread_ns();
        sweep();
        let cost = Duration::from_nanos(thread_ns() - began_ns);
        self.again_ns = monotonic_ns() + (cost * RARELY).max(LEAST).as_nanos() as u64;
    }

    /// Whether barred files are to be checked now; if so the next check is 60 s later. `now_ns` is by the policy's clock.
    pub(crate) const fn take_barred_turn(&mut self, now_ns: u64) -> bool {
        if now_ns < self.barred_again_ns {
            return false;
        }
        self.barred_again_ns = now_ns + SELDOM.as_nanos() as u64;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_in_a_sweep_does_not_delay_the_next() {
        let mut schedule = SweepSchedule::default();
        schedule.run(|| std::thread::sleep(LEAST / 10));
        assert!(schedule.again_ns <= monotonic_ns() + LEAST.as_nanos() as u64);
    }

    #[test]
    fn sweep_delays_the_next_by_100_times_its_processor_time() {
        let (mut schedule, began_ns) = (SweepSchedule::default(), monotonic_ns());
        schedule.run(|| {
            let end_ns = thread_ns() + 2 * LEAST.as_nanos() as u64 / u64::from(RARELY);
            while thread_ns() < end_ns {}
        });
        assert!(schedule.again_ns >= began_ns + 2 * LEAST.as_nanos() as u64);
    }
}
