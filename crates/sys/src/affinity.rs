//! Which processors the calling thread may run on.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread to processor `cpu`.
///
/// # Errors
/// The system's answer: the processor does not exist, is offline, or is outside the thread's cgroup.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no processor {cpu}")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)?;
    Ok(())
}

/// The processors the calling thread may run on, ascending.
///
/// # Errors
/// The system's answer.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    #[test]
    fn a_pinned_thread_may_run_on_its_processor_alone() {
        std::thread::spawn(|| {
            let cpu = super::allowed().unwrap()[0];
            super::pin(cpu).unwrap();
            assert_eq!(super::allowed().unwrap(), vec![cpu]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_processor_that_does_not_exist_is_refused() {
        assert!(super::pin(usize::MAX).is_err());
    }
}
