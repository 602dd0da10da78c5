//! Mappings of files that other processes may truncate, guarded so that SIGBUS does not end the process.
//!
//! An access to a mapped page beyond the end of its file, or one that its file system has no space for, raises SIGBUS. The
//! handler looks the address up among the guarded mappings, marks the mapping as lost, and replaces all of it by zeroed
//! anonymous memory; the instruction is restarted and reads zeroes. Other faults go to the handler installed before: a fault of the
//! process's own still ends it.
//!
//! **The handler** makes loads, one system call (by its number, which leaves `errno`) and stores: all are
//! async-signal-safe. It takes no lock: each guard is in a slot whose version is odd while it changes. The slot of a mapping
//! that is being accessed does not change, as its user keeps the mapping alive; a changing slot belongs to another.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};

use libc::{c_int, c_void, sigaction, siginfo_t};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Mappings of one process that are guarded at once.
pub const MAX_GUARDS: usize = 8192;

/// One mapping's place.
struct Slot {
    taken: AtomicBool,
    version: AtomicU32,
    start: AtomicUsize,
    len_bytes: AtomicUsize,
    is_lost: AtomicBool,
    /// Set as well when the mapping is lost, for an owner of several; null for none.
    shared: AtomicPtr<AtomicBool>,
}

static SLOTS: [Slot; MAX_GUARDS] = [const { Slot::new() }; MAX_GUARDS];

/// Slots below this one were used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// How often a mapping was lost.
static LOSSES: AtomicU64 = AtomicU64::new(0);

/// The signal's previous action.
static BEFORE: OnceLock<sigaction> = OnceLock::new();

/// How many guarded mappings of this process have been lost so far: who sees the same number again need not look at each.
#[must_use]
pub fn losses() -> u64 {
    LOSSES.load(Ordering::Acquire)
}

impl Slot {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            version: AtomicU32::new(0),
            start: AtomicUsize::new(0),
            len_bytes: AtomicUsize::new(0),
            is_lost: AtomicBool::new(false),
            shared: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Takes a free slot for the caller alone.
    fn take(&self) -> bool {
        !self.taken.load(Ordering::Relaxed)
            && self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Called by the one that took the slot, so by one at a time.
    fn set(&self, start: usize, len_bytes: usize, shared: *mut AtomicBool) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.len_bytes.store(len_bytes, Ordering::Relaxed);
        self.is_lost.store(false, Ordering::Relaxed);
        self.shared.store(shared, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The slot's mapping, unless it is changing.
    fn range(&self) -> Option<(usize, usize)> {
        let version = self.version.load(Ordering::Acquire);
        let range = (self.start.load(Ordering::Relaxed), self.len_bytes.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_whole = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        is_whole.then_some(range)
    }
}

/// The guard of one mapping, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Guard {
    slot: usize,
    /// Kept for the slot, which points to it.
    _shared: Option<Arc<AtomicBool>>,
}

impl Guard {
    /// Guards the `len_bytes` at `start`. `shared` is set when the mapping is lost.
    ///
    /// # Errors
    /// `StorageFull` where [`MAX_GUARDS`] mappings are guarded; the system's answer.
    ///
    /// # Safety
    /// The range is a mapping of which the caller may do what it likes, readable, writable and without references into
    /// it that are relied on once it is lost, for as long as the guard lives.
    pub unsafe fn new(start: usize, len_bytes: usize, shared: Option<Arc<AtomicBool>>) -> io::Result<Self> {
        install()?;
        let slot = SLOTS.iter().position(Slot::take).ok_or(io::ErrorKind::StorageFull)?;
        let flag = shared.as_ref().map_or(std::ptr::null_mut(), |shared| Arc::as_ptr(shared).cast_mut());
        SLOTS[slot].set(start, len_bytes, flag);
        USED.fetch_max(slot + 1, Ordering::Release);
        Ok(Self { slot, _shared: shared })
    }

    /// Whether zeroes were put in the mapping's place.
    pub fn is_lost(&self) -> bool {
        SLOTS.get(self.slot).is_some_and(|slot| slot.is_lost.load(Ordering::Acquire))
    }
}

impl Drop for Guard {
    /// Takes no lock: one that another thread holds at a fork is never released in the child.
    fn drop(&mut self) {
        let slot = &SLOTS[self.slot];
        slot.set(0, 0, std::ptr::null_mut());
        slot.taken.store(false, Ordering::Release);
    }
}

/// Puts the handler in its place, once.
fn install() -> io::Result<()> {
    static DONE: Mutex<bool> = Mutex::new(false);
    let mut done = crate::locked(&DONE);
    if *done {
        return Ok(());
    }
    // SAFETY: all zeroes is a valid value of the structure.
    let mut action: sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut before: sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_bus_error;
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: two structures of ours, the first with a handler that does only what a handler may.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let _ = BEFORE.set(before);
    *done = true;
    Ok(())
}

extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO what the signal is about.
    let (is_fault, address) = unsafe { ((*info).si_code > 0, (*info).si_addr().addr()) };
    if !(is_fault && replace(address)) {
        pass_on(signal, info, context);
    }
}

/// Puts zeroes in the place of the guarded mapping that `address` is in; whether there is one.
fn replace(address: usize) -> bool {
    let slots = SLOTS.iter().take(USED.load(Ordering::Acquire));
    for slot in slots {
        let Some((start, len_bytes)) =
            slot.range().filter(|(start, len)| address.wrapping_sub(*start) < *len)
        else {
            continue;
        };
        // Marked first: a thread that finds zeroes without a fault of its own sees the mark.
        slot.is_lost.store(true, Ordering::Release);
        // SAFETY: null, or the flag that the slot's guard keeps, as the mapping is kept by the thread that touches it.
        if let Some(shared) = unsafe { slot.shared.load(Ordering::Relaxed).as_ref() } {
            shared.store(true, Ordering::Release);
        }
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let place = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the range is a mapping that its owner has left to the guard, and stays one for as long as a thread
        // touches it, as the interrupted thread does.
        if unsafe { mmap_anonymous(place, len_bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }.is_err() {
            return false;
        }
        LOSSES.fetch_add(1, Ordering::AcqRel);
        return true;
    }
    false
}

/// Does what would have been done without this handler: calls the one before, or has the fault end the process.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = BEFORE.get().filter(|before| !matches!(before.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN));
    let Some(before) = before else {
        // SAFETY: back to the system's own handling; the instruction is done again and faults for good.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    };
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: a handler installed with this flag is a function of this kind.
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // SAFETY: without the flag it is one of this kind.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(signal);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::map::{Mapping, PAGE_BYTES, Sharing};

    fn two_pages() -> (std::fs::File, Mapping) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * PAGE_BYTES as u64).unwrap();
        let mapping = Mapping::guarded_file(&file, 0, 2 * PAGE_BYTES, Sharing::Shared).unwrap();
        (file, mapping)
    }

