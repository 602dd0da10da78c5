//! Memory and processor time of this process, from `/proc`.

use std::fs;

/// Ticks a second of processor time in `/proc` (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// Memory and processor time of this process; 0 where `/proc` cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessFigures {
    /// Memory that it has in RAM.
    pub resident_bytes: u64,
    /// Address space that it has.
    pub virtual_bytes: u64,
    /// Processor time so far, in seconds.
    pub cpu_s: f64,
}

impl ProcessFigures {
    pub(super) fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let bytes = |name| kib_of(&status, name).unwrap_or(0) * 1024;
        let (resident_bytes, virtual_bytes) = (bytes("VmRSS:"), bytes("VmSize:"));
        Self { resident_bytes, virtual_bytes, cpu_s: ticks_of(&stat).unwrap_or(0) as f64 / TICKS_PER_S }
    }
}

fn kib_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time: the 14th and the 15th field, of which the 2nd may hold anything in parentheses.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn process_figures_are_parsed_from_proc() {
        assert!(ProcessFigures::read().resident_bytes > 0);
        let line = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(ticks_of(line), Some(300));
    }
}
