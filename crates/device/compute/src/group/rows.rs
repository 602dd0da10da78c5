//! Rows of a batch by their groups.

use std::cell::OnceCell;

/// The group of each row of a batch.
pub(super) struct GroupedRows<'a> {
    pub of_row: &'a [u32],
    /// How many groups there are.
    pub groups: usize,
    counts: OnceCell<Vec<u32>>,
}

/// Rows that follow one another are added to sums of their own: a sum that is added to again waits for what was stored before.
pub(super) const PARTIALS: usize = 4;

impl<'a> GroupedRows<'a> {
    /// Rows of groups that are all below `groups`.
    pub fn new(of_row: &'a [u32], groups: usize) -> Self {
        Self { of_row, groups, counts: OnceCell::new() }
    }

    /// How many of the rows each group has. For groups that are fewer than rows: it takes time for each.
    pub fn counts(&self) -> &[u32] {
        self.counts.get_or_init(|| self.counted())
    }

    fn counted(&self) -> Vec<u32> {
        if self.groups == 1 {
            return vec![self.of_row.len() as u32];
        }
        let mut counts = vec![[0; PARTIALS]; self.groups];
        let (chunks, rest) = self.of_row.as_chunks::<PARTIALS>();
        for chunk in chunks {
            (0..PARTIALS).for_each(|at| counts[chunk[at] as usize][at] += 1);
        }
        rest.iter().for_each(|group| counts[*group as usize][0] += 1);
        counts.into_iter().map(|partials| partials.iter().sum()).collect()
    }
}
