//! Half-open connections of a thread: no Connect has succeeded, or the controller is gone. Beyond a limit the oldest is closed.
//!
//! A real host sends its Connect at once, so idle connections cannot exhaust the connection limit.

use std::collections::VecDeque;

/// Half-open connections of a target, at most; each thread has an equal part, but at least [`PER_THREAD_MIN`].
const HALF_OPEN_MAX: usize = 256;
const PER_THREAD_MIN: usize = 32;

/// A half-open connection: its slot, and its number among all connections of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfOpenConnection {
    /// The slot.
    pub at: usize,
    /// The connection's number; a slot is reused, a number is not.
    pub number: u64,
}

/// Half-open connections, oldest first. Entries that have connected since are removed when the list is full.
#[derive(Debug)]
pub struct HalfOpen {
    list: VecDeque<HalfOpenConnection>,
    max: usize,
}

impl HalfOpen {
    /// The empty list of one of `threads` threads.
    pub fn new(threads: usize) -> Self {
        let max = (HALF_OPEN_MAX / threads.max(1)).max(PER_THREAD_MIN);
        Self { list: VecDeque::new(), max }
    }

    /// Adds a connection. Returns the oldest half-open one if the list is full; `is_one` says whether an entry still is.
    pub fn add(
        &mut self,
        new: HalfOpenConnection,
        is_one: impl Fn(&HalfOpenConnection) -> bool,
    ) -> Option<HalfOpenConnection> {
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
    fn half_open_list_when_full_evicts_the_oldest_and_skips_connected_entries() {
        let mut half_open = HalfOpen::new(1);
        let one = |number| HalfOpenConnection { at: number as usize % 7, number };
        for number in 0..HALF_OPEN_MAX as u64 {
            assert_eq!(half_open.add(one(number), |_| true), None);
        }
        assert_eq!(half_open.add(one(1000), |_| true), Some(one(0)));
        // All but one of them have connected since.
        assert_eq!(half_open.add(one(1001), |stranger| stranger.number == 9), None);
        assert_eq!(HalfOpen::new(64).max, PER_THREAD_MIN);
    }
}
