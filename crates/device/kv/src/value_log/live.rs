//! How many bytes of each segment are alive, and how many keys there are.

use crate::layout::Layout;

/// Which memtable a change of the live counts came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The one being flushed.
    Frozen,
    /// The one being filled.
    Active,
}

/// Bytes of live records in each segment, and the number of keys.
///
/// The manifest keeps what was alive at its checkpoint; a replay of the log adds what came after, by the same steps
/// as the first time. So the counts are kept in three parts: as of the checkpoint, of the memtable being flushed,
/// of the one being filled.
pub(crate) struct Live {
    base: Counts,
    frozen: Counts,
    active: Counts,
    total: i64,
    keys: i64,
}

struct Counts {
    bytes: Vec<i64>,
    keys: i64,
}

impl Live {
    pub(super) fn new(layout: &Layout) -> Self {
        let counts = || Counts { bytes: vec![0; layout.segments], keys: 0 };
        Self { base: counts(), frozen: counts(), active: counts(), total: 0, keys: 0 }
    }

    /// Bytes alive in all segments.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total.max(0) as u64
    }

    /// Keys that have a value, and at the checkpoint.
    pub(crate) fn keys(&self) -> (u64, u64) {
        (self.keys.max(0) as u64, self.base.keys.max(0) as u64)
    }

    /// Bytes alive in a segment at the checkpoint, and now.
    pub(crate) fn of(&self, segment: usize) -> (i64, i64) {
        let base = self.base.bytes[segment];
        (base, base + self.frozen.bytes[segment] + self.active.bytes[segment])
    }

    #[inline]
    pub(super) fn add(&mut self, segment: usize, bytes: i64) {
        if let Some(live) = self.active.bytes.get_mut(segment) {
            *live += bytes;
            self.total += bytes;
        }
    }

    #[inline]
    pub(super) fn add_to(&mut self, part: Part, segment: usize, bytes: i64) {
        let counts = self.part(part);
        if let Some(live) = counts.bytes.get_mut(segment) {
            *live += bytes;
            self.total += bytes;
        }
    }

    /// Counts keys that came or went.
    #[inline]
    pub(crate) fn add_keys(&mut self, part: Part, keys: i64) {
        self.part(part).keys += keys;
        self.keys += keys;
    }

    #[inline]
    fn part(&mut self, part: Part) -> &mut Counts {
        match part {
            Part::Frozen => &mut self.frozen,
            Part::Active => &mut self.active,
        }
    }

    /// Sets the count of the checkpoint.
    pub(crate) fn set_base(&mut self, segment: usize, bytes: u32) {
        self.total += i64::from(bytes) - self.base.bytes[segment];
        self.base.bytes[segment] = i64::from(bytes);
    }

    /// Sets the keys of the checkpoint.
    pub(crate) fn set_base_keys(&mut self, keys: u64) {
        self.keys += keys as i64 - self.base.keys;
        self.base.keys = keys as i64;
    }

    /// Everything was forgotten.
    pub(crate) fn clear(&mut self) {
        for part in [&mut self.base, &mut self.frozen, &mut self.active] {
            part.bytes.fill(0);
            part.keys = 0;
        }
        (self.total, self.keys) = (0, 0);
    }

    /// The memtable froze: what it added is kept separately.
    pub(crate) fn freeze(&mut self) {
        debug_assert!(self.frozen.bytes.iter().all(|live| *live == 0) && self.frozen.keys == 0);
        std::mem::swap(&mut self.frozen, &mut self.active);
    }

    /// The frozen memtable is on flash: what it added belongs to the checkpoint.
    pub(crate) fn settle(&mut self) {
        for (base, frozen) in self.base.bytes.iter_mut().zip(&mut self.frozen.bytes) {
            *base += std::mem::take(frozen);
        }
        self.base.keys += std::mem::take(&mut self.frozen.keys);
    }

    /// Nothing in a segment is alive, whatever was counted.
    pub(crate) fn forget(&mut self, segment: usize) {
        let parts = [&mut self.base, &mut self.frozen, &mut self.active];
        self.total -= parts.into_iter().map(|part| std::mem::take(&mut part.bytes[segment])).sum::<i64>();
    }
}
