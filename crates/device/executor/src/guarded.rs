//! A value guarded by the run lock: one thread at a time changes it, or several read it.
//!
//! This is the only file of the crate with unsafe code; beside it `core.rs` promises what [`Readable`] wants. Tests under `cfg(loom)`
//! (`guarded/model.rs`) check in every interleaving that no thread reaches the value while another one changes it.

use byway_queue::{Reading, RunLock};
use byway_sys::time::monotonic_ns;
use tracing::error;

use self::cell::{AtomicU32, AtomicU64, Ordering::Relaxed, ValueCell};

#[cfg(not(loom))]
mod cell {
    use std::cell::UnsafeCell;
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    /// A value that is reached by its pointer.
    #[derive(Debug)]
    pub(super) struct ValueCell<T>(UnsafeCell<T>);

    impl<T> ValueCell<T> {
        pub fn new(value: T) -> Self {
            Self(UnsafeCell::new(value))
        }

        #[inline]
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }

        #[inline]
        pub fn with<R>(&self, work: impl FnOnce(*const T) -> R) -> R {
            work(self.0.get())
        }

        #[inline]
        pub fn with_mut<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
            work(self.0.get())
        }
    }
}

/// Loom's cell fails a test where two threads reach the value at a time, or one without having seen what another did to it.
#[cfg(loom)]
mod cell {
    pub(super) use loom::cell::UnsafeCell as ValueCell;
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

/// A value guarded by a run lock.
pub(crate) trait Acquire {
    /// What a thread does first that has acquired the lock, and before it goes on for another.
    fn acquired(&mut self) {}

    /// What a thread does once that has acquired the lock.
    fn begin_hold(&mut self) {}
}

/// A value of which a part can be read by several threads.
///
/// # Safety
/// [`part`](Self::part) reaches nothing of the value but that part: several threads call it at the same time, and what else the value has need
/// not be `Sync`.
#[expect(unsafe_code, reason = "`Guarded` is shared between threads though the value need not be `Sync`")]
pub(crate) unsafe trait Readable {
    /// That part.
    type Part: Sync;

    /// It alone is reached.
    fn part(&self) -> &Self::Part;
}

/// A value that only the holder of its run lock reaches. After a panic under the lock no thread reaches it.
#[derive(Debug)]
pub(crate) struct Guarded<T> {
    run_lock: RunLock,
    /// How long the lock holder waited for the lock, in nanoseconds. Written under the lock.
    waited_ns: AtomicU64,
    /// Threads that wait for the lock, or to read.
    waiting: AtomicU32,
    value: ValueCell<T>,
}

// SAFETY: `value` is reached exclusively only between an acquired run lock and `RunLock::release`.
// The lock admits one thread at a time, and acquiring sees what the last release published, so `T: Send` is enough.
// Shared references come from `read` alone, which reaches a part that is `Sync`, and nothing else (`Readable`).
#[expect(unsafe_code, reason = "a cell shared between threads, guarded by a model-checked lock")]
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T: Acquire> Guarded<T> {
    /// A value whose lock is free.
    pub fn new(value: T) -> Self {
        Self {
            run_lock: RunLock::new(),
            waited_ns: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            value: ValueCell::new(value),
        }
    }

    /// A value whose lock is free, which at most `readers` threads may [read](Self::read) at the same time.
    pub fn with_readers(value: T, readers: usize) -> Self {
        Self { run_lock: RunLock::with_readers(readers), ..Self::new(value) }
    }

    /// The value, unless a lock holder panicked.
    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        if self.has_failed() {
            return None;
        }
        self.value.get_mut().acquired();
        Some(self.value.get_mut())
    }

