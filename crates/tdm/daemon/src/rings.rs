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

    /// Takes places one behind the other, for a file of so many bytes: twice as many if that can be, and no more than half of all.
    pub(crate) fn take_run(&mut self, least_bytes: u64, identity: u64) -> Option<RingPlace> {
        let wanted = least_bytes.saturating_mul(2).div_ceil(self.ring_bytes).max(1) as usize;
        let most = (self.taken.len() / 2).max(1);
        let least = least_bytes.div_ceil(self.ring_bytes).max(1) as usize;
        let count = wanted.min(most).max(least);
        let first = self.taken.windows(count).position(|run| run.iter().all(|taken| !taken))?;
        self.taken[first..first + count].fill(true);
        let (at, len_bytes) = (first as u64 * self.ring_bytes, count as u64 * self.ring_bytes);
        Some(RingPlace { at, len_bytes, identity })
    }

    /// Marks a place from an earlier time as taken. Rings of another length then take each place that they touch.
    pub(crate) fn mark(&mut self, ring: RingPlace) {
        self.set(ring, true);
    }

    /// Gives a place back.
    pub(crate) fn give_back(&mut self, ring: RingPlace) {
        self.set(ring, false);
    }

    fn set(&mut self, ring: RingPlace, is_taken: bool) {
        let (first, end) = (ring.at / self.ring_bytes, (ring.at + ring.len_bytes).div_ceil(self.ring_bytes));
        for place in first..end {
            if let Some(taken) = self.taken.get_mut(place as usize) {
                *taken = is_taken;
            }
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
    fn a_long_file_has_places_one_behind_the_other_and_gives_all_of_them_back() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        let short = rings.take(1).unwrap();
        let long = rings.take_run(200 << 10, 2).unwrap();
        assert_eq!((long.at, long.len_bytes), (128 << 10, 512 << 10));
        assert_eq!(rings.take_run(512 << 10, 3), None);
        rings.give_back(long);
        rings.give_back(short);
        assert_eq!(rings.places(), (8, 0));
    }

    #[test]
    fn rings_from_earlier_are_not_given() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        rings.mark(RingPlace { at: 100 << 10, len_bytes: 64 << 10, identity: 0 });
        assert_eq!(rings.take(1).unwrap().at, 256 << 10);
    }
}
