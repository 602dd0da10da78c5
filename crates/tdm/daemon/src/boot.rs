//! When this boot of the system began.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Since 1970, by the clock of this boot.
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
    fn this_boot_began_in_the_second_that_the_kernel_tells() {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let told = stat.lines().find_map(|line| line.strip_prefix("btime ")).unwrap();
        let told = Duration::from_secs(told.trim().parse().unwrap());
        assert!(began().unwrap().abs_diff(told) < Duration::from_secs(2));
    }
}
