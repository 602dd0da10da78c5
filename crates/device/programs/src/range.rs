//! Memory ranges: what a program may access, and sets of them that hosts keep under an identifier.

use std::collections::BTreeMap;
use std::sync::Arc;

use byway_spec::programs::MemoryRangeDescriptor;

use crate::memory::Memory;
use crate::refusal::Refusal;

/// Bounds of ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeLimits {
    /// Most ranges of one set, or of one execution without a set.
    pub ranges_max: u8,
    /// Most sets.
    pub sets_max: u16,
}

impl Default for RangeLimits {
    /// 64 ranges, 256 sets.
    fn default() -> Self {
        Self { ranges_max: 64, sets_max: 256 }
    }
}

/// One range of one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryRange {
    // In this order for sorting.
    namespace: u32,
    start: u64,
    length_bytes: u32,
}

impl MemoryRange {
    /// Its length in bytes.
    #[must_use]
    pub const fn length_bytes(&self) -> u32 {
        self.length_bytes
    }

    /// Its memory.
    #[must_use]
    pub const fn namespace(&self) -> u32 {
        self.namespace
    }

    const fn end(&self) -> u64 {
        self.start.saturating_add(self.length_bytes as u64)
    }

    fn parse(descriptor: &MemoryRangeDescriptor, size_bytes: Option<u64>) -> Result<Self, Refusal> {
        let size_bytes = size_bytes.ok_or(Refusal::InvalidMemoryNamespace)?;
        let MemoryRangeDescriptor { nsid, length_bytes, start, .. } = *descriptor;
        let range = Self { namespace: nsid, start, length_bytes };
        let is_inside =
            length_bytes > 0 && start.checked_add(length_bytes.into()).is_some_and(|end| end <= size_bytes);
        if is_inside { Ok(range) } else { Err(Refusal::InvalidMemoryRangeSet) }
    }
}

/// Ranges that lie in their memories and do not overlap: what one program sees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranges {
    ranges: Vec<MemoryRange>,
    /// Indexes of `ranges`, by namespace and start.
    by_start: Vec<usize>,
}

impl Ranges {
    /// Checks ranges of a host. `size_of` gives the size of a memory in bytes, or `None` if the namespace is no memory.
    ///
    /// # Errors
    /// [`Refusal::TooManyRanges`], [`Refusal::InvalidMemoryNamespace`], [`Refusal::InvalidMemoryRangeSet`] and
    /// [`Refusal::OverlappingRanges`].
    pub fn check(
        descriptors: &[MemoryRangeDescriptor],
        limits: &RangeLimits,
        size_of: impl Fn(u32) -> Option<u64>,
    ) -> Result<Self, Refusal> {
        if descriptors.len() > limits.ranges_max.into() {
            return Err(Refusal::TooManyRanges);
        }
        let parse =
            |descriptor: &MemoryRangeDescriptor| MemoryRange::parse(descriptor, size_of(descriptor.nsid));
        let ranges = descriptors.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let mut by_start: Vec<usize> = (0..ranges.len()).collect();
        by_start.sort_unstable_by_key(|&index| ranges[index]);
        let overlap = |pair: &[usize]| {
            let (first, second) = (ranges[pair[0]], ranges[pair[1]]);
            first.namespace == second.namespace && second.start < first.end()
        };
        if by_start.windows(2).any(overlap) {
            return Err(Refusal::OverlappingRanges);
        }
        Ok(Self { ranges, by_start })
    }

    /// The ranges, in the order of the host.
    #[must_use]
    pub fn as_slice(&self) -> &[MemoryRange] {
        &self.ranges
    }

    /// The namespaces of the ranges; one with several is named as often.
    pub fn namespaces(&self) -> impl Iterator<Item = u32> {
        self.ranges.iter().map(MemoryRange::namespace)
    }

    /// The bytes of all ranges, in the order of the host, from the memories that they lie in.
    ///
    /// `None` if a memory is missing from `memories`, or has become smaller.
    pub fn borrow<'m>(
        &self,
        memories: impl IntoIterator<Item = (u32, &'m mut Memory)>,
    ) -> Option<Vec<&'m mut [u8]>> {
        let mut slices: Vec<&'m mut [u8]> = Vec::with_capacity(self.ranges.len());
        slices.resize_with(self.ranges.len(), Default::default);
        let mut found = 0;
        for (namespace, memory) in memories {
            if self.of(namespace).next().is_none() {
                continue;
            }
            let (mut rest, mut position) = (memory.bytes_mut(), 0);
            for (index, range) in self.of(namespace) {
                let (_, from_start) = rest.split_at_mut_checked((range.start - position) as usize)?;
                let (slice, behind) = from_start.split_at_mut_checked(range.length_bytes as usize)?;
                (slices[index], rest, position) = (slice, behind, range.end());
                found += 1;
            }
        }
        (found == self.ranges.len()).then_some(slices)
    }

    /// Ranges of one memory with their indexes, by start.
    fn of(&self, namespace: u32) -> impl Iterator<Item = (usize, MemoryRange)> {
        let sorted = self.by_start.iter().map(|&index| (index, self.ranges[index]));
        sorted.filter(move |(_, range)| range.namespace == namespace)
    }
}

/// Sets of ranges by their identifiers. A set is in use while a clone of it is held.
#[derive(Debug, Default)]
pub struct RangeSets {
    limits: RangeLimits,
    sets: BTreeMap<u16, Arc<Ranges>>,
}

impl RangeSets {
    /// No sets.
    #[must_use]
    pub const fn new(limits: RangeLimits) -> Self {
        Self { limits, sets: BTreeMap::new() }
    }

