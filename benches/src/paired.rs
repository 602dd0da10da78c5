//! Two ways of doing the same, timed by turns.
//!
//! On a machine that others use too, two runs one after the other differ by more than what is to be measured. Slices of
//! a millisecond or two that alternate, the first of each pair by turns, see the same machine; the median of the
//! ratios of neighbours is steady where both medians wander.

use std::time::Instant;

use byway_kit::Random;
use serde::Serialize;

/// What came of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// The case, as its row in the results is named.
    pub what: String,
    /// Pairs of slices.
    pub pairs: usize,
    /// Calls in a slice.
    pub calls: u32,
    /// Nanoseconds of a call without, as the median of slices.
    pub without_ns: f64,
    /// The same with.
    pub with_ns: f64,
    /// Median over pairs of (with / without).
    pub ratio: f64,
    /// Half of the pairs lie between these.
    pub ratio_quartiles: [f64; 2],
}

impl Compared {
    /// From the nanoseconds of a call of each slice, pair by pair: without, with.
    pub fn of(what: &str, calls: u32, pairs: &[(f64, f64)]) -> Self {
        let ratios: Vec<f64> = pairs.iter().map(|(without, with)| with / without).collect();
        let column = |of: fn(&(f64, f64)) -> f64| quantile(&pairs.iter().map(of).collect::<Vec<_>>(), 0.5);
        Self {
            what: what.to_owned(),
            pairs: pairs.len(),
            calls,
            without_ns: column(|pair| pair.0),
            with_ns: column(|pair| pair.1),
            ratio: quantile(&ratios, 0.5),
            ratio_quartiles: [quantile(&ratios, 0.25), quantile(&ratios, 0.75)],
        }
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [low, high] = self.ratio_quartiles;
        write!(
            f,
            "{:34} {:8.1} ns → {:8.1} ns   ratio {:.4} (quartiles {low:.3} to {high:.3}, {} pairs of {} calls)",
            self.what, self.without_ns, self.with_ns, self.ratio, self.pairs, self.calls
        )
    }
}

/// Nanoseconds of one of `calls` calls made by `slice`.
///
/// # Errors
/// What the slice says.
pub fn time<E>(calls: u32, slice: impl FnOnce(u32) -> Result<(), E>) -> Result<f64, E> {
    let start = Instant::now();
    slice(calls)?;
    Ok(start.elapsed().as_nanos() as f64 / f64::from(calls))
}

/// Runs `slice` without (false) and with (true) by turns; what it says, pair by pair: nanoseconds of a call, say.
///
/// # Errors
/// What the slices say.
pub fn alternate<T, E>(pairs: usize, mut slice: impl FnMut(bool) -> Result<T, E>) -> Result<Vec<(T, T)>, E> {
    let mut pair = |n: usize| {
        let first = n % 2 == 1;
        let (one, other) = (slice(first)?, slice(!first)?);
        Ok(if first { (other, one) } else { (one, other) })
    };
    (0..pairs).map(&mut pair).collect()
}

/// The value below which the share `part` of `values` lies; 0 of none.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part).round() as usize).copied().unwrap_or(0.0)
}

/// Below this the median of `values` lies for one of 20 samples of that many, drawn from them with replacement.
pub fn lower_bound(values: &[f64]) -> f64 {
    const SAMPLES: usize = 2000;
    let mut random = Random::new(0);
    let mut draw = || values.get(random.index(values.len())).copied();
    let mut median = || quantile(&(0..values.len()).filter_map(|_| draw()).collect::<Vec<_>>(), 0.5);
    let medians: Vec<f64> = (0..SAMPLES).map(|_| median()).collect();
    quantile(&medians, 0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_matched_in_either_run_order() {
        let pairs = alternate(5, |with| Ok::<_, ()>(if with { 3.0 } else { 2.0 })).unwrap_or_default();
        assert_eq!(pairs, [(2.0, 3.0); 5]);
        assert_eq!(Compared::of("", 1, &pairs).ratio, 1.5);
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 1.0), 3.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_lower_bound_is_below_the_median_and_among_the_values() {
        let values: Vec<f64> = (0..41).map(f64::from).collect();
        let low = lower_bound(&values);
        assert!((5.0..20.0).contains(&low), "{low}");
        assert_eq!((lower_bound(&[3.0; 9]), lower_bound(&[])), (3.0, 0.0));
    }
}
