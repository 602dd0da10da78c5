//! The function's interrupts: one descriptor of the host's for each vector, its masks and its pending bit.
//!
//! A raised vector signals the eventfd that the host armed it with. While it has none, or is masked, the pending bit is set;
//! arming or unmasking then signals. There are three masks: SET_IRQS, the MSI-X table, and the function's own. Hosts such as QEMU
//! keep the table themselves and never write it, so its power-on mask counts only after a write.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use byway_controller::Interrupts;
use byway_sys::EventSignal;
use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::bar::VECTORS;

/// The word of a table entry with the mask, and its bit there.
const CONTROL: u8 = 3;
const MASKED: u32 = 1;

/// A descriptor that a vector cannot be armed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an interrupt is signalled by an eventfd; the descriptor is not an eventfd")]
pub struct NoEventFd;

/// All vectors of one function.
#[derive(Debug)]
pub struct Vectors {
    vectors: Box<[Mutex<Vector>]>,
    /// The function's own mask.
    all_masked: AtomicBool,
    /// Non-blocking signalling of eventfds; `None` if the system lacks it. Created early, while descriptors are free.
    signal: Option<EventSignal>,
}

#[derive(Debug)]
struct Vector {
    event: Option<Event>,
    /// By SET_IRQS.
    masked: bool,
    pending: bool,
    /// As the MSI-X table has it.
    table: [u32; 4],
    table_written: bool,
}

impl Default for Vector {
    fn default() -> Self {
        Self { event: None, masked: false, pending: false, table: [0, 0, 0, MASKED], table_written: false }
    }
}

impl Default for Vectors {
    fn default() -> Self {
        Self {
            vectors: (0..VECTORS).map(|_| Mutex::default()).collect(),
            all_masked: AtomicBool::new(false),
            signal: EventSignal::new().ok(),
        }
    }
}

impl Interrupts for Vectors {
    fn raise(&self, vector: u16) {
        self.change(vector, |vector| vector.pending = true);
    }
}

impl Vectors {
    /// Arms the vectors from `first` on with these eventfds, one each.
    ///
    /// # Errors
    /// One is not an eventfd; nothing is changed then.
    pub fn arm(&self, first: u16, fds: Vec<OwnedFd>) -> Result<(), NoEventFd> {
        let events: Vec<Event> = fds.into_iter().map(Event::new).collect::<Result<_, _>>()?;
        for (vector, event) in (first..).zip(events) {
            self.change(vector, |vector| vector.event = Some(event));
        }
        Ok(())
    }

    /// Removes the eventfds of these vectors.
    pub fn disarm(&self, vectors: Range<u16>) {
        vectors.for_each(|vector| self.change(vector, |vector| vector.event = None));
    }

    /// Masks `vector`, or unmasks it.
    pub fn mask(&self, vector: u16, masked: bool) {
        self.change(vector, |vector| vector.masked = masked);
    }

    /// Masks every vector, or lets each count for itself again.
    pub fn mask_all(&self, masked: bool) {
        if self.all_masked.swap(masked, Ordering::SeqCst) != masked {
            (0..VECTORS).for_each(|vector| self.change(vector, |_| {}));
        }
    }

    /// A word of the MSI-X table.
    pub fn read_table(&self, vector: u16, word: u8) -> u32 {
        let entry = self.lock(vector).map(|vector| vector.table);
        entry.and_then(|entry| entry.get(usize::from(word)).copied()).unwrap_or(0)
    }

    /// Writes a word of the MSI-X table.
    pub fn write_table(&self, vector: u16, word: u8, value: u32) {
        self.change(vector, |vector| {
            if let Some(entry) = vector.table.get_mut(usize::from(word)) {
                *entry = value;
                vector.table_written |= word == CONTROL;
            }
        });
    }

    /// The pending bits of the 32 vectors from `first` on.
    pub fn pending(&self, first: u16) -> u32 {
        let is_pending = |bit: &u16| self.lock(first.saturating_add(*bit)).is_some_and(|v| v.pending);
        (0..32).filter(is_pending).fold(0, |bits, bit| bits | 1 << bit)
    }

    /// Function level reset: nothing is pending or masked, and each vector keeps its descriptor.
    pub fn reset(&self) {
        self.all_masked.store(false, Ordering::SeqCst);
        for vector in 0..VECTORS {
            self.change(vector, |vector| {
                *vector = Vector { event: vector.event.take(), ..Vector::default() }
            });
        }
    }

    /// The client has disconnected: back to power-on state.
    pub fn forget(&self) {
        self.all_masked.store(false, Ordering::SeqCst);
        (0..VECTORS).for_each(|vector| self.change(vector, |vector| *vector = Vector::default()));
    }

    fn lock(&self, vector: u16) -> Option<MutexGuard<'_, Vector>> {
        Some(self.vectors.get(usize::from(vector))?.lock())
    }

    /// Changes a vector, then signals it if it is pending, armed and not masked.
    fn change(&self, vector: u16, change: impl FnOnce(&mut Vector)) {
        let Some(mut vector) = self.lock(vector) else { return };
        change(&mut vector);
        // Loaded under the vector's lock: `mask_all(false)` visits this vector afterwards.
        let masked = self.all_masked.load(Ordering::SeqCst) || vector.is_masked();
        if !vector.pending || masked {
            return;
        }
        if let Some(event) = &vector.event {
            self.signal(event);
            vector.pending = false;
        }
    }

    /// Signals an eventfd without blocking, even if the host has filled its counter or changed its flags. A full counter is
    /// readable, so the host is notified already.
    fn signal(&self, event: &Event) {
        let signal = self.signal.as_ref();
        if signal.is_none_or(|signal| signal.signal(event.0.as_fd()).is_err()) {
            event.write();
        }
    }
}

