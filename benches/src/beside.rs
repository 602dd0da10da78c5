//! A load through Byway beside the same through another interface, as a row.

use std::fmt;

use serde::Serialize;

use crate::paired::{lower_bound, quantile};

/// What a run, or a slice of one, came to.
#[derive(Debug, Clone, Copy)]
pub struct Ran {
    /// Thousands of commands a second.
    pub kiops: f64,
    /// Processor time of a command in nanoseconds.
    pub cpu_ns: f64,
}

/// A kind of work: interface, place, load.
#[derive(Debug, Clone, Serialize)]
pub struct Work {
    /// By Byway's word for it.
    pub interface: &'static str,
    /// The device or file, as a short name.
    pub on: String,
    /// How many of those, each with as many commands outstanding.
    pub devices: usize,
    /// Reads or writes.
    pub load: &'static str,
    /// Bytes of a command.
    pub block_bytes: u32,
    /// Commands outstanding.
    pub depth: u32,
}

/// A comparison.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The work that both programs did.
    #[serde(flatten)]
    pub work: Work,
    /// The other program: `fio`, `bare` for a loop of system calls, `fio-itself` for two equal sides.
    pub peer: &'static str,
    /// Pairs of runs.
    pub pairs: usize,
    /// Medians of both.
    pub peer_kiops: f64,
    /// Ours.
    pub ours_kiops: f64,
    /// Median over pairs of (ours / peer), in commands a second.
    pub ratio: f64,
    /// The bootstrapped 95 % lower bound of it.
    pub ratio_low: f64,
    /// Processor time of a command in nanoseconds.
    pub peer_cpu_ns: f64,
    /// Ours.
    pub ours_cpu_ns: f64,
}

impl Row {
    /// From pairs of runs: the peer's and ours.
    pub fn of(work: Work, peer: &'static str, pairs: &[(Ran, Ran)]) -> Self {
        let median = |of: fn(&(Ran, Ran)) -> f64| quantile(&pairs.iter().map(of).collect::<Vec<_>>(), 0.5);
        let ratios: Vec<f64> = pairs.iter().map(|(peer, ours)| ours.kiops / peer.kiops).collect();
        Self {
            work,
            peer,
            pairs: pairs.len(),
            peer_kiops: median(|pair| pair.0.kiops),
            ours_kiops: median(|pair| pair.1.kiops),
            ratio: quantile(&ratios, 0.5),
            ratio_low: lower_bound(&ratios),
            peer_cpu_ns: median(|pair| pair.0.cpu_ns),
            ours_cpu_ns: median(|pair| pair.1.cpu_ns),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { interface, on, devices, load, block_bytes, depth } = &self.work;
        let many = if *devices == 1 { String::new() } else { format!(" × {devices}") };
        write!(
            f,
            "{interface:19} {:12} {load:9} {block_bytes:6} B depth {depth:4}: {} {:7.1} ours {:7.1} kIOPS, ratio {:.3} \
             (low {:.3}), cpu {:6.0} → {:6.0} ns",
            format!("{on}{many}"),
            self.peer,
            self.peer_kiops,
            self.ours_kiops,
            self.ratio,
            self.ratio_low,
            self.peer_cpu_ns,
            self.ours_cpu_ns
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_above_one_means_byway_is_faster() {
        let work = Work {
            interface: "psync",
            on: "shm".into(),
            devices: 1,
            load: "read",
            block_bytes: 512,
            depth: 1,
        };
        let pair = (Ran { kiops: 100.0, cpu_ns: 5.0 }, Ran { kiops: 150.0, cpu_ns: 4.0 });
        let row = Row::of(work, "fio", &[pair; 3]);
        assert_eq!((row.ratio, row.ratio_low, row.peer_cpu_ns, row.ours_cpu_ns), (1.5, 1.5, 5.0, 4.0));
    }
}