    /// Keeps a set, and gives the lowest free identifier, from 1.
    ///
    /// # Errors
    /// [`Refusal::TooManyRangeSets`].
    pub fn create(&mut self, ranges: Ranges) -> Result<u16, Refusal> {
        let free = (1..=self.limits.sets_max).find(|id| !self.sets.contains_key(id));
        let id = free.ok_or(Refusal::TooManyRangeSets)?;
        self.sets.insert(id, Arc::new(ranges));
        Ok(id)
    }

    /// Deletes a set.
    ///
    /// # Errors
    /// [`Refusal::InvalidMemoryRangeSetId`], [`Refusal::MemoryRangeSetInUse`].
    pub fn delete(&mut self, id: u16) -> Result<(), Refusal> {
        let set = self.sets.get(&id).ok_or(Refusal::InvalidMemoryRangeSetId)?;
        if Arc::strong_count(set) > 1 {
            return Err(Refusal::MemoryRangeSetInUse);
        }
        self.sets.remove(&id);
        Ok(())
    }

    /// A set to run a program over.
    ///
    /// # Errors
    /// [`Refusal::InvalidMemoryRangeSetId`].
    pub fn get(&self, id: u16) -> Result<Arc<Ranges>, Refusal> {
        self.sets.get(&id).cloned().ok_or(Refusal::InvalidMemoryRangeSetId)
    }

    /// Deletes sets with ranges of a namespace that is deleted. Programs that run over them end by themselves: [`Ranges::borrow`]
    /// gives them nothing.
    pub fn forget(&mut self, namespace: u32) {
        self.sets.retain(|_, set| set.of(namespace).next().is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(nsid: u32, start: u64, length_bytes: u32) -> MemoryRangeDescriptor {
        MemoryRangeDescriptor { nsid, length_bytes, start, ..MemoryRangeDescriptor::default() }
    }

    fn check(descriptors: &[MemoryRangeDescriptor]) -> Result<Ranges, Refusal> {
        let limits = RangeLimits { ranges_max: 4, sets_max: 2 };
        Ranges::check(descriptors, &limits, |nsid| (nsid < 3).then_some(100))
    }

    #[test]
    fn ranges_lie_in_a_memory_and_do_not_overlap() {
        assert_eq!(check(&[descriptor(3, 0, 1)]), Err(Refusal::InvalidMemoryNamespace));
        assert_eq!(check(&[descriptor(1, 0, 0)]), Err(Refusal::InvalidMemoryRangeSet));
        assert_eq!(check(&[descriptor(1, 99, 2)]), Err(Refusal::InvalidMemoryRangeSet));
        assert_eq!(check(&[descriptor(1, u64::MAX, 2)]), Err(Refusal::InvalidMemoryRangeSet));
        assert_eq!(check(&[descriptor(1, 4, 8), descriptor(1, 0, 5)]), Err(Refusal::OverlappingRanges));
        assert_eq!(check(&[descriptor(1, 0, 1); 5]), Err(Refusal::TooManyRanges));
        assert!(check(&[descriptor(1, 4, 8), descriptor(2, 4, 8), descriptor(1, 0, 4)]).is_ok());
    }

    #[test]
    fn borrowed_ranges_are_in_the_order_of_the_host() {
        let ranges =
            check(&[descriptor(1, 9, 2), descriptor(2, 0, 3), descriptor(1, 1, 4)]).expect("no overlap");
        let mut memories = [Memory::new(100).expect("small"), Memory::new(100).expect("small")];
        let [one, two] = &mut memories;
        let mut slices = ranges.borrow([(2, two), (1, one)]).expect("both memories");
        assert_eq!(slices.iter().map(|slice| slice.len()).collect::<Vec<_>>(), [2, 3, 4]);
        slices[0].copy_from_slice(b"ab");
        slices[2][3] = b'c';
        let mut read = [0; 12];
        memories[0].read(0, &mut read).expect("inside");
        assert_eq!(read, *b"\0\0\0\0c\0\0\0\0ab\0");
    }

    #[test]
    fn ranges_of_a_memory_that_is_missing_or_smaller_give_nothing() {
        let ranges = check(&[descriptor(1, 50, 2)]).expect("inside");
        assert!(ranges.borrow([]).is_none());
        assert!(ranges.borrow([(1, &mut Memory::new(48).expect("small"))]).is_none());
    }

    #[test]
    fn a_set_in_use_is_not_deleted() {
        let mut sets = RangeSets::new(RangeLimits { ranges_max: 4, sets_max: 2 });
        assert_eq!((sets.create(Ranges::default()), sets.create(Ranges::default())), (Ok(1), Ok(2)));
        assert_eq!(sets.create(Ranges::default()), Err(Refusal::TooManyRangeSets));
        let used = sets.get(1).expect("it exists");
        assert_eq!(sets.delete(1), Err(Refusal::MemoryRangeSetInUse));
        drop(used);
        assert_eq!(sets.delete(1), Ok(()));
        assert_eq!(
            (sets.delete(1), sets.get(7).err()),
            (Err(Refusal::InvalidMemoryRangeSetId), Some(Refusal::InvalidMemoryRangeSetId))
        );
        assert_eq!(sets.create(Ranges::default()), Ok(1));
    }

    #[test]
    fn sets_with_ranges_of_a_deleted_memory_are_forgotten() {
        let mut sets = RangeSets::new(RangeLimits::default());
        sets.create(check(&[descriptor(1, 0, 4), descriptor(2, 0, 4)]).expect("no overlap"))
            .expect("the first");
        sets.create(check(&[descriptor(1, 0, 4)]).expect("inside")).expect("the second");
        sets.forget(2);
        assert_eq!((sets.get(1).is_err(), sets.get(2).is_ok()), (true, true));
    }
}