impl Vector {
    const fn is_masked(&self) -> bool {
        self.masked || self.table_written && self.table[CONTROL as usize] & MASKED != 0
    }
}

/// An eventfd of the host's.
#[derive(Debug)]
struct Event(OwnedFd);

impl Event {
    fn new(fd: OwnedFd) -> Result<Self, NoEventFd> {
        // A pipe or a socket could be full, and a file could be anything.
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let what = std::fs::read_link(link).map_err(|_| NoEventFd)?;
        if what.as_os_str() != "anon_inode:[eventfd]" {
            return Err(NoEventFd);
        }
        Ok(Self(fd))
    }

    /// For systems without a better way: it waits where the host fills the counter between the two calls.
    fn write(&self) {
        let (now, fd) = (Timespec { tv_sec: 0, tv_nsec: 0 }, self.0.as_fd());
        if matches!(poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&now)), Ok(1..)) {
            let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    fn event() -> (OwnedFd, OwnedFd) {
        let fd = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        (fd.try_clone().unwrap(), fd)
    }

    fn times(fd: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(fd, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    #[test]
    fn raise_signals_the_armed_vector_only() {
        let (vectors, (one, host)) = (Vectors::default(), event());
        vectors.arm(5, vec![one]).unwrap();
        vectors.raise(4);
        assert_eq!(times(&host), 0);
        vectors.raise(5);
        assert_eq!((times(&host), vectors.pending(0)), (1, 1 << 4));
    }

    #[test]
    fn vector_raised_while_disarmed_is_signalled_by_arming() {
        let (vectors, (one, host)) = (Vectors::default(), event());
        vectors.raise(128);
        assert_eq!(vectors.pending(128), 1);
        vectors.arm(128, vec![one]).unwrap();
        assert_eq!((times(&host), vectors.pending(128)), (1, 0));
        vectors.disarm(100..VECTORS);
        vectors.raise(128);
        assert_eq!((times(&host), vectors.pending(128)), (0, 1));
    }

    #[test]
    fn each_mask_defers_and_unmasking_signals_once() {
        type Mask = fn(&Vectors, bool);
        let masks: [Mask; 3] = [
            |vectors, on| vectors.mask(3, on),
            |vectors, on| vectors.mask_all(on),
            |vectors, on| vectors.write_table(3, CONTROL, u32::from(on)),
        ];
        for mask in masks {
            let (vectors, (one, host)) = (Vectors::default(), event());
            vectors.arm(3, vec![one]).unwrap();
            mask(&vectors, true);
            vectors.raise(3);
            vectors.raise(3);
            assert_eq!((times(&host), vectors.pending(0)), (0, 1 << 3));
            mask(&vectors, false);
            assert_eq!((times(&host), vectors.pending(0)), (1, 0));
        }
    }

    #[test]
    fn msix_table_before_the_first_write_masks_nothing() {
        let (vectors, (one, host)) = (Vectors::default(), event());
        vectors.arm(0, vec![one]).unwrap();
        assert_eq!(vectors.read_table(0, CONTROL), MASKED);
        vectors.write_table(0, 2, 77);
        vectors.raise(0);
        assert_eq!((times(&host), vectors.read_table(0, 2)), (1, 77));
    }

    #[test]
    fn a_reset_forgets_what_is_pending_and_keeps_the_descriptor() {
        let (vectors, (one, host)) = (Vectors::default(), event());
        vectors.mask(1, true);
        vectors.arm(1, vec![one]).unwrap();
        vectors.raise(1);
        vectors.reset();
        assert_eq!((times(&host), vectors.pending(0)), (0, 0));
        vectors.raise(1);
        assert_eq!(times(&host), 1);
        vectors.forget();
        vectors.raise(1);
        assert_eq!(times(&host), 0);
    }

    #[test]
    fn a_vector_that_is_not_there_is_ignored() {
        let vectors = Vectors::default();
        vectors.raise(VECTORS);
        vectors.write_table(u16::MAX, 0, 1);
        vectors.write_table(0, 9, 1);
        assert_eq!((vectors.pending(u16::MAX), vectors.read_table(VECTORS, 0)), (0, 0));
    }

    #[test]
    fn nothing_but_an_eventfd_is_taken() {
        let (_reader, writer) = std::io::pipe().unwrap();
        assert_eq!(Vectors::default().arm(0, vec![writer.into()]), Err(NoEventFd));
    }

    #[test]
    fn raise_with_a_full_counter_does_not_block() {
        let fd = eventfd(0, EventfdFlags::empty()).unwrap();
        rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        let vectors = Vectors::default();
        vectors.arm(0, vec![fd.try_clone().unwrap()]).unwrap();
        vectors.raise(0);
        assert!(times(&fd) >= u64::MAX - 1);
    }

    #[test]
    fn raise_with_a_full_blocking_counter_does_not_block() {
        let fd = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let vectors = Vectors::default();
        vectors.arm(0, vec![fd.try_clone().unwrap()]).unwrap();
        rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        rustix::fs::fcntl_setfl(&fd, rustix::fs::OFlags::empty()).unwrap();
        // Each would wait for ever.
        (0..1000).for_each(|_| vectors.raise(0));
    }
}
