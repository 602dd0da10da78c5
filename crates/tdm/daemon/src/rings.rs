//! Places for rings in a partition, all of one length, so that there is no fragmentation.

use byway_tdm_engine::log::RingPlace;

/// Least bytes of a ring.
pub const RING_MIN_BYTES: u64 = 64 << 10;

/// Allocation of places.
#[derive(Debug)]
pub(crate) struct Rings {
    ring_bytes: u64,
    /// Rings in each place; several of an earlier daemon, if those were shorter.
    taken: Vec<u32>,
}

impl Rings {
    /// Places in a partition of `partition_bytes`, of about `wanted_bytes` each, and at least eight if possible.
    pub(crate) fn new(partition_bytes: u64, wanted_bytes: u64) -> Self {
        let ring_bytes = wanted_bytes.min(partition_bytes / 8).max(RING_MIN_BYTES) / 4096 * 4096;
        Self { ring_bytes, taken: vec![0; (partition_bytes / ring_bytes) as usize] }
    }

    /// Takes a place.
    pub(crate) fn take(&mut self, identity: u64) -> Option<RingPlace> {
        let free = self.taken.iter().position(|taken| *taken == 0)?;
        self.taken[free] = 1;
        Some(RingPlace { at: free as u64 * self.ring_bytes, len_bytes: self.ring_bytes, identity })
    }

    /// Takes adjacent places for a file of `least_bytes` and `ahead_bytes` more: for twice that if possible, and for at most half of all unless it needs more.
    pub(crate) fn take_run(
        &mut self,
        least_bytes: u64,
        ahead_bytes: u64,
        identity: u64,
    ) -> Option<RingPlace> {
        let places = |bytes: u64| bytes.div_ceil(self.ring_bytes).max(1) as usize;
        let least = places(least_bytes);
        let twice = places(least_bytes.saturating_mul(2));
        let most = (self.taken.len() / 2).max(1);
        let ahead = places(least_bytes.saturating_add(ahead_bytes)).clamp(twice, most.max(twice));
        let count = |wanted: usize| wanted.min(most).max(least);
        let free = |count: usize| {
            let run = self.taken.windows(count).position(|run| run.iter().all(|taken| *taken == 0));
            run.map(|first| (first, count))
        };
        let (first, count) = free(count(ahead)).or_else(|| free(count(twice)))?;
        self.taken[first..first + count].fill(1);
        let (at, len_bytes) = (first as u64 * self.ring_bytes, count as u64 * self.ring_bytes);
        Some(RingPlace { at, len_bytes, identity })
    }

    /// Marks a place of an earlier daemon as taken. A ring of another length takes every place that it touches.
    pub(crate) fn mark(&mut self, ring: RingPlace) {
        self.touched(ring).iter_mut().for_each(|taken| *taken += 1);
    }

    /// Frees a place.
    pub(crate) fn give_back(&mut self, ring: RingPlace) {
        self.touched(ring).iter_mut().for_each(|taken| *taken = taken.saturating_sub(1));
    }

    /// The places that a ring touches.
    fn touched(&mut self, ring: RingPlace) -> &mut [u32] {
        let end = ring.at.saturating_add(ring.len_bytes).div_ceil(self.ring_bytes);
        let end = end.min(self.taken.len() as u64);
        let first = (ring.at / self.ring_bytes).min(end);
        &mut self.taken[first as usize..end as usize]
    }

    /// Number of places, and of those taken.
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.taken.len(), self.taken.iter().filter(|taken| **taken > 0).count())
    }

    /// Bytes of a place.
    pub(crate) const fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rings_do_not_overlap_and_are_reused() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        let places: Vec<RingPlace> = std::iter::from_fn(|| rings.take(1)).collect();
        assert_eq!(places.len(), 8);
        assert!(places.windows(2).all(|pair| pair[0].at + pair[0].len_bytes == pair[1].at));
        rings.give_back(places[3]);
        assert_eq!(rings.take(2).unwrap().at, places[3].at);
        assert_eq!(rings.places(), (8, 8));
    }

    #[test]
    fn long_file_takes_adjacent_places_and_frees_all() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        let short = rings.take(1).unwrap();
        let long = rings.take_run(200 << 10, 0, 2).unwrap();
        assert_eq!((long.at, long.len_bytes), (128 << 10, 512 << 10));
        assert_eq!(rings.take_run(512 << 10, 0, 3), None);
        rings.give_back(long);
        rings.give_back(short);
        assert_eq!(rings.places(), (8, 0));
    }

    #[test]
    fn growing_file_gets_room_ahead_up_to_half_of_all() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        let fast = rings.take_run(64 << 10, 100 << 10, 1).unwrap();
        assert_eq!(fast.len_bytes, 256 << 10);
        rings.give_back(fast);
        let faster = rings.take_run(64 << 10, u64::MAX, 1).unwrap();
        assert_eq!(faster.len_bytes, 512 << 10);
        // The free places around it are not adjacent: twice its size does not fit.
        let between = rings.take(2).unwrap();
        assert_eq!(between.at, 512 << 10);
        assert_eq!(rings.take_run(64 << 10, 400 << 10, 3).unwrap().len_bytes, 128 << 10);
    }

    #[test]
    fn marked_rings_are_not_reused() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        rings.mark(RingPlace { at: 100 << 10, len_bytes: 64 << 10, identity: 0 });
        assert_eq!(rings.take(1).unwrap().at, 256 << 10);
    }

    #[test]
    fn place_of_several_marked_rings_is_free_after_the_last() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        let [first, second] = [0, 64].map(|at| RingPlace { at: at << 10, len_bytes: 64 << 10, identity: 0 });
        [first, second].into_iter().for_each(|ring| rings.mark(ring));
        rings.give_back(first);
        assert_eq!(rings.take(1).unwrap().at, 128 << 10);
        rings.give_back(second);
        assert_eq!(rings.take(2).unwrap().at, 0);
    }

    #[test]
    fn marked_ring_over_several_places_frees_all() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        let long = RingPlace { at: 0, len_bytes: 512 << 10, identity: 0 };
        rings.mark(long);
        assert_eq!(rings.places(), (8, 4));
        rings.give_back(long);
        assert_eq!(rings.places(), (8, 0));
    }

    #[test]
    fn ring_outside_the_partition_marks_only_existing_places() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        rings.mark(RingPlace { at: 4096, len_bytes: u64::MAX, identity: 0 });
        rings.mark(RingPlace { at: u64::MAX, len_bytes: 1, identity: 0 });
        assert_eq!(rings.places(), (8, 8));
    }
}
