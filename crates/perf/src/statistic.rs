//! Figures of several runs of one load: the median of each, and its range.

/// What stands for a figure that several runs have measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The middle one; of an even number the mean of the middle two.
    Median,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

impl Statistic {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Median, Self::Min, Self::Max];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::Min => "min",
            Self::Max => "max",
        }
    }

    /// Over figures in any order; 0 of none.
    pub fn of(self, figures: impl IntoIterator<Item = f64>) -> f64 {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(0.0);
        let last = figures.len().saturating_sub(1);
        match self {
            Self::Median => f64::midpoint(at(last / 2), at(last.div_ceil(2))),
            Self::Min => at(0),
            Self::Max => at(last),
        }
    }

    /// Over whole figures, rounded.
    pub fn of_whole(self, figures: impl IntoIterator<Item = u64>) -> u64 {
        self.of(figures.into_iter().map(|figure| figure as f64)).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistic_of_odd_and_even_numbers_is_in_the_middle_or_at_an_end() {
        let of = |figures: &[f64]| Statistic::ALL.map(|of| of.of(figures.iter().copied()));
        assert_eq!(of(&[3.0, 1.0, 2.0]), [2.0, 1.0, 3.0]);
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), [2.5, 1.0, 4.0]);
        assert_eq!(of(&[7.0]), [7.0; 3]);
        assert_eq!(of(&[]), [0.0; 3]);
        assert_eq!(Statistic::Median.of_whole([10, 13]), 12);
    }
}
