//! The monotonic clock, the one that files are dated by, and what a thread used of a processor.

/// Nanoseconds since some fixed point before this process started; never goes back.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // By the C library, which knows when the kernel's own page of functions is not there: under valgrind it is not, and
    // a lookup of ours would read unmapped memory.
    // SAFETY: room for a time, of a clock that every kernel has: the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Nanoseconds that this thread has run on a processor: on a machine that is busy with other things, waits for one are not its own.
#[must_use]
pub fn thread_ns() -> u64 {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut used) };
    used.tv_sec.unsigned_abs() * 1_000_000_000 + used.tv_nsec.unsigned_abs()
}

/// Milliseconds since 1970, by the clock that the kernel dates files by.
#[must_use]
pub fn file_time_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_does_not_go_back() {
        let first = super::monotonic_ns();
        assert!(super::monotonic_ns() >= first);
    }
}
