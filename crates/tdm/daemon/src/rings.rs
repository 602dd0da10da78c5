//! Places for rings in a slice: all of one length, so that none is ever lost between others.

use byway_tdm_log::RingPlace;

/// The shortest ring that is worth it.
const RING_MIN_BYTES: u64 = 64 << 10;

/// Which places of a slice are taken.
#[derive(Debug)]
pub(crate) struct Rings {
    ring_bytes: u64,
    taken: Vec<bool>,
}

impl Rings {
    /// Of a slice of `slice_bytes`, with rings of about `wanted_bytes` each, and at least eight of them if that can be.
    pub(crate) fn new(slice_bytes: u64, wanted_bytes: u64) -> Self {
        let ring_bytes = wanted_bytes.min(slice_bytes / 8).max(RING_MIN_BYTES) / 4096 * 4096;
        Self { ring_bytes, taken: vec![false; (slice_bytes / ring_bytes) as usize] }
    }

    /// Takes a place, for a use of its own.
    pub(crate) fn take(&mut self, identity: u64) -> Option<RingPlace> {
        let free = self.taken.iter().position(|taken| !taken)?;
        self.taken[free] = true;
        Some(RingPlace { at: free as u64 * self.ring_bytes, len_bytes: self.ring_bytes, identity })
    }

    /// Marks a place from an earlier time as taken. Rings of another length then take each place that they touch.
    pub(crate) fn mark(&mut self, ring: RingPlace) {
        let (first, end) = (ring.at / self.ring_bytes, (ring.at + ring.len_bytes).div_ceil(self.ring_bytes));
        for place in first..end {
            if let Some(taken) = self.taken.get_mut(place as usize) {
                *taken = true;
            }
        }
    }

    /// Gives a place back.
    pub(crate) fn give_back(&mut self, ring: RingPlace) {
        if let Some(taken) = self.taken.get_mut((ring.at / self.ring_bytes) as usize) {
            *taken = false;
        }
    }

    /// Places, and how many of them are taken.
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.taken.len(), self.taken.iter().filter(|taken| **taken).count())
    }

    /// Bytes of each.
    pub(crate) const fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rings_lie_apart_and_are_given_again() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        let places: Vec<RingPlace> = std::iter::from_fn(|| rings.take(1)).collect();
        assert_eq!(places.len(), 8);
        assert!(places.windows(2).all(|pair| pair[0].at + pair[0].len_bytes == pair[1].at));
        rings.give_back(places[3]);
        assert_eq!(rings.take(2).unwrap().at, places[3].at);
        assert_eq!(rings.places(), (8, 8));
    }

    #[test]
    fn rings_from_earlier_are_not_given() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        rings.mark(RingPlace { at: 100 << 10, len_bytes: 64 << 10, identity: 0 });
        assert_eq!(rings.take(1).unwrap().at, 256 << 10);
    }
}
