//! Data that all connections of a target hold together: asked for and not executed, or made and not taken.
//!
//! Ordering: the sum is a measure and guards nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// So much each connection may hold at any time, and is not counted.
pub const FREE_BYTES: usize = 64 << 10;

/// What connections share.
#[derive(Debug, Clone)]
pub struct Shared {
    held_bytes: Arc<AtomicUsize>,
    max_bytes: usize,
}

/// What one of them has of it, for one purpose.
#[derive(Debug)]
pub struct Share {
    of: Shared,
    bytes: usize,
}

impl Shared {
    /// At most so much of it.
    pub fn new(max_bytes: usize) -> Self {
        Self { held_bytes: Arc::default(), max_bytes }
    }

    /// Nothing of it, yet.
    pub fn share(&self) -> Share {
        Share { of: self.clone(), bytes: 0 }
    }
}

impl Share {
    /// Takes so much more; whether there was as much.
    pub fn take(&mut self, bytes: usize) -> bool {
        let before = self.of.held_bytes.fetch_add(bytes, Relaxed);
        let is_there = before.saturating_add(bytes) <= self.of.max_bytes;
        match is_there {
            true => self.bytes += bytes,
            false => drop(self.of.held_bytes.fetch_sub(bytes, Relaxed)),
        }
        is_there
    }

    /// Gives so much back, as far as it has it.
    pub fn give(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.of.held_bytes.fetch_sub(bytes, Relaxed);
        self.bytes -= bytes;
    }

    /// Gives back what is more than that.
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
    fn what_one_gives_back_another_can_take() {
        let shared = Shared::new(100);
        let [mut one, mut other] = [shared.share(), shared.share()];
        assert!(one.take(60) && !other.take(41) && other.take(40));
        one.keep(30);
        assert!(!other.take(31) && other.take(30));
        one.give(1000);
        drop(other);
        assert!(one.take(100) && !one.take(1));
    }
}
