//! A robust lock in memory that processes share: the kernel releases it when its holder dies.
//!
//! The lock is one futex word: zero, or the holder's thread ID with the bits FUTEX_WAITERS and FUTEX_OWNER_DIED. When a thread ends, the
//! kernel releases the locks of its robust list and the one in `list_op_pending`: a lock is there for as long as it is held. The C
//! library's robust mutexes are linked in the list itself, through the shared memory, so a process that maps it could make others write
//! anywhere. Here no shared pointer is followed: a process that overwrites the word spoils this lock alone, and waiters bound their wait
//! ([`RobustLock::lock_within`]).

use std::cell::Cell;
use std::ffi::{c_long, c_void};
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};
use std::time::Duration;

use libc::EDEADLK;
use rustix::io::Errno;
use rustix::thread::futex;

use crate::Deadline;
use crate::map::{MapError, Mapping};

/// Bytes of a lock.
pub const LOCK_BYTES: usize = 8;

/// A thread waits in the kernel (FUTEX_WAITERS).
const WAITERS: u32 = 1 << 31;

/// The holder died (FUTEX_OWNER_DIED).
const OWNER_DIED: u32 = 1 << 30;

/// The holder's number (FUTEX_TID_MASK).
const HOLDER: u32 = OWNER_DIED - 1;

/// A lock at some place of a mapping.
#[derive(Debug, Clone, Copy)]
pub struct RobustLock<'m> {
    word: &'m AtomicU32,
}

/// How a lock was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// The previous holder released it.
    Clean,
    /// The previous holder died with it: the guarded state may be half changed.
    OwnerDied,
}

/// Holds the lock until it is dropped. A thread holds one at a time: of two, the kernel would know the later one.
#[derive(Debug)]
pub struct Held<'l> {
    word: &'l AtomicU32,
    locked: Locked,
    _pending: Pending,
    /// The thread that locked is the one that unlocks.
    _thread: PhantomData<*const ()>,
}

impl<'m> RobustLock<'m> {
    /// The lock at `at` of a mapping, which [`RobustLock::make`] made there once.
    ///
    /// # Errors
    /// [`MapError`] for a place that is not inside the mapping, or not a multiple of 8.
    #[inline]
    pub fn at(map: &'m Mapping, at: usize) -> Result<Self, MapError> {
        map.check(at, LOCK_BYTES, 8)?;
        Ok(Self { word: &map.words()[at / size_of::<u32>()] })
    }

    /// Initializes the lock as unlocked. No thread uses it meanwhile.
    pub fn make(&self) {
        self.word.store(0, Ordering::Release);
    }

    /// Whether a living thread holds it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::SeqCst) & HOLDER != 0
    }

    /// Whether this thread holds it: below a signal handler that it is in, or it has jumped out of there.
    #[must_use]
    pub fn is_mine(&self) -> bool {
        Thread::current().is_ok_and(|me| self.word.load(Ordering::SeqCst) & HOLDER == me.number)
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// What the system says; EDEADLK to a thread that holds it.
    #[inline]
    pub fn lock(self) -> io::Result<Held<'m>> {
        self.take(|| Duration::MAX)
    }

    /// Waits for the lock at most `timeout`: for memory shared with a process that may never release it.
    ///
    /// # Errors
    /// `TimedOut`, or what [`RobustLock::lock`] fails with.
    #[inline]
    pub fn lock_within(self, timeout: Duration) -> io::Result<Held<'m>> {
        self.take(|| timeout)
    }

    /// The same, for who asks how long only where it is to be waited for.
    ///
    /// # Errors
    /// As [`RobustLock::lock_within`].
    #[inline]
    pub fn lock_as_long_as(self, timeout: impl FnOnce() -> Duration) -> io::Result<Held<'m>> {
        self.take(timeout)
    }

    #[inline]
    fn take(self, timeout: impl FnOnce() -> Duration) -> io::Result<Held<'m>> {
        let me = Thread::current()?;
        // Before the word says so: a thread that ends in between is found with it.
        let _pending = me.is_about(self.word);
        let locked = match self.word.compare_exchange(0, me.number, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Locked::Clean,
            Err(_) => self.wait(me.number, Deadline::after(timeout()))?,
        };
        Ok(Held { word: self.word, locked, _pending, _thread: PhantomData })
    }

    #[cold]
    fn wait(self, me: u32, deadline: Deadline) -> io::Result<Locked> {
        // A woken thread does not know whether others still wait, so it wakes one more when it unlocks.
        let mut mine = me;
        loop {
            let now = self.word.load(Ordering::Relaxed);
            if now & HOLDER == me {
                return Err(io::Error::from_raw_os_error(EDEADLK));
            }
            if now & HOLDER == 0 {
                let taken = mine | now & WAITERS;
                if self.word.compare_exchange(now, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Ok(if now & OWNER_DIED == 0 { Locked::Clean } else { Locked::OwnerDied });
                }
                continue;
            }
            let waited = now | WAITERS;
            if now == waited
                || self.word.compare_exchange(now, waited, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                self.sleep(waited, deadline)?;
                mine = me | WAITERS;
            }
        }
    }

    /// Sleeps while the word is `word`.
    fn sleep(self, word: u32, deadline: Deadline) -> io::Result<()> {
        if deadline.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left =
            deadline.left().map(rustix::fs::Timespec::try_from).transpose().map_err(io::Error::other)?;
        match futex::wait(self.word, futex::Flags::empty(), word, left.as_ref()) {
            // The word changed, an unlock woke us, or time is over, which is checked next.
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(()),
            Err(error) => Err(error.into()),
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
        if self.word.swap(0, Ordering::Release) & WAITERS != 0 {
            // No waiter is left behind: the wake fails only for a word that is not in our memory.
            let _ = futex::wake(self.word, futex::Flags::empty(), 1);
        }
    }
}

