//! Modelled time of what a query reads of its object.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// When the reads of a query have ended so far, in modelled picoseconds; 0 where time is not modelled. Computation takes no modelled time.
#[derive(Debug, Clone)]
pub(super) struct ReadTime(Arc<Times>);

#[derive(Debug)]
struct Times {
    ended_ps: AtomicU64,
    has_begun: AtomicBool,
}

impl ReadTime {
    /// Of a query whose command came at `begun_ps`.
    pub fn begun_at(begun_ps: u64) -> Self {
        Self(Arc::new(Times { ended_ps: AtomicU64::new(begun_ps), has_begun: AtomicBool::new(false) }))
    }

    /// When a read begins that a thread comes to at `now_ps`: the first one with the command, each other one behind those before it.
    pub fn begin(&self, now_ps: u64) -> u64 {
        match self.0.has_begun.swap(true, Relaxed) {
            false => self.ended_ps(),
            true => self.ended_ps().max(now_ps),
        }
    }

    /// Notes that a read has ended.
    pub fn note_end(&self, at_ps: u64) {
        self.0.ended_ps.fetch_max(at_ps, Relaxed);
    }

    /// When the last read has ended.
    pub fn ended_ps(&self) -> u64 {
        self.0.ended_ps.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_read_begins_with_the_command_however_late_a_thread_comes() {
        let time = ReadTime::begun_at(100);
        assert_eq!(time.begin(5_000), 100);
        time.note_end(300);
        assert_eq!((time.begin(200), time.begin(5_000), time.ended_ps()), (300, 5_000, 300));
    }
}