    /// Whether a lock holder panicked.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.run_lock.is_poisoned()
    }

    /// Runs `work`; if it panics, poisons the lock.
    #[inline]
    pub fn poison_on_panic<R>(&self, work: impl FnOnce() -> R) -> R {
        let poisoner = Poisoner(&self.run_lock);
        let result = work();
        std::mem::forget(poisoner);
        result
    }

    /// How long the lock holder, this thread, waited for the lock, in nanoseconds; 0 from the second call on.
    #[inline]
    pub fn take_waited_ns(&self) -> u64 {
        let waited_ns = self.waited_ns.load(Relaxed);
        if waited_ns > 0 {
            self.waited_ns.store(0, Relaxed);
        }
        waited_ns
    }

    #[cold]
    fn acquire_timed(&self) -> bool {
        let started_ns = monotonic_ns();
        self.waiting.fetch_add(1, Relaxed);
        let is_acquired = self.run_lock.acquire();
        self.waiting.fetch_sub(1, Relaxed);
        if is_acquired {
            self.waited_ns.store(monotonic_ns().saturating_sub(started_ns), Relaxed);
        }
        is_acquired
    }

    /// Runs `work(value, true)` if the lock is free. Else calls `publish` and sets the pending bit, so that the holder runs again;
    /// if the holder has released meanwhile, runs `work(value, false)`. Runs again while the pending bit is set. Never blocks.
    #[inline]
    pub fn run_or_set_pending(&self, publish: impl FnOnce(), mut work: impl FnMut(&mut T, bool)) {
        let mut first = true;
        if !self.run_lock.try_acquire() {
            publish();
            first = false;
            if !self.run_lock.acquire_or_set_pending() {
                return;
            }
        }
        self.poison_on_panic(|| {
            self.with_held(T::begin_hold);
            loop {
                self.with_held(|value| {
                    value.acquired();
                    work(value, first);
                });
                first = false;
                if self.run_lock.release() {
                    return;
                }
            }
        });
    }

    /// Reaches the value by the thread that holds the run lock: the caller has acquired it, and not released since.
    #[inline]
    fn with_held<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.value.with_mut(|value| {
            // SAFETY: this thread holds the run lock, so no other reference to the value exists until `work` has ended.
            #[expect(unsafe_code, reason = "exclusive by the run lock")]
            work(unsafe { &mut *value })
        })
    }

    /// Waits for the lock and runs `work` once; runs `after` for each pending bit set meanwhile. `None` if a lock holder panicked.
    pub fn run<R>(&self, work: impl FnOnce(&mut T) -> R, after: impl FnMut(&mut T)) -> Option<R> {
        let work = |value: &mut T| {
            value.acquired();
            work(value)
        };
        self.run_as_it_is(work, after)
    }

    /// As [`run`](Self::run), without [`Acquire::acquired`] before `work`.
    pub fn run_as_it_is<R>(&self, work: impl FnOnce(&mut T) -> R, after: impl FnMut(&mut T)) -> Option<R> {
        // A thread that finds the lock free and loses it to another waits like those that found it held: counted.
        let is_acquired = !self.run_lock.is_held() && self.run_lock.try_acquire() || self.acquire_timed();
        is_acquired.then(|| self.run_acquired(work, after))
    }

    /// As [`run_as_it_is`](Self::run_as_it_is), if the lock is free: no thread waits for another here. `None` if it is held.
    pub fn try_run_as_it_is<R>(
        &self,
        work: impl FnOnce(&mut T) -> R,
        after: impl FnMut(&mut T),
    ) -> Option<R> {
        self.run_lock.try_acquire().then(|| self.run_acquired(work, after))
    }

    /// Whether a thread waits for what the lock's holder has, or has something for it to do.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.waiting.load(Relaxed) > 0 || self.run_lock.is_pending()
    }

    /// Runs `work` by the thread that has just acquired the lock, and releases it.
    fn run_acquired<R>(&self, work: impl FnOnce(&mut T) -> R, mut after: impl FnMut(&mut T)) -> R {
        self.poison_on_panic(|| {
            let result = self.with_held(|value| {
                value.begin_hold();
                work(value)
            });
            while !self.run_lock.release() {
                self.with_held(|value| {
                    value.acquired();
                    after(value);
                });
            }
            result
        })
    }
}

impl<T: Readable> Guarded<T> {
    /// Lets `reader` [read](Self::read) from now on. The caller holds the lock.
    pub fn add_reader(&self, reader: usize) {
        self.run_lock.add_reader(reader);
    }

    /// Lets `reader`, which does not read now, [read](Self::read) no more. The caller holds the lock.
    pub fn remove_reader(&self, reader: usize) {
        self.run_lock.remove_reader(reader);
    }

    /// How many readers a thread that acquires the lock looks at.
    #[cfg(test)]
    pub fn readers(&self) -> u32 {
        self.run_lock.readers()
    }

    /// Runs `work` on the part of the value that can be read, as reader `reader`, once no thread holds the lock: readers run beside each other,
    /// and a thread that acquires the lock waits for them. `None` after a panic under the lock.
    #[inline]
    pub fn read<R>(&self, reader: usize, work: impl FnOnce(&T::Part) -> R) -> Option<R> {
        let reading = self.run_lock.read(reader).or_else(|| self.read_waiting(reader))?;
        Some(self.read_by(reading, work))
    }

    /// Runs `work` on that part by the reader whose mark is set.
    #[inline]
    fn read_by<R>(&self, reading: Reading<'_>, work: impl FnOnce(&T::Part) -> R) -> R {
        let result = self.value.with(|value| {
            // SAFETY: the lock was free after the reader's mark was set, and a thread that acquires it waits until `reading` is
            // dropped. So no exclusive reference exists meanwhile. Of the value, only the part is reached (`Readable`), which is `Sync`.
            #[expect(unsafe_code, reason = "shared by the marks of the run lock's readers")]
            work(unsafe { &*value }.part())
        });
        drop(reading);
        result
    }

    /// Begins to read once the lock is free.
    #[cold]
    fn read_waiting(&self, reader: usize) -> Option<Reading<'_>> {
        self.waiting.fetch_add(1, Relaxed);
        let reading = self.run_lock.read_once_free(reader);
        self.waiting.fetch_sub(1, Relaxed);
        reading
    }
}

/// Poisons a run lock when dropped by a panic.
struct Poisoner<'a>(&'a RunLock);

impl Drop for Poisoner<'_> {
    fn drop(&mut self) {
        self.0.poison();
        error!("device failed: a thread panicked under its run lock");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl Acquire for u32 {}

    #[test]
    fn threads_that_wait_for_the_lock_are_counted_until_they_have_it() {
        const THREADS: u32 = 3;
        let guarded = Guarded::new(0);
        std::thread::scope(|scope| {
            let hold = |_: &mut u32| {
                for _ in 0..THREADS {
                    scope.spawn(|| guarded.run(|value| *value += 1, |_| ()));
                }
                while guarded.waiting.load(Relaxed) < THREADS {
                    assert!(!guarded.has_failed());
                    std::thread::yield_now();
                }
                assert!(guarded.is_wanted());
            };
            guarded.run(hold, |_| ());
        });
        assert!(!guarded.is_wanted());
        assert_eq!(guarded.run(|value| *value, |_| ()), Some(THREADS));
    }
}

#[cfg(all(test, loom))]
mod model;
