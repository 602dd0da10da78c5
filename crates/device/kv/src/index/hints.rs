//! Hints: where the newest record of a key is that is in no memtable, so that a get need not look for it in runs.
//!
//! ```text
//! a hint:  part of the key's hash | address of the record        a bucket: eight of them, one line
//! ```
//!
//! A hint is eight bytes and has no key; the record at its address has, and is compared. A flush leaves a hint of
//! every entry it writes, a get of what it found in a run. A key without one is looked for in the runs: so hints may be
//! dropped at will. But one that is there is of the newest record beside the memtables'. To keep that simple, a new
//! hint takes the place of any in its bucket that looks like it.
//!
//! There are hints while all keys of the runs fit, else none: a few would cost each get a line and help few. The table
//! grows by one bucket at a time, which takes its part of another's (linear hashing), so that no put waits for all of it.

use std::hint::black_box;

use byway_sys::cacheline::prefetch;
use byway_sys::huge::prefer_huge_pages;

/// Hints of a bucket: a cache line.
const BUCKET_HINTS: usize = 8;
/// Hints for each bucket from which on the table grows. Buckets that are split next have up to twice as many as others.
const CROWDED_HINTS: usize = 3;
/// Most hints for each bucket where it cannot grow: one in fifty finds its bucket full then, and takes another's place.
const MOST_HINTS: u64 = 5;
/// Bits of a hash that distinguish the keys of a bucket, at least.
const LEAST_TAG_BITS: u32 = 12;
/// Buckets of the smallest table.
const LEAST_BUCKETS: usize = 64;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket([u64; BUCKET_HINTS]);

const EMPTY: Bucket = Bucket([0; BUCKET_HINTS]);

/// Addresses of records by hash, within a budget.
pub(crate) struct Hints {
    buckets: Vec<Bucket>,
    hints: usize,
    most_buckets: usize,
    /// Bits of the number of a bucket in the smallest table.
    least_bits: u32,
    /// Low bits of a hint that are the address. Those above are its tag.
    address_bits: u32,
}

impl Hints {
    /// Hints of at most `budget_bytes` of RAM for records at addresses below `extent_bytes`; none before
    /// [`fit`](Self::fit) says that they are worth having.
    pub(crate) fn new(extent_bytes: u64, budget_bytes: usize) -> Self {
        let address_bits = u64::BITS - extent_bytes.leading_zeros();
        let most_buckets = budget_bytes / size_of::<Bucket>();
        let spare_bits = (u64::BITS - address_bits).saturating_sub(LEAST_TAG_BITS);
        let most_bits = most_buckets.max(LEAST_BUCKETS).ilog2() + 1;
        let least_bits = most_bits.saturating_sub(spare_bits).max(LEAST_BUCKETS.ilog2());
        Self { buckets: Vec::new(), hints: 0, most_buckets, least_bits, address_bits }
    }

    /// Has hints if so many keys are in runs that all of them fit, else forgets them. Bytes of RAM that they may take.
    pub(crate) fn fit(&mut self, keys: u64) -> usize {
        let is_worth = keys > 0
            && keys <= self.most_buckets as u64 * MOST_HINTS
            && self.most_buckets >= 1 << self.least_bits;
        match (is_worth, self.buckets.is_empty()) {
            (false, _) => (self.buckets, self.hints) = (Vec::new(), 0),
            (true, true) => self.begin(),
            (true, false) => {}
        }
        if self.are_there() { self.most_buckets * size_of::<Bucket>() } else { 0 }
    }

