//! Time of the system's boot.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Time of the boot since 1970, by the current clock.
pub(crate) fn began() -> Option<Duration> {
    let up = clock_gettime(ClockId::Boottime);
    let up = Duration::new(up.tv_sec.try_into().ok()?, up.tv_nsec.try_into().ok()?);
    SystemTime::now().duration_since(UNIX_EPOCH).ok()?.checked_sub(up)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn boot_time_matches_the_kernels_btime() {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let reported = stat.lines().find_map(|line| line.strip_prefix("btime ")).unwrap();
        let reported = Duration::from_secs(reported.trim().parse().unwrap());
        assert!(began().unwrap().abs_diff(reported) < Duration::from_secs(2));
    }
}
