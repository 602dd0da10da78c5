//! Connections of a thread whose hosts are connected to nothing, not yet or not any more: where there are too many, the oldest goes.
//!
//! Who comes to connect does it at once, so that nobody is kept out by those who only hold a connection, however many they are.

use std::collections::VecDeque;

/// Most of a target, as far as each thread has room for a few.
const STRANGERS_MAX: usize = 256;
const OF_THREAD_MIN: usize = 32;

/// A connection: its seat, and which of all that had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger {
    /// The seat.
    pub at: usize,
    /// The connection's number.
    pub number: u64,
}

/// Such connections, the oldest first, and some that are none any more.
#[derive(Debug)]
pub struct Strangers {
    list: VecDeque<Stranger>,
    max: usize,
}

impl Strangers {
    /// None yet, of one of so many threads.
    pub fn new(threads: usize) -> Self {
        let max = (STRANGERS_MAX / threads.max(1)).max(OF_THREAD_MIN);
        Self { list: VecDeque::new(), max }
    }

    /// Adds one; who has to go for it.
    pub fn add(&mut self, new: Stranger, is_one: impl Fn(&Stranger) -> bool) -> Option<Stranger> {
        self.list.push_back(new);
        if self.list.len() <= self.max {
            return None;
        }
        self.list.retain(is_one);
        if self.list.len() > self.max { self.list.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_and_who_is_connected_does_not_count() {
        let mut strangers = Strangers::new(1);
        let one = |number| Stranger { at: number as usize % 7, number };
        for number in 0..STRANGERS_MAX as u64 {
            assert_eq!(strangers.add(one(number), |_| true), None);
        }
        assert_eq!(strangers.add(one(1000), |_| true), Some(one(0)));
        // All but one of them have connected since.
        assert_eq!(strangers.add(one(1001), |stranger| stranger.number == 9), None);
        assert_eq!(Strangers::new(64).max, OF_THREAD_MIN);
    }
}
