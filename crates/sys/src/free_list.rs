//! The free entries of a table whose entries stay.

/// Indices of a table's free entries. The entry freed last is taken first: it is still in the cache.
///
/// The `slab` crate does the same for entries that are dropped when they are freed. The tables here keep an entry's page,
/// array or address from one use to the next, and withhold identifiers from reuse.
#[derive(Debug)]
pub struct FreeList<I>(Vec<I>);

impl<I> FreeList<I> {
    /// All of `indices`, the first of them to be taken first.
    #[must_use]
    pub fn new(indices: impl DoubleEndedIterator<Item = I>) -> Self {
        Self(indices.rev().collect())
    }

    /// Takes the index that was freed last.
    #[must_use]
    #[inline(always)]
    pub fn take(&mut self) -> Option<I> {
        self.0.pop()
    }

    /// Frees an index: one that was taken, or that of an entry which was added to the table.
    #[inline(always)]
    pub fn free(&mut self, index: I) {
        self.0.push(index);
    }

    /// How many entries are free.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no entry is free.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_list_gives_the_first_index_then_the_last_freed() {
        let mut free = FreeList::new(0..3_u16);
        assert_eq!((free.take(), free.take()), (Some(0), Some(1)));
        free.free(0);
        assert_eq!((free.take(), free.take(), free.take()), (Some(0), Some(2), None));
        assert!(free.is_empty());
    }
}
