//! How long a server looks for more before it sleeps.
//!
//! A guest that is busy rings again soon, and a message that wakes a sleeping thread costs it more than the looking costs the
//! server. A guest that is not busy would have a processor kept for nothing. So a server looks for as long as that has
//! paid: not at all at first; once a sleep was so short that looking would have spared it, for a while; and not any more
//! once a look was in vain (as KVM's halt polling does it).

use std::time::{Duration, Instant};

/// How long is looked at most after the last work: about what a sleep and a wake-up take.
const LONGEST: Duration = Duration::from_micros(50);

/// The pause between work and sleep.
#[derive(Debug, Default)]
pub struct Pause {
    looks: bool,
    asleep_since: Option<Instant>,
}

impl Pause {
    /// For how long to look after the last work; `None` to sleep at once.
    pub fn length(&self) -> Option<Duration> {
        self.looks.then_some(LONGEST)
    }

    /// So long was looked in vain.
    pub fn found_nothing(&mut self) {
        self.looks = false;
    }

    /// The server goes to sleep now.
    pub fn sleeps(&mut self) {
        self.asleep_since = Some(Instant::now());
    }

    /// It was woken by work.
    pub fn was_woken(&mut self) {
        self.looks |= self.asleep_since.take().is_some_and(|since| since.elapsed() < LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_once_a_sleep_was_short_and_until_it_looked_in_vain() {
        let mut pause = Pause::default();
        assert_eq!(pause.length(), None);
        pause.asleep_since = Some(Instant::now() - 2 * LONGEST);
        pause.was_woken();
        assert_eq!(pause.length(), None);
        // A time that has yet to come is no time at all.
        pause.asleep_since = Some(Instant::now() + LONGEST);
        pause.was_woken();
        assert_eq!(pause.length(), Some(LONGEST));
        pause.found_nothing();
        assert_eq!(pause.length(), None);
    }
}
