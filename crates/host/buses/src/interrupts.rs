//! The interrupts of a device, whichever bus it is on: each has a descriptor while a thread sleeps on it or an event loop listens to it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use byway_driver::BusError;
use byway_sys::{OwnerProcess, Wakeup};
use parking_lot::{Mutex, MutexGuard};

/// Source of interrupt signals: the kernel, or the process that serves the device.
pub(crate) trait Signals {
    /// Has it signal this descriptor for an interrupt, or none any more.
    ///
    /// # Errors
    /// [`BusError::NoEvent`]; or that the device is gone.
    fn signal(&self, vector: u16, fd: Option<BorrowedFd<'_>>) -> Result<(), BusError>;
}

/// The message-signalled interrupts of a device.
#[derive(Debug)]
pub(crate) struct Vectors<S: Signals> {
    device: S,
    armed: Box<[Mutex<Option<Armed>>]>,
}

/// An interrupt with a descriptor.
#[derive(Debug)]
struct Armed {
    wakeup: Arc<Wakeup>,
    /// Event loops that wait on it.
    listeners: u32,
    /// Whether threads sleep on it now and then; then it stays armed until they say that they do not any more.
    is_slept_on: bool,
}

/// An event loop's share in an interrupt, which is disarmed with the last of them unless threads sleep on it.
#[derive(Debug)]
pub(crate) struct Listener<S: Signals> {
    owner: OwnerProcess,
    wakeup: Arc<Wakeup>,
    vectors: Arc<Vectors<S>>,
    vector: u16,
}

impl<S: Signals> AsFd for Listener<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

impl<S: Signals> Drop for Listener<S> {
    /// A forked child leaves the interrupt to its parent, which still waits for it.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return;
        }
        self.vectors.release(self.vector, |armed| armed.listeners = armed.listeners.saturating_sub(1));
    }
}

