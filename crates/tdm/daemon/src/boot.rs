//! When this boot of the system began.

/// Seconds since 1970, as the kernel tells it.
pub(crate) fn began_s() -> Option<i64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
