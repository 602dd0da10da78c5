//! Time: of the wall, of all threads of the process, and until the process has come to rest.

use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Time between two looks at the process's threads.
const LOOK: Duration = Duration::from_millis(2);
/// Looks in a row that must find them at rest.
const RESTING_LOOKS: u32 = 3;
/// Longest wait for the process's threads to rest.
const REST_TIMEOUT: Duration = Duration::from_secs(60);

/// Time since the last look, in steps without gaps: one reading of the clock a step.
pub struct Lap(Instant);

impl Lap {
    /// Begins now.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the last call, or the beginning.
    #[inline]
    pub fn next_ns(&mut self) -> u64 {
        let now = Instant::now();
        let ns = now.duration_since(self.0).as_nanos() as u64;
        self.0 = now;
        ns
    }
}

/// What some work took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// Time of the caller.
    pub wall: Duration,
    /// Time of all threads of the process, until it rested.
    pub cpu: Duration,
}

impl std::ops::AddAssign for Taken {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

/// Does some work, then waits until the threads it left at work rest. Their processor time counts, the waiting does not.
///
/// # Errors
/// Those of the work.
pub fn time<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, Taken), E> {
    let (cpu, wall) = (process_time(), Instant::now());
    let done = work()?;
    let wall = wall.elapsed();
    rest();
    Ok((done, Taken { wall, cpu: process_time().saturating_sub(cpu) }))
}

/// Waits until no other thread of the process works.
pub fn rest() {
    let began = Instant::now();
    let mut resting = 0;
    while resting < RESTING_LOOKS && began.elapsed() < REST_TIMEOUT {
        resting = if others_work() { 0 } else { resting + 1 };
        thread::sleep(LOOK);
    }
}

/// Whether another thread runs, would if it had a processor, or waits for a disk (proc(5): states R and D).
fn others_work() -> bool {
    let own = rustix::thread::gettid().as_raw_pid().to_string();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    let others = tasks.flatten().filter(|task| task.file_name() != own.as_str());
    others.into_iter().any(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The name before it may hold anything, but the last parenthesis is its end.
        stat.rsplit(") ").next().is_some_and(|behind| behind.starts_with(['R', 'D']))
    })
}

/// Processor time of all threads of the process.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_goes_on_in_the_background_is_waited_for_and_charged() {
        let work = || {
            thread::spawn(|| {
                let began = process_time();
                while process_time() - began < Duration::from_millis(40) {}
            });
            Ok::<_, ()>(())
        };
        let ((), taken) = time(work).unwrap_or_default();
        assert!(taken.cpu >= Duration::from_millis(40), "{taken:?}");
    }
}