    /// Whether any key may have one.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        !self.buckets.is_empty()
    }

    /// Forgets all hints.
    pub(crate) fn clear(&mut self) {
        if self.are_there() {
            self.begin();
        }
    }

    /// RAM that they take.
    pub(crate) fn ram_bytes(&self) -> usize {
        size_of_val(self.buckets.as_slice())
    }

    /// Where they are in memory, and how many buckets of them there are.
    #[inline]
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.buckets.as_ptr().addr(), self.buckets.len())
    }

    /// Prefetches the bucket of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.bucket_of(hash) {
            prefetch(&self.buckets, bucket);
        }
    }

    /// Brings the buckets of these hashes into the processor's cache.
    #[inline(never)]
    pub(crate) fn touch_each(&self, hashes: &[u64]) {
        let len = self.buckets.len();
        let word = |hash: &u64| Some(self.buckets.get(bucket_of(*hash, len)?)?.0[0]);
        black_box(hashes.iter().fold(0, |sum, hash| sum ^ word(hash).unwrap_or_default()));
    }

    /// The address that is noted for keys of this hash.
    #[inline]
    pub(crate) fn get(&self, hash: u64) -> Option<u64> {
        let Bucket(hints) = self.buckets.get(self.bucket_of(hash)?)?;
        let tag = self.tag_of(hash);
        let found = hints.iter().find(|hint| **hint >> self.address_bits == tag && **hint != 0)?;
        Some(found & ((1 << self.address_bits) - 1))
    }

    /// Notes where the newest record of a key of this hash is.
    pub(crate) fn note(&mut self, hash: u64, address: u64) {
        self.put(hash, self.tag_of(hash) << self.address_bits | address);
        if self.is_crowded() && self.buckets.len() < self.most_buckets {
            self.split_one();
        }
    }

    /// Forgets keys of this hash: the newest record of one of them is a deletion, or not known.
    pub(crate) fn forget(&mut self, hash: u64) {
        self.put(hash, 0);
    }

    fn is_crowded(&self) -> bool {
        self.are_there() && self.hints > self.buckets.len() * CROWDED_HINTS
    }

    fn begin(&mut self) {
        (self.buckets, self.hints) = (Vec::new(), 0);
        // Lookups are right without hints: where there is no memory, there are none.
        if self.buckets.try_reserve_exact(self.most_buckets).is_err() {
            return;
        }
        prefer_huge_pages(self.buckets.spare_capacity_mut());
        self.buckets.resize(1 << self.least_bits, EMPTY);
    }

    /// Puts a hint, 0 for none, in the place of what looks like it.
    fn put(&mut self, hash: u64, hint: u64) {
        let (tag, shift) = (self.tag_of(hash), self.address_bits);
        let Some(Bucket(hints)) = self.bucket_of(hash).and_then(|bucket| self.buckets.get_mut(bucket)) else {
            return;
        };
        let same = hints.iter().position(|held| *held >> shift == tag && *held != 0);
        let free = || hints.iter().position(|held| *held == 0);
        let place = match (same, hint) {
            (None, 0) => return,
            (None, _) => free().unwrap_or(tag as usize % BUCKET_HINTS),
            (Some(same), _) => same,
        };
        let was = std::mem::replace(&mut hints[place], hint);
        self.hints = self.hints + usize::from(hint != 0) - usize::from(was != 0);
    }

    /// Adds a bucket, and moves to it what belongs there of the bucket that shared its hashes so far.
    fn split_one(&mut self) {
        let bits = self.buckets.len().ilog2();
        let from = self.buckets.len() - (1 << bits);
        let bit = self.address_bits + bits - self.least_bits;
        let mut added = EMPTY;
        let Some(Bucket(hints)) = self.buckets.get_mut(from) else { return };
        for (hint, moved) in hints.iter_mut().zip(&mut added.0) {
            if *hint >> bit & 1 == 1 {
                *moved = std::mem::take(hint);
            }
        }
        self.buckets.push(added);
    }

    #[inline]
    fn bucket_of(&self, hash: u64) -> Option<usize> {
        bucket_of(hash, self.buckets.len())
    }

    /// The bits of a hash from those on by which a grown table distinguishes buckets.
    #[inline]
    fn tag_of(&self, hash: u64) -> u64 {
        hash.rotate_right(self.least_bits) & (u64::MAX >> self.address_bits)
    }
}

/// The bucket of a hash among so many: by as many of its low bits as there are buckets for.
#[inline]
pub(crate) fn bucket_of(hash: u64, buckets: usize) -> Option<usize> {
    let half = 1usize << buckets.checked_ilog2()?;
    let bucket = hash as usize & (half | (half - 1));
    Some(if bucket < buckets { bucket } else { bucket - half })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        byway_kit::mix(0, n)
    }

    fn address(n: u64) -> u64 {
        n * 1000 + 1
    }

    #[test]
    fn hints_are_found_while_their_table_grows_and_after() {
        for extent_bytes in [1 << 30, 1 << 47] {
            let mut hints = Hints::new(extent_bytes, 1 << 20);
            assert!(hints.fit(60_000) <= 1 << 20);
            for n in 0..60_000 {
                hints.note(hash(n), address(n));
                assert_eq!(hints.get(hash(n)), Some(address(n)));
            }
            let known = (0..60_000).filter(|n| hints.get(hash(*n)) == Some(address(*n))).count();
            assert!(known > 57_000, "{known} of 60,000");
            assert!(hints.ram_bytes() <= 1 << 20);
        }
    }

    #[test]
    fn the_last_note_of_a_key_counts_and_a_forgotten_one_is_gone() {
        let mut hints = Hints::new(1 << 40, 1 << 16);
        hints.fit(1);
        hints.note(hash(1), 10);
        hints.note(hash(1), 20);
        assert_eq!(hints.get(hash(1)), Some(20));
        hints.forget(hash(1));
        hints.forget(hash(2));
        assert_eq!((hints.get(hash(1)), hints.get(hash(2)), hints.hints), (None, None, 0));
    }

    #[test]
    fn hints_are_dropped_when_not_all_keys_fit() {
        let mut hints = Hints::new(1 << 40, 1 << 16);
        assert_eq!(hints.fit(1000), 1 << 16);
        hints.note(hash(1), 10);
        assert_eq!((hints.fit(1_000_000), hints.ram_bytes(), hints.get(hash(1))), (0, 0, None));
        hints.note(hash(1), 10);
        assert_eq!(hints.get(hash(1)), None);
        assert_eq!(Hints::new(1 << 40, 100).fit(1), 0);
    }
}
