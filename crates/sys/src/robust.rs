//! A lock in memory that processes share, which outlives whoever dies with it.
//!
//! The C library's robust mutex: the kernel walks the list of those that a thread holds when it ends, however it ends, and the next
//! one to lock is told. Five words on Linux; the mapping's owner says where.

use std::io;
use std::marker::PhantomData;

use libc::{EOWNERDEAD, pthread_mutex_t, pthread_mutexattr_t};

use crate::map::{MapError, Mapping};

/// Bytes of a lock, a multiple of 8.
pub const LOCK_BYTES: usize = size_of::<pthread_mutex_t>().next_multiple_of(8);

/// A lock at some place of a mapping.
#[derive(Debug, Clone, Copy)]
pub struct RobustLock<'m> {
    mutex: *mut pthread_mutex_t,
    _map: &'m Mapping,
}

// SAFETY: the mutex is process-shared, so every thread may use it, and the mapping that holds it is borrowed.
unsafe impl Send for RobustLock<'_> {}
// SAFETY: as above.
unsafe impl Sync for RobustLock<'_> {}

/// How a lock was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// Whoever had it before let it go.
    Clean,
    /// Whoever had it before died with it: what it guards may be half done.
    OwnerDied,
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub struct Held<'l> {
    lock: RobustLock<'l>,
    locked: Locked,
    /// The thread that locked is the one that lets go.
    _thread: PhantomData<*const ()>,
}

impl<'m> RobustLock<'m> {
    /// The lock at `at` of a mapping, which [`RobustLock::make`] made there once.
    ///
    /// # Errors
    /// [`MapError`] for a place that is not inside the mapping, or not a multiple of 8.
    pub fn at(map: &'m Mapping, at: usize) -> Result<Self, MapError> {
        Ok(Self { mutex: map.check(at, LOCK_BYTES, 8)?.cast(), _map: map })
    }

    /// Makes the lock, let go. Nobody uses it meanwhile.
    ///
    /// # Errors
    /// What the system says.
    pub fn make(&self) -> io::Result<()> {
        let mut attributes = std::mem::MaybeUninit::<pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised by the first call and given back by the last; the mutex is inside the mapping
        // and aligned, and nobody uses it yet.
        unsafe {
            answer(libc::pthread_mutexattr_init(attributes))?;
            answer(libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED))?;
            answer(libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST))?;
            answer(libc::pthread_mutex_init(self.mutex, attributes))?;
            answer(libc::pthread_mutexattr_destroy(attributes))
        }
    }

    /// Waits for the lock. Not for a thread that holds it.
    ///
    /// # Errors
    /// What the system says: memory that somebody spoiled holds no lock.
    #[inline]
    pub fn lock(self) -> io::Result<Held<'m>> {
        // SAFETY: made before, inside a mapping that is borrowed.
        match unsafe { libc::pthread_mutex_lock(self.mutex) } {
            0 => Ok(Held { lock: self, locked: Locked::Clean, _thread: PhantomData }),
            EOWNERDEAD => {
                // SAFETY: this thread holds it, with its owner dead.
                answer(unsafe { libc::pthread_mutex_consistent(self.mutex) })?;
                Ok(Held { lock: self, locked: Locked::OwnerDied, _thread: PhantomData })
            }
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl Held<'_> {
    /// How it was come by.
    #[must_use]
    pub const fn locked(&self) -> Locked {
        self.locked
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this thread holds it: a guard stays with the thread that made it.
        let gone = unsafe { libc::pthread_mutex_unlock(self.lock.mutex) };
        debug_assert_eq!(gone, 0, "a lock that was held");
    }
}

fn answer(error: i32) -> io::Result<()> {
    match error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "robust mutexes are not there")]
    fn one_thread_at_a_time_has_the_lock() {
        let map = Mapping::anonymous(4096).unwrap();
        RobustLock::at(&map, 64).unwrap().make().unwrap();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..1000 {
                        let held = RobustLock::at(&map, 64).unwrap().lock().unwrap();
                        map.store_u64(0, map.load_u64(0).unwrap() + 1).unwrap();
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(map.load_u64(0).unwrap(), 4000);
    }

    #[test]
    #[cfg_attr(miri, ignore = "robust mutexes are not there")]
    fn who_locks_after_a_dead_owner_is_told_once() {
        let map = Mapping::anonymous(4096).unwrap();
        let lock = RobustLock::at(&map, 0).unwrap();
        lock.make().unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| std::mem::forget(RobustLock::at(&map, 0).unwrap().lock().unwrap()));
        });
        assert_eq!(lock.lock().unwrap().locked(), Locked::OwnerDied);
        assert_eq!(lock.lock().unwrap().locked(), Locked::Clean);
    }

    #[test]
    fn a_place_outside_holds_no_lock() {
        let map = Mapping::anonymous(4096).unwrap();
        assert!(RobustLock::at(&map, 4090).is_err() && RobustLock::at(&map, 4).is_err());
    }
}
