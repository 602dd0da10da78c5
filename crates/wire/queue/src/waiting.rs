//! What one thread has done and another has yet to take in, as readers on any thread look for it.

use crate::sync::{AtomicU64, Ordering};

/// A queue of numbers with one writer, one taker and any readers: at most `N` numbers wait in it.
///
/// The taker makes a number known elsewhere (flips an entry of a map) and then notes that it is taken in. A reader that finds no number
/// here loads what is elsewhere afterwards: it then sees every number that was published before it looked.
#[derive(Debug)]
pub struct Waiting<const N: usize> {
    /// Numbers that were published and that were taken in, since the beginning.
    published: AtomicU64,
    taken_in: AtomicU64,
    /// Number `n`, counted as in `published`, is at place `n` modulo the length.
    numbers: [AtomicU64; N],
}

impl<const N: usize> Default for Waiting<N> {
    fn default() -> Self {
        let numbers = std::array::from_fn(|_| AtomicU64::new(0));
        Self { published: AtomicU64::new(0), taken_in: AtomicU64::new(0), numbers }
    }
}

impl<const N: usize> Waiting<N> {
    /// Publishes a number. Called by the writer alone, while fewer than `N` wait, of which it knows by the taker.
    #[inline]
    pub fn publish(&self, number: u64) {
        let published = self.published.load(Ordering::Relaxed);
        if let Some(place) = self.numbers.get(published as usize % N.max(1)) {
            // Releases what the writer knows to be taken in: a reader that finds this number in place of an older one sees that elsewhere.
            place.store(number, Ordering::Release);
        }
        self.published.store(published + 1, Ordering::Release);
    }

    /// Notes that the oldest `count` are taken in. Called by the taker alone.
    #[inline]
    pub fn note_taken_in(&self, count: u64) {
        let taken_in = self.taken_in.load(Ordering::Relaxed);
        self.taken_in.store(taken_in + count, Ordering::Release);
    }

    /// Whether one of the `count` numbers from `first` on waits.
    #[inline]
    pub fn has_any(&self, first: u64, count: u64) -> bool {
        let published = self.published.load(Ordering::Acquire);
        // It may be ahead of the other by now: then none of those waits.
        let taken_in = self.taken_in.load(Ordering::Acquire);
        let waiting = published.saturating_sub(taken_in).min(N as u64);
        (published - waiting..published).any(|at| {
            let place = self.numbers.get(at as usize % N.max(1));
            place.is_some_and(|number| number.load(Ordering::Acquire).wrapping_sub(first) < count)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_wait_from_their_publication_until_they_are_taken_in() {
        let waiting = Waiting::<4>::default();
        assert!(!waiting.has_any(0, u64::MAX));
        for number in 10..14 {
            waiting.publish(number);
        }
        assert!(
            waiting.has_any(13, 1)
                && waiting.has_any(8, 3)
                && !waiting.has_any(14, 9)
                && !waiting.has_any(0, 10)
        );
        waiting.note_taken_in(3);
        assert!(!waiting.has_any(10, 3) && waiting.has_any(13, 1));
        (20..23).for_each(|number| waiting.publish(number));
        waiting.note_taken_in(2);
        assert!(!waiting.has_any(13, 1) && !waiting.has_any(20, 1) && waiting.has_any(22, 1));
    }
}
