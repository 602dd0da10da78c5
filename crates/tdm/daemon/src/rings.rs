//! Places for rings in a slice: all of one length, so that none is ever lost between others.

use byway_tdm_engine::log::RingPlace;

/// The shortest ring that is worth it.
pub const RING_MIN_BYTES: u64 = 64 << 10;

/// Which places of a slice are taken.
#[derive(Debug)]
pub(crate) struct Rings {
    ring_bytes: u64,
    /// How many rings are in each place: several from an earlier time, if those were shorter.
    taken: Vec<u32>,
}

impl Rings {
    /// Of a slice of `slice_bytes`, with rings of about `wanted_bytes` each, and at least eight of them if that can be.
    pub(crate) fn new(slice_bytes: u64, wanted_bytes: u64) -> Self {
        let ring_bytes = wanted_bytes.min(slice_bytes / 8).max(RING_MIN_BYTES) / 4096 * 4096;
        Self { ring_bytes, taken: vec![0; (slice_bytes / ring_bytes) as usize] }
    }

    /// Takes a place, for a use of its own.
    pub(crate) fn take(&mut self, identity: u64) -> Option<RingPlace> {
        let free = self.taken.iter().position(|taken| *taken == 0)?;
        self.taken[free] = 1;
        Some(RingPlace { at: free as u64 * self.ring_bytes, len_bytes: self.ring_bytes, identity })
    }

    /// Takes places one behind the other, for a file of so many bytes that is about to have `ahead_bytes` more: for these or twice as many if that can be, and
    /// no more than half of all but for one that needs them.
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

    /// Marks a place from an earlier time as taken. Rings of another length then take each place that they touch.
    pub(crate) fn mark(&mut self, ring: RingPlace) {
        self.touched(ring).iter_mut().for_each(|taken| *taken += 1);
    }

    /// Gives a place back.
    pub(crate) fn give_back(&mut self, ring: RingPlace) {
        self.touched(ring).iter_mut().for_each(|taken| *taken = taken.saturating_sub(1));
    }

    /// The places that a ring touches, wherever somebody says that it is.
    fn touched(&mut self, ring: RingPlace) -> &mut [u32] {
        let end = ring.at.saturating_add(ring.len_bytes).div_ceil(self.ring_bytes);
        let end = end.min(self.taken.len() as u64);
        let first = (ring.at / self.ring_bytes).min(end);
        &mut self.taken[first as usize..end as usize]
    }

    /// Places, and how many of them are taken.
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.taken.len(), self.taken.iter().filter(|taken| **taken > 0).count())
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
        let long = rings.take_run(200 << 10, 0, 2).unwrap();
        assert_eq!((long.at, long.len_bytes), (128 << 10, 512 << 10));
        assert_eq!(rings.take_run(512 << 10, 0, 3), None);
        rings.give_back(long);
        rings.give_back(short);
        assert_eq!(rings.places(), (8, 0));
    }

    #[test]
    fn a_file_that_grows_fast_has_room_ahead_as_far_as_half_of_all_is_free() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        let fast = rings.take_run(64 << 10, 100 << 10, 1).unwrap();
        assert_eq!(fast.len_bytes, 256 << 10);
        rings.give_back(fast);
        let faster = rings.take_run(64 << 10, u64::MAX, 1).unwrap();
        assert_eq!(faster.len_bytes, 512 << 10);
        // Where the rest lies apart it has twice its size.
        let between = rings.take(2).unwrap();
        assert_eq!(between.at, 512 << 10);
        assert_eq!(rings.take_run(64 << 10, 400 << 10, 3).unwrap().len_bytes, 128 << 10);
    }

    #[test]
    fn rings_from_earlier_are_not_given() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        rings.mark(RingPlace { at: 100 << 10, len_bytes: 64 << 10, identity: 0 });
        assert_eq!(rings.take(1).unwrap().at, 256 << 10);
    }

    #[test]
    fn a_place_of_several_rings_from_earlier_is_given_when_the_last_of_them_is_back() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        let [first, second] = [0, 64].map(|at| RingPlace { at: at << 10, len_bytes: 64 << 10, identity: 0 });
        [first, second].into_iter().for_each(|ring| rings.mark(ring));
        rings.give_back(first);
        assert_eq!(rings.take(1).unwrap().at, 128 << 10);
        rings.give_back(second);
        assert_eq!(rings.take(2).unwrap().at, 0);
    }

    #[test]
    fn a_ring_from_earlier_that_touches_several_places_gives_all_of_them_back() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        let long = RingPlace { at: 0, len_bytes: 512 << 10, identity: 0 };
        rings.mark(long);
        assert_eq!(rings.places(), (8, 4));
        rings.give_back(long);
        assert_eq!(rings.places(), (8, 0));
    }

    #[test]
    fn a_ring_that_a_user_says_is_somewhere_else_takes_no_more_than_there_is() {
        let mut rings = Rings::new(1 << 20, 1 << 30);
        rings.mark(RingPlace { at: 4096, len_bytes: u64::MAX, identity: 0 });
        rings.mark(RingPlace { at: u64::MAX, len_bytes: 1, identity: 0 });
        assert_eq!(rings.places(), (8, 8));
    }
}
