//! Rounds that take turns over cases, so that a busy moment of the machine falls on all of them.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use crate::paired::quantile;

/// What is measured: calls, each of which it may time.
pub trait Case {
    /// Its name in results.
    fn name(&self) -> &str;

    /// Calls under way at once.
    fn depth(&self) -> u32 {
        1
    }

    /// Makes the calls; returns nanoseconds of the whole, and appends those of single calls where it knows them.
    ///
    /// # Errors
    /// Why a call failed.
    fn round(&mut self, calls: u32, singles: &mut Vec<u32>) -> Result<u64>;
}

/// What a case came to.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The case.
    pub case: String,
    /// Calls under way at once.
    pub depth: u32,
    /// Rounds that counted.
    pub rounds: usize,
    /// Calls of a round.
    pub calls: u32,
    /// Of single calls where there is one at a time; of a round's mean where there are many.
    pub ns_p50: f64,
    /// The same, of the hundredth that took longest.
    pub ns_p99: f64,
    /// Mean of the best round.
    pub ns_best: f64,
    /// Mean of the median round.
    pub ns_median: f64,
    /// Calls a second in the best round.
    pub per_second_best: f64,
    /// Calls a second in the median round.
    pub per_second_median: f64,
}

/// What the rounds of one case took.
#[derive(Debug, Default)]
pub struct Taken {
    singles: Vec<u32>,
    means: Vec<f64>,
    calls: u32,
}

impl Taken {
    /// Makes one round of `case` and keeps what it took.
    ///
    /// # Errors
    /// Why a call failed.
    pub fn add(&mut self, case: &mut dyn Case, calls: u32) -> Result<()> {
        self.calls = calls;
        let ns = case.round(calls, &mut self.singles)?;
        self.means.push(ns as f64 / f64::from(calls));
        Ok(())
    }

    /// Best, median and percentiles of the rounds so far, in nanoseconds of a call.
    #[must_use]
    pub fn row(&self, case: &str, depth: u32) -> Row {
        let singles: Vec<f64> = self.singles.iter().map(|ns| f64::from(*ns)).collect();
        let each = if singles.is_empty() { &self.means } else { &singles };
        let (ns_best, ns_median) = (quantile(&self.means, 0.0), quantile(&self.means, 0.5));
        Row {
            case: case.to_owned(),
            depth,
            rounds: self.means.len(),
            calls: self.calls,
            ns_p50: quantile(each, 0.5),
            ns_p99: quantile(each, 0.99),
            ns_best,
            ns_median,
            per_second_best: 1e9 / ns_best,
            per_second_median: 1e9 / ns_median,
        }
    }
}

/// Rounds over the cases by turns, after one that does not count.
///
/// # Errors
/// Why a call failed.
pub fn by_turns(rounds: usize, calls: u32, cases: &mut [&mut dyn Case]) -> Result<Vec<Row>> {
    let mut taken: Vec<Taken> = cases.iter().map(|_| Taken::default()).collect();
    for case in cases.iter_mut() {
        case.round(calls, &mut Vec::new())?;
    }
    for _ in 0..rounds {
        for (case, taken) in cases.iter_mut().zip(&mut taken) {
            taken.add(&mut **case, calls)?;
        }
    }
    Ok(cases.iter().zip(&taken).map(|(case, taken)| taken.row(case.name(), case.depth())).collect())
}

/// Times each of so many calls.
///
/// # Errors
/// Why a call failed.
pub fn each(calls: u32, singles: &mut Vec<u32>, mut call: impl FnMut() -> Result<()>) -> Result<u64> {
    let begun = Instant::now();
    let mut before = begun;
    for _ in 0..calls {
        call()?;
        let now = Instant::now();
        singles.push((now - before).as_nanos() as u32);
        before = now;
    }
    Ok((before - begun).as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u32);

    impl Case for Fixed {
        fn name(&self) -> &str {
            "fixed"
        }

        fn round(&mut self, calls: u32, singles: &mut Vec<u32>) -> Result<u64> {
            self.0 += 1;
            singles.extend((0..calls).map(|_| 10 * self.0));
            Ok(u64::from(calls * 10 * self.0))
        }
    }

    #[test]
    fn the_first_round_does_not_count() {
        let rows = by_turns(3, 2, &mut [&mut Fixed(0)]).unwrap_or_default();
        let row = &rows[0];
        assert_eq!((row.rounds, row.ns_best, row.ns_median, row.ns_p50), (3, 20.0, 30.0, 30.0));
    }
}
