//! How a side that waits for another does it: by looking, by sleeping, or by first the one and then the other.
//!
//! A sleeper takes tens of microseconds to wake, in a virtual machine a hundred. Two sides that answer each other in a tenth of
//! that and look for less each put the other to sleep: every answer comes one wake-up after whoever waits for it gave up
//! looking, and so for ever. So a sleep that a little more looking would have spared makes the next look longer, and a long
//! one makes it short again (as KVM does before it halts a processor).

/// What a side does while nothing comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// It looks for a little while, then sleeps. Over vfio-user each doorbell is a message, but for those that doorbell buffers
    /// save.
    #[default]
    Adaptive,
    /// It sleeps at once; over vfio-user the same as adaptive.
    Sleep,
    /// It looks without end, and keeps a processor busy for as long as the other side is there. Over vfio-user clients map
    /// doorbells and write them without a message.
    Poll,
}

/// What to do next while nothing comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Look again.
    Look,
    /// The same, once others have had the processor: the one that is waited for may be among them.
    Yield,
    /// Sleep.
    Sleep,
}

/// How long a side looks before it sleeps.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    idle: Idle,
    window_ns: u64,
}

/// How long it looks at first: several answers over a network of one machine, and without giving way to others.
const LEAST_NS: u64 = 50_000;

/// How long it looks at most: several wake-ups of a virtual machine's processor.
const MOST_NS: u64 = 400_000;

impl Patience {
    /// Of a side that waits so.
    #[must_use]
    pub fn new(idle: Idle) -> Self {
        Self { idle, window_ns: LEAST_NS }
    }

    /// What to do where nothing has come for so long.
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

    /// Something came after a sleep of so long.
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
    fn a_short_sleep_lengthens_the_look_and_a_long_one_shortens_it() {
        let mut patience = Patience::new(Idle::Adaptive);
        assert_eq!(patience.next(LEAST_NS - 1), Next::Look);
        assert_eq!(patience.next(LEAST_NS), Next::Sleep);
        patience.slept(100_000);
        assert_eq!(patience.next(LEAST_NS), Next::Yield);
        (0..10).for_each(|_| patience.slept(100_000));
        assert_eq!(patience.next(MOST_NS - 1), Next::Yield);
        assert_eq!(patience.next(MOST_NS), Next::Sleep);
        patience.slept(MOST_NS);
        assert_eq!(patience.next(LEAST_NS), Next::Sleep);
    }

    #[test]
    fn who_sleeps_at_once_never_looks_and_who_polls_never_sleeps() {
        assert_eq!(Patience::new(Idle::Sleep).next(0), Next::Sleep);
        assert_eq!(Patience::new(Idle::Poll).next(0), Next::Look);
        assert_eq!(Patience::new(Idle::Poll).next(u64::MAX), Next::Yield);
    }
}
