//! What the measured figures of the README are made with.
#![forbid(unsafe_code)]

pub mod callgrind;
pub mod stage;

use std::time::Instant;

/// Nanoseconds of one call, as the median of `rounds` rounds of `calls` calls each.
pub fn median_ns(rounds: usize, calls: u32, mut call: impl FnMut(u32)) -> f64 {
    let mut round = || {
        let start = Instant::now();
        (0..calls).for_each(&mut call);
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    };
    round();
    let mut times: Vec<f64> = (0..rounds).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
