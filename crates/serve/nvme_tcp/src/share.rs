//! The budget of data buffers of a target's connections: solicited and not executed, or read and not sent.
//!
//! Ordering: relaxed; the sum guards no other memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that each connection may hold without charge to the budget.
pub const FREE_BYTES: usize = 64 << 10;

/// A budget in bytes.
#[derive(Debug, Clone)]
pub struct Budget {
    held_bytes: Arc<AtomicUsize>,
    max_bytes: usize,
}

/// The part of a budget that one connection has taken for one purpose.
#[derive(Debug)]
pub struct Share {
    of: Budget,
    bytes: usize,
}

impl Budget {
    /// A budget of `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self { held_bytes: Arc::default(), max_bytes }
    }

    /// An empty part.
    pub fn share(&self) -> Share {
        Share { of: self.clone(), bytes: 0 }
    }
}

impl Share {
    /// Takes `bytes` more; false if the budget has less left.
    pub fn take(&mut self, bytes: usize) -> bool {
        let before = self.of.held_bytes.fetch_add(bytes, Relaxed);
        let is_there = before.saturating_add(bytes) <= self.of.max_bytes;
        match is_there {
            true => self.bytes += bytes,
            false => drop(self.of.held_bytes.fetch_sub(bytes, Relaxed)),
        }
        is_there
    }

    /// Returns `bytes`, at most what this part holds.
    pub fn give(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.of.held_bytes.fetch_sub(bytes, Relaxed);
        self.bytes -= bytes;
    }

    /// Returns everything beyond `bytes`.
    #[inline]
    pub fn keep(&mut self, bytes: usize) {
        if self.bytes > bytes {
            self.give(self.bytes - bytes);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_returned_by_one_part_is_available_to_another() {
        let shared = Budget::new(100);
        let [mut one, mut other] = [shared.share(), shared.share()];
        assert!(one.take(60) && !other.take(41) && other.take(40));
        one.keep(30);
        assert!(!other.take(31) && other.take(30));
        one.give(1000);
        drop(other);
        assert!(one.take(100) && !one.take(1));
    }
}
