//! Quantiles of histograms that grow.

/// What was counted between two looks: bounds in order, each with how many were at most that.
#[derive(Clone, Debug, Default)]
pub struct Growth(Vec<(f64, f64)>);

impl Growth {
    /// Adds a bucket's growth, or adds it to the same bound's of another histogram.
    pub fn add(&mut self, bound: f64, grown: f64) {
        match self.0.binary_search_by(|(other, _)| other.total_cmp(&bound)) {
            Ok(at) => self.0[at].1 += grown,
            Err(at) => self.0.insert(at, (bound, grown)),
        }
    }

    /// Number of samples.
    pub fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, count)| *count)
    }

    /// The time that this part of them took at most, taken to be spread evenly within a bucket; nothing where there are none.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let count = self.count();
        if count <= 0.0 {
            return None;
        }
        let rank = part * count;
        let at = self.0.iter().position(|(_, up_to)| *up_to >= rank)?;
        let (bound, up_to) = self.0[at];
        let (below, before) = at.checked_sub(1).map_or((0.0, 0.0), |at| self.0[at]);
        if bound.is_infinite() {
            return Some(below);
        }
        let within = if up_to > before { (rank - before) / (up_to - before) } else { 1.0 };
        Some(below + (bound - below) * within.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_in_the_bucket_that_its_rank_falls_into() {
        let mut growth = Growth::default();
        assert_eq!(growth.quantile(0.5), None);
        for (bound, grown) in [(4.0, 100.0), (1.0, 10.0), (2.0, 60.0), (f64::INFINITY, 100.0)] {
            growth.add(bound, grown);
        }
        assert_eq!((growth.quantile(0.1), growth.quantile(0.6)), (Some(1.0), Some(2.0)));
        assert_eq!(growth.quantile(0.8), Some(3.0));
        growth.add(f64::INFINITY, 100.0);
        assert_eq!(growth.quantile(0.99), Some(4.0), "beyond the last bound nothing more is known");
    }
}
