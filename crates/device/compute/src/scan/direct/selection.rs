//! Which rows of a batch are left.

use arrow_array::{Array, BooleanArray};

/// A selection is sparse if fewer than 1 row in 8 is left.
const SPARSE_PART: usize = 8;

/// Rows of a batch, ascending.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Rows of the batch.
    all: usize,
    /// Those that are left; all of them before the first choice.
    chosen: Option<Vec<u32>>,
    /// A list to be used again.
    recycled: Vec<u32>,
    /// A bit for each row of the batch, to be used again.
    words: Vec<u64>,
}

impl Selection {
    /// Selects all of `rows` rows.
    pub fn reset(&mut self, rows: usize) {
        self.all = rows;
        if let Some(chosen) = self.chosen.take() {
            self.recycled = chosen;
        }
    }

    /// How many rows are left.
    pub fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.all, Vec::len)
    }

    /// The rows that are left; `None` for all.
    pub fn rows(&self) -> Option<&[u32]> {
        self.chosen.as_deref()
    }

    /// Keeps rows whose dictionary index `holds` is true for.
    pub fn keep_by_index(&mut self, indices: &[u32], holds: &[bool]) {
        let is_kept = |row: u32| holds[indices[row as usize] as usize];
        match &mut self.chosen {
            None => {
                let mut rows = std::mem::take(&mut self.recycled);
                rows.resize(rows.len().max(indices.len()), 0);
                let mut kept = 0;
                for (row, index) in indices.iter().enumerate() {
                    rows[kept] = row as u32;
                    kept += usize::from(holds[*index as usize]);
                }
                self.set(rows, kept);
            }
            Some(rows) => keep(rows, |_, row| is_kept(row)),
        }
    }

    /// Keeps rows of those left for which `holds` is true.
    pub fn keep_where(&mut self, holds: &BooleanArray) {
        let is_kept = |at: usize| holds.value(at) && holds.is_valid(at);
        match &mut self.chosen {
            None if holds.true_count() == self.all => {}
            None => {
                let mut rows = std::mem::take(&mut self.recycled);
                rows.clear();
                match holds.nulls() {
                    None => rows.extend(holds.values().set_indices_u32()),
                    Some(_) => rows.extend((0..self.all as u32).filter(|row| is_kept(*row as usize))),
                }
                let kept = rows.len();
                self.set(rows, kept);
            }
            Some(rows) => keep(rows, |at, _| is_kept(at)),
        }
    }

    /// Keeps rows of those left for which `find` sets a bit: it has one for each row of the batch.
    pub fn keep_by_bits(&mut self, find: impl FnOnce(&mut Vec<u64>)) {
        find(&mut self.words);
        let words = &self.words;
        match &mut self.chosen {
            None => {
                let mut rows = std::mem::take(&mut self.recycled);
                // A word's last bits may stand behind the last row.
                rows.resize(rows.len().max(words.len() * 64), 0);
                let mut kept = 0;
                for (word, base) in words.iter().zip((0_u32..).step_by(64)) {
                    let mut left = *word;
                    while left != 0 {
                        rows[kept] = base + left.trailing_zeros();
                        left &= left - 1;
                        kept += 1;
                    }
                }
                self.set(rows, kept);
            }
            Some(rows) => keep(rows, |_, row| words[row as usize / 64] >> (row % 64) & 1 == 1),
        }
    }

    /// Whether so few rows are left that it does not pay to evaluate a condition for all.
    pub fn is_sparse(&self) -> bool {
        self.len() < self.all / SPARSE_PART
    }

    fn set(&mut self, mut rows: Vec<u32>, kept: usize) {
        rows.truncate(kept);
        if kept == self.all {
            self.recycled = rows;
        } else {
            self.chosen = Some(rows);
        }
    }
}

/// Keeps entries by their position and value, without a branch for each.
fn keep(rows: &mut Vec<u32>, is_kept: impl Fn(usize, u32) -> bool) {
    let mut kept = 0;
    for at in 0..rows.len() {
        let row = rows[at];
        rows[kept] = row;
        kept += usize::from(is_kept(at, row));
    }
    rows.truncate(kept);
}
