//! Parts of an object scanned by several threads, and taken in order: a result does not depend on the threads.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::QueryError;

/// Parts that each thread may be ahead of what was taken: they are held in memory.
const PARTS_AHEAD: usize = 2;

/// Parts that may be held in memory at a time.
pub(crate) fn parts_held(threads: NonZero<usize>) -> usize {
    threads.get().saturating_mul(PARTS_AHEAD)
}

/// Scans `parts` parts by `threads` threads, and gives what each part gave to `take`, in the order of the parts.
pub(crate) fn in_order<T: Send>(
    parts: usize,
    threads: NonZero<usize>,
    scan: impl Fn(usize) -> Result<T, QueryError> + Sync,
    mut take: impl FnMut(T) -> Result<ControlFlow<()>, QueryError>,
) -> Result<(), QueryError> {
    if parts < 2 || threads.get() == 1 {
        return one_by_one(parts, scan, take);
    }
    let queue = Queue::new(parts, parts_held(threads));
    std::thread::scope(|scope| {
        // Threads end also where `take` or the start of another thread panics: the scope waits for them.
        let _stop = Stop(&queue);
        for _ in 0..threads.get().min(parts) {
            scope.spawn(|| queue.work(&scan));
        }
        queue.take_all(&mut take)
    })
}

fn one_by_one<T>(
    parts: usize,
    scan: impl Fn(usize) -> Result<T, QueryError>,
    mut take: impl FnMut(T) -> Result<ControlFlow<()>, QueryError>,
) -> Result<(), QueryError> {
    for part in 0..parts {
        if take(scan(part)?)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Parts that are to be scanned, and those that were.
struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    parts: usize,
    ahead: usize,
}

struct State<T> {
    /// The next part to be scanned.
    next: usize,
    /// Parts that were taken.
    taken: usize,
    scanned: BTreeMap<usize, Result<T, QueryError>>,
    is_stopped: bool,
}

impl<T> Queue<T> {
    fn new(parts: usize, ahead: usize) -> Self {
        let state = State { next: 0, taken: 0, scanned: BTreeMap::new(), is_stopped: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), parts, ahead }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_due` of the state.
    fn wait_until(&self, is_due: impl Fn(&State<T>) -> bool) -> MutexGuard<'_, State<T>> {
        self.changed.wait_while(self.state(), |state| !is_due(state)).unwrap_or_else(PoisonError::into_inner)
    }

    /// Scans parts until there are no more.
    fn work(&self, scan: &impl Fn(usize) -> Result<T, QueryError>) {
        while let Some(part) = self.next_part() {
            let scanned = Scanning { queue: self, part, result: None }.run(scan);
            drop(scanned);
        }
    }

    fn next_part(&self) -> Option<usize> {
        let is_due = |state: &State<T>| {
            state.is_stopped || state.next == self.parts || state.next < state.taken + self.ahead
        };
        let mut state = self.wait_until(is_due);
        if state.is_stopped || state.next == self.parts {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    fn take_all(
        &self,
        take: &mut impl FnMut(T) -> Result<ControlFlow<()>, QueryError>,
    ) -> Result<(), QueryError> {
        for part in 0..self.parts {
            let scanned = self.wait_until(|state| state.scanned.contains_key(&part)).scanned.remove(&part);
            if let Some(scanned) = scanned
                && take(scanned?)?.is_break()
            {
                break;
            }
            self.state().taken = part + 1;
            self.changed.notify_all();
        }
        Ok(())
    }

    fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }
}

/// Stops the threads of a queue once it is dropped.
struct Stop<'q, T>(&'q Queue<T>);

impl<T> Drop for Stop<'_, T> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A part that a thread scans. One whose scan panics counts as failed, or the thread that takes it would wait for ever.
struct Scanning<'q, T> {
    queue: &'q Queue<T>,
    part: usize,
    result: Option<Result<T, QueryError>>,
}

impl<T> Scanning<'_, T> {
    fn run(mut self, scan: &impl Fn(usize) -> Result<T, QueryError>) -> Self {
        self.result = Some(scan(self.part));
        self
    }
}

impl<T> Drop for Scanning<'_, T> {
    fn drop(&mut self) {
        let lost = || Err(QueryError::Damaged("the scan of a part panicked".to_owned()));
        let result = self.result.take().unwrap_or_else(lost);
        self.queue.state().scanned.insert(self.part, result);
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(count: usize) -> NonZero<usize> {
        NonZero::new(count).expect("not zero")
    }

    #[test]
    fn parts_scanned_by_threads_are_taken_in_order() {
        for count in 1..5 {
            let mut taken = Vec::new();
            let result = in_order(100, threads(count), Ok, |part| {
                taken.push(part);
                Ok(ControlFlow::Continue(()))
            });
            assert!(result.is_ok());
            assert_eq!(taken, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn failure_or_break_ends_all_threads() {
        let failed = in_order(
            100,
            threads(3),
            |part| if part == 50 { Err(QueryError::Cancelled) } else { Ok(part) },
            |_| Ok(ControlFlow::Continue(())),
        );
        assert!(matches!(failed, Err(QueryError::Cancelled)));
        let mut taken = 0;
        let broken = in_order(100, threads(3), Ok, |_| {
            taken += 1;
            Ok(ControlFlow::Break(()))
        });
        assert!(broken.is_ok() && taken == 1);
    }

    #[test]
    fn panic_of_what_takes_parts_ends_all_threads() {
        let taking = std::panic::AssertUnwindSafe(|| in_order(100, threads(3), Ok, |_| panic!("taken")));
        assert!(std::panic::catch_unwind(taking).is_err());
    }
}
