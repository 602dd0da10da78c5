//! Which process opened something: a forked child inherits its parent's handles and must use none of them.
//!
//! A word in a page that the kernel wipes on fork (`MADV_WIPEONFORK`) holds the generation of the running process. A handle
//! keeps the generation that it was opened in, so the check is two loads and no system call.

use std::fmt::Display;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::generation;
use crate::inherited;
use crate::thread;
use crate::wipe_on_fork::WipedWord;

/// Generations given so far. A child inherits the count, so no descendant has an ancestor's generation, even where the
/// system uses a process number again.
static GENERATIONS: AtomicU64 = AtomicU64::new(0);

/// The process that opened something.
#[derive(Debug, Clone, Copy)]
pub struct OwnerProcess {
    word: &'static AtomicU64,
    generation: u64,
    process: u32,
}

impl OwnerProcess {
    /// The calling process.
    #[must_use]
    pub fn current() -> Self {
        inherited::install();
        let word = word();
        let generation = match word.load(Relaxed) {
            0 => begin_generation(word),
            generation => generation,
        };
        Self { word, generation, process: thread::process() }
    }

    /// Whether it is the calling process. A child of `vfork`, which shares the memory of its parent, counts as its parent.
    #[inline]
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.word.load(Relaxed) == self.generation
    }

    /// Its process number.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.process
    }

    /// The sentence that refuses a forked child the use of `what`, which process `number` opened.
    #[must_use]
    pub fn refusal(what: impl Display, number: u32) -> String {
        format!("{what} was opened by process {number}; a forked child must open its own")
    }
}

fn word() -> &'static AtomicU64 {
    static WIPED: OnceLock<Option<WipedWord>> = OnceLock::new();
    WIPED.get_or_init(|| WipedWord::new().ok()).as_ref().map_or(generation::word(), WipedWord::get)
}

fn begin_generation(word: &AtomicU64) -> u64 {
    let new = GENERATIONS.fetch_add(1, Relaxed) + 1;
    word.compare_exchange(0, new, Relaxed, Relaxed).map_or_else(|other| other, |_| new)
}

/// A value that only the process which made it drops. In a forked child its memory is left as it is: no lock is taken that
/// another thread held at the fork, no thread is joined, nothing is sent.
///
/// The value is reached without a check; calls that use it ask [`ProcessLocal::owner`] first.
#[derive(Debug)]
pub struct ProcessLocal<T> {
    owner: OwnerProcess,
    value: ManuallyDrop<T>,
}

impl<T> ProcessLocal<T> {
    /// A value of the calling process.
    pub fn new(value: T) -> Self {
        Self { owner: OwnerProcess::current(), value: ManuallyDrop::new(value) }
    }

    /// The process that made it.
    #[inline]
    #[must_use]
    pub const fn owner(&self) -> &OwnerProcess {
        &self.owner
    }

    /// The value, in the process that made it.
    ///
    /// # Errors
    /// The owner, in any other process; the value is left as it is.
    pub fn into_inner(self) -> Result<T, OwnerProcess> {
        let mut this = ManuallyDrop::new(self);
        if this.owner.is_current() {
            // SAFETY: `this` is neither dropped nor used after this.
            return Ok(unsafe { ManuallyDrop::take(&mut this.value) });
        }
        Err(this.owner)
    }
}

impl<T> From<T> for ProcessLocal<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T> Deref for ProcessLocal<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for ProcessLocal<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Clone> Clone for ProcessLocal<T> {
    fn clone(&self) -> Self {
        Self { owner: self.owner, value: self.value.clone() }
    }
}

impl<T> Drop for ProcessLocal<T> {
    fn drop(&mut self) {
        if self.owner.is_current() {
            // SAFETY: dropped here alone, at the end of this value.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;
    use crate::inherited::tests::exit_of_child;

    #[test]
    fn owner_in_a_forked_child_is_another_process() {
        let owner = OwnerProcess::current();
        assert_eq!((owner.is_current(), owner.number()), (true, std::process::id()));
        assert_eq!(exit_of_child(|| i32::from(owner.is_current())), 0);
        // The child's own handles are its own, and its children's are others again.
        let own = || OwnerProcess::current().is_current() && !owner.is_current();
        assert_eq!(exit_of_child(|| i32::from(own())), 1);
        assert!(owner.is_current());
    }

    #[test]
    fn owner_in_a_raw_clone_is_another_process() {
        let owner = OwnerProcess::current();
        // SAFETY: as fork, without the C library's handlers; the child makes no call but the one that ends it.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if child == 0 {
            // SAFETY: ends this child.
            unsafe { libc::_exit(i32::from(owner.is_current())) };
        }
        let mut status = -1;
        // SAFETY: waits for that child.
        unsafe { libc::waitpid(child as i32, &raw mut status, 0) };
        assert_eq!(status, 0);
    }

    #[test]
    fn process_local_value_is_dropped_by_its_own_process_alone() {
        let counted = Arc::new(());
        let local = ProcessLocal::new(Arc::clone(&counted));
        let kept = exit_of_child(|| {
            // SAFETY: read once more, as the child's copy of what the parent drops itself.
            drop(unsafe { std::ptr::read(&raw const local) });
            Arc::strong_count(&counted) as i32
        });
        assert_eq!(kept, 2);
        drop(local);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