    #[test]
    fn a_mapping_whose_file_is_cut_short_reads_zeroes_and_says_that_it_is_lost() {
        let (file, mapping) = two_pages();
        mapping.fill_at(0, 2 * PAGE_BYTES, 7).unwrap();
        file.set_len(PAGE_BYTES as u64).unwrap();
        let mut byte = [1];
        mapping.read_at(0, &mut byte).unwrap();
        assert_eq!((byte, mapping.is_lost()), ([7], false), "what is there is the file's");
        let before = super::losses();
        mapping.read_at(PAGE_BYTES, &mut byte).unwrap();
        assert_eq!((byte, mapping.is_lost()), ([0], true));
        assert!(super::losses() > before);
        mapping.write_at(PAGE_BYTES, &[9]).unwrap();
        mapping.read_at(PAGE_BYTES, &mut byte).unwrap();
        assert_eq!(byte, [9]);
    }

    #[test]
    fn threads_that_meet_in_a_lost_mapping_all_go_on() {
        let (file, mapping) = two_pages();
        file.set_len(0).unwrap();
        std::thread::scope(|scope| {
            for at in 0..4 {
                let mapping = &mapping;
                scope.spawn(move || mapping.write_at(at * 2000, &[1]).unwrap());
            }
        });
        assert!(mapping.is_lost());
    }

    #[cfg(not(miri))]
    #[test]
    fn mapping_dropped_in_a_forked_child_waits_for_no_thread() {
        let guards = Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
        let other = Arc::clone(&guards);
        // Not waited for where the test fails.
        let thread = std::thread::spawn(move || {
            let (_file, mapping) = two_pages();
            let start = mapping.as_ptr().expose_provenance();
            while !other.1.load(Ordering::Relaxed) {
                // SAFETY: of a mapping that outlives it and is not touched meanwhile.
                drop(unsafe { Guard::new(start, PAGE_BYTES, None) });
                other.0.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..300 {
            let before = guards.0.load(Ordering::Relaxed);
            while guards.0.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
            let mut mapping = Some(two_pages());
            let ended = crate::inherited::tests::exit_of_child(|| {
                // SAFETY: ends a child that waits for ever.
                unsafe { libc::alarm(10) };
                drop(mapping.take());
                7
            });
            assert_eq!(ended, 7);
        }
        guards.1.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    }

    #[test]
    fn a_guard_goes_with_its_mapping_and_its_place_is_used_again() {
        for _ in 0..2 * super::MAX_GUARDS {
            let (_, mapping) = two_pages();
            assert!(!mapping.is_lost());
        }
    }

    /// Runs in a process of its own.
    #[test]
    #[ignore = "the child of the test below"]
    fn child_touches_an_unguarded_mapping() {
        let (file, guarded) = two_pages();
        let plain = Mapping::file(&file, 0, PAGE_BYTES, Sharing::Shared).unwrap();
        file.set_len(0).unwrap();
        guarded.read_at(0, &mut [0]).unwrap();
        let _ = plain.read_at(0, &mut [0]);
    }

    #[test]
    fn a_fault_in_what_is_not_guarded_still_ends_the_process() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "guard::tests::child_touches_an_unguarded_mapping"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(child.signal(), Some(libc::SIGBUS));
    }
}
