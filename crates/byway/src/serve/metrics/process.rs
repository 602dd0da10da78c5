//! Memory and processor time of this process, from `/proc`.

use std::fs;
use std::sync::LazyLock;

/// Ticks a second of processor time in `/proc` (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// Fields of `/proc/PID/stat` by their numbers in proc(5), all in ticks: user time, system time, and the start after boot.
const UTIME: usize = 14;
const STIME: usize = 15;
const STARTTIME: usize = 22;

/// When this process was started, in seconds since 1970. Read once: the time of the boot moves as the clock is set.
static STARTED_S: LazyLock<f64> = LazyLock::new(|| {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let since_boot = field_of(&read("/proc/self/stat"), STARTTIME).unwrap_or(0) as f64 / TICKS_PER_S;
    boot_s(&read("/proc/stat")).unwrap_or(0) as f64 + since_boot
});

/// Memory and processor time of this process; 0 where `/proc` cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessFigures {
    /// Memory that it has in RAM.
    pub resident_bytes: u64,
    /// Address space that it has.
    pub virtual_bytes: u64,
    /// Processor time so far, in seconds.
    pub cpu_s: f64,
    /// When it was started, in seconds since 1970: it differs after a restart.
    pub started_s: f64,
}

impl ProcessFigures {
    pub(super) fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let bytes = |name| kib_of(&status, name).unwrap_or(0) * 1024;
        let (resident_bytes, virtual_bytes) = (bytes("VmRSS:"), bytes("VmSize:"));
        let [user, system] = [UTIME, STIME].map(|field| field_of(&stat, field).unwrap_or(0));
        Self {
            resident_bytes,
            virtual_bytes,
            cpu_s: (user + system) as f64 / TICKS_PER_S,
            started_s: *STARTED_S,
        }
    }
}

fn kib_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A field of `/proc/self/stat`, of which the 2nd may hold anything in parentheses.
fn field_of(stat: &str, field: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(field - 3)?.parse().ok()
}

/// When the system was started, in seconds since 1970, from `/proc/stat`.
fn boot_s(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn process_figures_are_parsed_from_proc() {
        let read = ProcessFigures::read();
        assert!(read.resident_bytes > 0 && read.started_s > 1e9);
        let line = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0 777 8";
        assert_eq!([UTIME, STIME, STARTTIME].map(|field| field_of(line, field)), [250, 50, 777].map(Some));
        assert_eq!((field_of(line, 40), boot_s("cpu 1\nbtime 17\n")), (None, Some(17)));
    }
}
