//! The monotonic clock.

/// Nanoseconds since some fixed point before this process started; never goes back.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_does_not_go_back() {
        let first = super::monotonic_ns();
        assert!(super::monotonic_ns() >= first);
    }
}
