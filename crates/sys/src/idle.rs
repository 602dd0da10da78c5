//! Wait strategy: poll, park, or spin then park.
//!
//! A sleeper takes tens of microseconds to wake, in a virtual machine a hundred. Two sides that answer each other in a tenth of
//! that, and spin for less, keep putting each other to sleep: every answer arrives one wake-up after its waiter parked. So a
//! short sleep, which more spinning would have spared, doubles the spin budget, and a long one resets it (as KVM's halt polling
//! does). [`Spin`](crate::Spin) is the same with a fixed length, for waits that are short or that nothing else depends on.

/// What a waiting thread does while nothing arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// Spin for 50 to 400 µs, then park. Over vfio-user each doorbell is a message, but for those that doorbell buffers
    /// save.
    #[default]
    Adaptive,
    /// Park at once; over vfio-user the same as adaptive.
    Sleep,
    /// Poll without end: keeps a processor busy for as long as the peer is connected. Over vfio-user clients map
    /// doorbells and write them without a message.
    Poll,
}

/// What to do next while nothing arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Poll again.
    Look,
    /// Yield the processor, then poll again: the peer may need this processor.
    Yield,
    /// Park.
    Sleep,
}

/// How long a waiting thread spins before it parks.
#[derive(Debug, Clone, Copy)]
pub struct SpinBudget {
    idle: Idle,
    window_ns: u64,
}

/// Least spin: several answers over loopback. A thread does not yield before it.
const LEAST_NS: u64 = 50_000;

/// Longest spin: several wake-ups of a virtual processor.
const MOST_NS: u64 = 400_000;

impl SpinBudget {
    /// A budget for this strategy, at its least.
    #[must_use]
    pub fn new(idle: Idle) -> Self {
        Self { idle, window_ns: LEAST_NS }
    }

    /// What to do after `waited_ns` without an arrival.
    #[must_use]
    #[inline]
    pub fn next(&self, waited_ns: u64) -> Next {
        match self.idle {
            Idle::Sleep => Next::Sleep,
            Idle::Adaptive if waited_ns >= self.window_ns => Next::Sleep,
            _ if waited_ns < LEAST_NS => Next::Look,
            _ => Next::Yield,
        }
    }

    /// Adapts the budget after a sleep of `slept_ns` that an arrival ended.
    pub fn slept(&mut self, slept_ns: u64) {
        self.window_ns = match slept_ns < MOST_NS {
            true => (self.window_ns * 2).min(MOST_NS),
            false => LEAST_NS,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_sleep_lengthens_the_spin_and_a_long_one_resets_it() {
        let mut budget = SpinBudget::new(Idle::Adaptive);
        assert_eq!(budget.next(LEAST_NS - 1), Next::Look);
        assert_eq!(budget.next(LEAST_NS), Next::Sleep);
        budget.slept(100_000);
        assert_eq!(budget.next(LEAST_NS), Next::Yield);
        (0..10).for_each(|_| budget.slept(100_000));
        assert_eq!(budget.next(MOST_NS - 1), Next::Yield);
        assert_eq!(budget.next(MOST_NS), Next::Sleep);
        budget.slept(MOST_NS);
        assert_eq!(budget.next(LEAST_NS), Next::Sleep);
    }

    #[test]
    fn sleep_never_polls_and_poll_never_sleeps() {
        assert_eq!(SpinBudget::new(Idle::Sleep).next(0), Next::Sleep);
        assert_eq!(SpinBudget::new(Idle::Poll).next(0), Next::Look);
        assert_eq!(SpinBudget::new(Idle::Poll).next(u64::MAX), Next::Yield);
    }
}