impl<S: Signals> Vectors<S> {
    /// A set of `count` vectors, none armed.
    pub(crate) fn new(device: S, count: u16) -> Self {
        Self { device, armed: (0..count).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn count(&self) -> u16 {
        self.armed.len() as u16
    }

    pub(crate) fn device(&self) -> &S {
        &self.device
    }

    /// What a thread sleeps on, until [`Vectors::disarm`]; none where it was not armed before: then the interrupt may have
    /// come already, and the caller looks instead.
    pub(crate) fn sleep_on(&self, vector: u16) -> Result<Option<Arc<Wakeup>>, BusError> {
        let (wakeup, is_new) = self.arm(vector, |armed| armed.is_slept_on = true)?;
        Ok((!is_new).then_some(wakeup))
    }

    /// What an event loop waits on. It can be read at first.
    pub(crate) fn listen_to(self: &Arc<Self>, vector: u16) -> Result<Listener<S>, BusError> {
        let (wakeup, _) = self.arm(vector, |armed| armed.listeners += 1)?;
        wakeup.raise();
        Ok(Listener { owner: OwnerProcess::current(), wakeup, vectors: Arc::clone(self), vector })
    }

    /// No thread sleeps on it any more.
    pub(crate) fn disarm(&self, vector: u16) {
        self.release(vector, |armed| armed.is_slept_on = false);
    }

    /// Makes its descriptor unreadable.
    pub(crate) fn lower(&self, vector: u16) {
        self.with(vector, Wakeup::lower);
    }

    /// Makes its descriptor readable.
    pub(crate) fn raise(&self, vector: u16) {
        self.with(vector, Wakeup::raise);
    }

    fn with(&self, vector: u16, act: impl FnOnce(&Wakeup)) {
        if let Some(armed) = self.place(vector).as_deref().and_then(Option::as_ref) {
            act(&armed.wakeup);
        }
    }

    fn place(&self, vector: u16) -> Option<MutexGuard<'_, Option<Armed>>> {
        Some(self.armed.get(usize::from(vector))?.lock())
    }

    /// Disarms it if no sleeper or listener is left.
    fn release(&self, vector: u16, note: impl FnOnce(&mut Armed)) {
        let Some(mut place) = self.place(vector) else { return };
        let Some(armed) = &mut *place else { return };
        note(armed);
        if armed.listeners == 0 && !armed.is_slept_on {
            *place = None;
            // A device that is gone signals nothing.
            let _ = self.device.signal(vector, None);
        }
    }

    /// The descriptor of an interrupt, and whether it is signalled only from now on; `note` says for whom it is.
    fn arm(&self, vector: u16, note: impl FnOnce(&mut Armed)) -> Result<(Arc<Wakeup>, bool), BusError> {
        let no = |why: String| BusError::NoEvent { vector, why };
        let place = self.place(vector);
        let mut place = place.ok_or_else(|| no(format!("the device has {} interrupts", self.armed.len())))?;
        if let Some(armed) = &mut *place {
            note(armed);
            return Ok((Arc::clone(&armed.wakeup), false));
        }
        let wakeup = Arc::new(Wakeup::new().map_err(|cause| no(cause.to_string()))?);
        self.device.signal(vector, Some(wakeup.as_fd()))?;
        let armed = Armed { wakeup: Arc::clone(&wakeup), listeners: 0, is_slept_on: false };
        note(place.insert(armed));
        Ok((wakeup, true))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    /// Notes whether each interrupt has a descriptor.
    #[derive(Debug, Default)]
    struct Noted(Mutex<Vec<(u16, bool)>>);

    impl Signals for Noted {
        fn signal(&self, vector: u16, fd: Option<BorrowedFd<'_>>) -> Result<(), BusError> {
            self.0.lock().push((vector, fd.is_some()));
            Ok(())
        }
    }

    fn vectors(count: u16) -> Arc<Vectors<Noted>> {
        Arc::new(Vectors::new(Noted::default(), count))
    }

    fn armed(vectors: &Vectors<Noted>) -> Vec<(u16, bool)> {
        std::mem::take(&mut *vectors.device().0.lock())
    }

    #[test]
    fn an_interrupt_without_sleepers_has_no_descriptor() {
        let vectors = vectors(4);
        assert!(vectors.sleep_on(3).unwrap().is_none(), "it may have come before");
        assert!(vectors.sleep_on(3).unwrap().is_some());
        let descriptor = Arc::downgrade(&vectors.sleep_on(3).unwrap().unwrap());
        assert_eq!(armed(&vectors), [(3, true)]);
        vectors.disarm(3);
        assert_eq!(armed(&vectors), [(3, false)]);
        assert!(descriptor.upgrade().is_none(), "it is kept");
        assert!(vectors.sleep_on(3).unwrap().is_none(), "it is another");
        assert_eq!(armed(&vectors), [(3, true)]);
    }

    #[test]
    fn interrupt_is_disarmed_with_its_last_listener() {
        let vectors = vectors(2);
        let first = vectors.listen_to(1).unwrap();
        let second = vectors.listen_to(1).unwrap();
        assert!(vectors.sleep_on(1).unwrap().is_some());
        drop(first);
        vectors.disarm(1);
        assert_eq!(armed(&vectors), [(1, true)], "one listens still");
        drop(second);
        assert_eq!(armed(&vectors), [(1, false)]);
    }

    #[test]
    fn listener_is_readable_at_first_and_follows_raise_and_lower() {
        let vectors = vectors(2);
        let listener = vectors.listen_to(1).unwrap();
        let readable = || byway_sys::wait_readable(listener.as_fd(), Duration::ZERO).unwrap();
        assert!(readable());
        vectors.lower(1);
        assert!(!readable());
        vectors.raise(1);
        assert!(readable());
    }

    #[test]
    fn an_interrupt_that_the_device_has_not_cannot_be_waited_for() {
        let vectors = vectors(2);
        let refused = vectors.sleep_on(2).unwrap_err().to_string();
        assert!(refused.contains("the device has 2 interrupts"), "{refused}");
        assert!(vectors.listen_to(2).is_err());
        vectors.disarm(2);
        vectors.raise(2);
        assert_eq!(armed(&vectors), []);
    }
}
