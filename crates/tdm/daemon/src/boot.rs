//! When this boot of the system began.

use std::time::Duration;

/// Since 1970, as the kernel tells it, in whole seconds.
pub(crate) fn began() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let began_s = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(Duration::from_secs(began_s))
}