/// The calling thread, to the kernel.
#[derive(Debug, Clone, Copy)]
struct Thread {
    number: u32,
    list: *mut RobustList,
}

/// The head of a thread's robust list (linux/futex.h). glibc registers one for each thread; musl does so at a thread's first robust
/// mutex, so that there is [`OwnList`].
#[repr(C)]
struct RobustList {
    first: *mut c_void,
    /// From an entry of the list to its word.
    word_offset: c_long,
    /// The entry that the thread is about.
    pending: *mut c_void,
}

thread_local! {
    static CURRENT: Cell<Thread> = const { Cell::new(Thread::UNKNOWN) };
    static OWN: OwnList = OwnList::new();
}

/// A robust list of this module, for a thread whose C library has registered none.
struct OwnList(*mut RobustList);

impl OwnList {
    fn new() -> Self {
        let null = std::ptr::null_mut();
        let list = Box::into_raw(Box::new(RobustList { first: null, word_offset: 0, pending: null }));
        // SAFETY: made above. An empty list is a circle of its head alone.
        unsafe { (*list).first = list.cast() };
        Self(list)
    }

    /// Names it to the kernel: for a new thread, and for a child of fork, which has its parent's memory and no list.
    fn register(&self) -> io::Result<*mut RobustList> {
        // SAFETY: this thread's own; locks that a parent held are not the child's.
        unsafe { (*self.0).pending = std::ptr::null_mut() };
        // SAFETY: the head stays where it is until it is withdrawn.
        let answer = unsafe { libc::syscall(libc::SYS_set_robust_list, self.0, size_of::<RobustList>()) };
        if answer == 0 { Ok(self.0) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for OwnList {
    fn drop(&mut self) {
        // SAFETY: this thread's own.
        if !unsafe { (*self.0).pending.is_null() } {
            // The thread ends with a lock: the kernel reads the head once the thread is gone.
            return;
        }
        let null = std::ptr::null_mut::<RobustList>();
        // SAFETY: withdraws the head; where that fails it stays allocated.
        if unsafe { libc::syscall(libc::SYS_set_robust_list, null, size_of::<RobustList>()) } == 0 {
            CURRENT.set(Thread::UNKNOWN);
            // SAFETY: made by `new`, and known to nothing any more.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

/// Whether the handler is installed by which a forked child forgets its parent's thread.
static HAS_FORK_HANDLER: AtomicBool = AtomicBool::new(false);

impl Thread {
    const UNKNOWN: Self = Self { number: 0, list: std::ptr::null_mut() };

    #[inline]
    fn current() -> io::Result<Self> {
        match CURRENT.get() {
            known if known.number != 0 => Ok(known),
            _ => Self::look(),
        }
    }

    #[cold]
    fn look() -> io::Result<Self> {
        let mut list: *mut RobustList = std::ptr::null_mut();
        let mut len: usize = 0;
        // SAFETY: the call stores a pointer and a length in ours; zero is the calling thread.
        let answer = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut list, &raw mut len) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        if len != size_of::<RobustList>() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        if list.is_null() {
            list = OWN.try_with(OwnList::register).map_err(io::Error::other)??;
        }
        if !HAS_FORK_HANDLER.swap(true, Ordering::Relaxed) {
            // SAFETY: the function stores a word of the thread that calls it.
            unsafe { libc::pthread_atfork(None, None, Some(forget)) };
        }
        let number = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        CURRENT.set(Self { number, list });
        Ok(CURRENT.get())
    }

    /// Names the lock that the thread takes or holds to the kernel, until the result is dropped.
    #[inline]
    fn is_about(self, word: &AtomicU32) -> Pending {
        // SAFETY: the head is this thread's own and lives as long as it does; the kernel reads it when the thread is gone.
        unsafe {
            let entry =
                std::ptr::from_ref(word).cast::<u8>().wrapping_offset(-((*self.list).word_offset as isize));
            let before = (&raw const (*self.list).pending).read_volatile();
            (&raw mut (*self.list).pending).write_volatile(entry.cast_mut().cast());
            compiler_fence(Ordering::SeqCst);
            Pending { list: self.list, before }
        }
    }
}

/// In a child of fork: it is another thread.
extern "C" fn forget() {
    forget_thread();
}

/// For a child of a fork that runs nothing by itself (`_Fork`): this thread is another one than its parent's, whose number its locks would have. The
/// kernel would not give them back when it ends.
pub fn forget_thread() {
    CURRENT.set(Thread::UNKNOWN);
}

/// Until it is dropped, the kernel knows of a lock.
#[derive(Debug)]
struct Pending {
    list: *mut RobustList,
    before: *mut c_void,
}

impl Drop for Pending {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as where it was set, by the same thread.
        unsafe { (&raw mut (*self.list).pending).write_volatile(self.before) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "robust lists are not there")]
    fn one_thread_at_a_time_has_the_lock() {
        let map = Mapping::anonymous(4096).unwrap();
        RobustLock::at(&map, 64).unwrap().make();
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
    #[cfg_attr(miri, ignore = "robust lists are not there")]
    fn a_lock_after_a_dead_owner_reports_it_once() {
        let map = Mapping::anonymous(4096).unwrap();
        let lock = RobustLock::at(&map, 0).unwrap();
        lock.make();
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

    #[test]
    #[cfg_attr(miri, ignore = "robust lists are not there")]
    fn a_waiter_reports_that_the_holder_died_meanwhile() {
        let map = Mapping::anonymous(4096).unwrap();
        let lock = RobustLock::at(&map, 8).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                std::mem::forget(RobustLock::at(&map, 8).unwrap().lock().unwrap());
                std::thread::sleep(Duration::from_millis(50));
            });
            while map.load_u32(8).unwrap() == 0 {
                std::thread::yield_now();
            }
            assert_eq!(lock.lock().unwrap().locked(), Locked::OwnerDied);
        });
    }

    unsafe extern "C" {
        fn _Fork() -> libc::pid_t;
    }

    #[test]
    #[cfg_attr(miri, ignore = "robust lists are not there")]
    fn a_child_of_a_bare_fork_that_dies_with_a_lock_leaves_it_to_others() {
        let file = crate::memfd::sealed("test", 4096).unwrap();
        let map = Mapping::file(&file, 0, 4096, crate::map::Sharing::Shared).unwrap();
        let lock = RobustLock::at(&map, 0).unwrap();
        lock.make();
        drop(lock.lock().unwrap());
        // SAFETY: the child makes a lock its own and ends.
        let child = unsafe { _Fork() };
        if child == 0 {
            forget_thread();
            std::mem::forget(lock.lock());
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: a child of this process, whose status is not needed.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        assert_eq!(lock.lock_within(Duration::from_secs(1)).unwrap().locked(), Locked::OwnerDied);
    }

    #[test]
    #[cfg_attr(miri, ignore = "robust lists are not there")]
    fn a_wait_that_times_out_goes_without_and_a_second_lock_is_refused() {
        let map = Mapping::anonymous(4096).unwrap();
        let lock = RobustLock::at(&map, 8).unwrap();
        assert!(!lock.is_held() && !lock.is_mine());
        let held = lock.lock().unwrap();
        assert!(lock.is_held() && lock.is_mine());
        assert_eq!(lock.lock().unwrap_err().raw_os_error(), Some(EDEADLK));
        std::thread::scope(|threads| {
            assert!(threads.spawn(|| !lock.is_mine()).join().unwrap());
            let other = threads
                .spawn(|| RobustLock::at(&map, 8).unwrap().lock_within(Duration::from_millis(1)).map(drop));
            assert_eq!(other.join().unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
        drop(held);
        assert_eq!(lock.lock_within(Duration::ZERO).unwrap().locked(), Locked::Clean);
    }

    #[test]
    #[cfg_attr(miri, ignore = "robust lists are not there")]
    fn a_spoiled_word_keeps_no_waiter_longer_than_its_timeout() {
        let map = Mapping::anonymous(4096).unwrap();
        let lock = RobustLock::at(&map, 8).unwrap();
        for word in [1, u32::MAX, WAITERS | 7] {
            map.store_u32(8, word).unwrap();
            assert!(lock.lock_within(Duration::from_millis(1)).is_err(), "{word:#x}");
        }
        map.store_u32(8, OWNER_DIED | WAITERS).unwrap();
        assert_eq!(lock.lock().unwrap().locked(), Locked::OwnerDied);
        assert_eq!(lock.lock().unwrap().locked(), Locked::Clean);
    }
}
