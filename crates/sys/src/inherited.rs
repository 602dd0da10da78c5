//! File descriptors and mappings that a forked child gives up at once.
//!
//! An image stays locked for as long as any process has the open file, by a descriptor or by a mapping. A child that
//! kept its parent's would keep the image "in use" after the parent has died. So a handler that the C library calls in the
//! child of `fork` replaces each registered descriptor by one that can neither be read nor written (`O_PATH`), and each
//! registered mapping by zeroed memory of the child's own. Numbers and addresses stay taken, so what the child drops
//! later closes and unmaps nothing else.
//!
//! **In the handler** there are loads and system calls, all of which may be made in the child of a process with threads. It
//! takes no lock: places are a list that only grows, whose heads are exchanged atomically. A child made by a bare `clone` has
//! no handler run; it keeps descriptors and mappings until it ends, and its calls are refused all the same
//! ([`OwnerProcess`](crate::OwnerProcess)).

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

/// No descriptor.
const NONE: RawFd = -1;

/// One descriptor or mapping. Places are never freed, only used again.
#[derive(Debug)]
struct Place {
    next: *const Place,
    taken: AtomicBool,
    fd: AtomicI32,
    start: AtomicUsize,
    /// Zero where there is no mapping.
    len_bytes: AtomicUsize,
}

static FIRST: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());

/// A descriptor or mapping that children give up, for as long as this lives. Dropped before what it names.
#[derive(Debug)]
pub struct NotInherited(&'static Place);

// SAFETY: a place's fields are atomic, but for `next`, which never changes once others see the place.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl NotInherited {
    /// Has children give up this descriptor.
    #[must_use]
    pub fn fd(fd: BorrowedFd<'_>) -> Self {
        install();
        let place = take();
        place.fd.store(fd.as_raw_fd(), Ordering::Release);
        Self(place)
    }

    /// Has children find zeroes of their own in place of this mapping, which is the caller's.
    pub(crate) fn mapping(start: usize, len_bytes: usize) -> Self {
        install();
        let place = take();
        place.start.store(start, Ordering::Relaxed);
        place.len_bytes.store(len_bytes, Ordering::Release);
        Self(place)
    }
}

impl Drop for NotInherited {
    fn drop(&mut self) {
        self.0.fd.store(NONE, Ordering::Relaxed);
        self.0.len_bytes.store(0, Ordering::Relaxed);
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Claims a free place, or adds one.
fn take() -> &'static Place {
    let free = |place: &&Place| {
        place.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    places().find(free).unwrap_or_else(add)
}

fn places() -> impl Iterator<Item = &'static Place> {
    // SAFETY: places are leaked, so a pointer to one is valid for ever, and null ends the list.
    let place = |at: *const Place| unsafe { at.as_ref() };
    std::iter::successors(place(FIRST.load(Ordering::Acquire)), move |found| place(found.next))
}

fn add() -> &'static Place {
    let place = Box::leak(Box::new(Place {
        next: ptr::null(),
        taken: AtomicBool::new(true),
        fd: AtomicI32::new(NONE),
        start: AtomicUsize::new(0),
        len_bytes: AtomicUsize::new(0),
    }));
    let mut first = FIRST.load(Ordering::Relaxed);
    loop {
        place.next = first;
        match FIRST.compare_exchange(first, place, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return place,
            Err(other) => first = other,
        }
    }
}

/// Has the C library call the handler in children, once.
pub(crate) fn install() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        // SAFETY: a handler that does only what the child of a process with threads may do. Where there is no memory for
        // it, children keep what they inherit.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

extern "C" fn in_child() {
    crate::generation::clear();
    for place in places() {
        match place.fd.load(Ordering::Acquire) {
            NONE => {}
            fd => give_up_fd(fd),
        }
        match place.len_bytes.load(Ordering::Acquire) {
            0 => {}
            len_bytes => give_up_mapping(place.start.load(Ordering::Relaxed), len_bytes),
        }
    }
}

/// Closes first: a child that has every descriptor in use gets the next one by that.
fn give_up_fd(fd: RawFd) {
    // SAFETY: system calls on a descriptor of the child's own copy, whose owner refuses every call here. The number is taken
    // again before anything else of the child runs.
    unsafe {
        libc::close(fd);
        let instead = libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        if instead >= 0 && instead != fd {
            libc::dup3(instead, fd, libc::O_CLOEXEC);
            libc::close(instead);
        }
    }
}

fn give_up_mapping(start: usize, len_bytes: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the range is a mapping whose owner registered it, and refuses every call in this process. The one thread of
    // the child is inside `fork`, so in no call that has a reference into the mapping.
    unsafe { libc::mmap(ptr::with_exposed_provenance_mut(start), len_bytes, protection, flags, NONE, 0) };
}

#[cfg(all(test, not(miri)))]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::fd::AsFd;

    use crate::map::{Mapping, PAGE_BYTES, Sharing};

    use super::*;

    /// What a forked child says by its exit status. `act` makes system calls and touches memory, and takes no lock.
    pub(crate) fn exit_of_child(act: impl FnOnce() -> i32) -> i32 {
        // SAFETY: the child does what is argued at each call, and ends without running anything of its parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = act();
            // SAFETY: ends this child.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: waits for that child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "status {status:#x}");
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn registered_fd_in_a_child_names_another_file_and_can_be_closed() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"parent").unwrap();
        let fd = file.as_raw_fd();
        let write = move || {
            // SAFETY: one byte of a constant, to a descriptor that takes none.
            unsafe { libc::pwrite(fd, b"x".as_ptr().cast(), 1, 0) as i32 }
        };
        let registered = NotInherited::fd(file.as_fd());
        // SAFETY: the number is the child's, and its own to close.
        let child = move || i32::from(write() == -1 && unsafe { libc::close(fd) } == 0);
        assert_eq!(exit_of_child(child), 1);
        drop(registered);
        assert_eq!(exit_of_child(write), 1);
        assert_eq!(file.metadata().unwrap().len(), 6);
    }

    #[test]
    fn registered_mapping_in_a_child_is_memory_of_its_own() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(PAGE_BYTES as u64).unwrap();
        let mapping = Mapping::file(&file, 0, PAGE_BYTES, Sharing::Shared).unwrap();
        mapping.write_at(0, &[7]).unwrap();
        let start = mapping.as_ptr().expose_provenance();
        let registered = NotInherited::mapping(start, PAGE_BYTES);
        let child = || {
            let mut byte = [9];
            mapping.read_at(0, &mut byte).unwrap();
            mapping.write_at(0, &[8]).unwrap();
            byte[0].into()
        };
        assert_eq!(exit_of_child(child), 0);
        let mut byte = [0];
        mapping.read_at(0, &mut byte).unwrap();
        assert_eq!(byte, [7]);
        drop(registered);
    }

    #[test]
    fn places_are_used_again() {
        let before = {
            let _two = [NotInherited::mapping(0, 0), NotInherited::mapping(0, 0)];
            places().count()
        };
        for _ in 0..100 {
            drop(NotInherited::mapping(0, 0));
        }
        // Other tests of this program take some meanwhile.
        assert!(places().count() < before + 50);
    }
}
