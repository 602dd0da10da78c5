//! Interrupts: eventfds that the server signals, armed one by one when somebody first sleeps on one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use byway_driver::BusError;
use byway_sys::Wakeup;
use byway_vfio_user_wire::{IrqAction, IrqData, IrqIndex, Reply, Request, SetIrqs};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::Fault;
use super::memory::Link;

/// The message-signalled interrupts of a device.
#[derive(Debug)]
pub(crate) struct Vectors {
    link: Arc<Link>,
    armed: Box<[Mutex<Option<Armed>>]>,
}

/// An interrupt that the server signals.
#[derive(Debug)]
struct Armed {
    wakeup: Arc<Wakeup>,
    /// Event loops that wait on it.
    listeners: u32,
    /// Whether threads sleep on it now and then; then it stays armed.
    is_slept_on: bool,
}

/// What an event loop waits on: the interrupt, or the end of the server. The interrupt is disarmed with the last of them.
#[derive(Debug)]
struct Listened {
    both: OwnedFd,
    vectors: Arc<Vectors>,
    vector: u16,
}

impl Drop for Listened {
    fn drop(&mut self) {
        self.vectors.leave(self.vector);
    }
}

impl AsFd for Listened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }
}

impl Vectors {
    /// None armed of so many.
    pub(crate) fn new(link: Arc<Link>, count: u16) -> Self {
        Self { link, armed: (0..count).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn count(&self) -> u16 {
        self.armed.len() as u16
    }

    /// Sleeps until the interrupt comes; says whether it did. One that was not armed before may have come already: it
    /// returns at once, so that the caller looks.
    pub(crate) fn wait(&self, vector: u16, timeout: Duration) -> Result<bool, BusError> {
        self.link.connection.serve(&self.link.host)?;
        let (wakeup, is_new) = self.arm(vector, |armed| armed.is_slept_on = true)?;
        if is_new {
            return Ok(false);
        }
        let socket = self.link.connection.socket();
        let mut both = [PollFd::new(&wakeup, PollFlags::IN), PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        match poll(&mut both, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => {
                return Err(BusError::NoEvent { vector, why: format!("it cannot be waited for: {cause}") });
            }
        }
        let [event, end] = &both;
        if event.revents().contains(PollFlags::IN) {
            wakeup.lower();
            return Ok(true);
        }
        if end.revents().is_empty() {
            return Ok(false);
        }
        if !end.revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            // The server asks, or answers somebody else, who reads it.
            self.link.connection.serve(&self.link.host)?;
            return Ok(false);
        }
        Err(self.link.connection.lose("the server has closed the connection").into())
    }

    /// A descriptor that can be read once the interrupt has come or the server is gone. It can be read at first.
    pub(crate) fn listen(
        self: &Arc<Self>,
        vector: u16,
    ) -> Result<Arc<impl AsFd + Send + Sync + use<>>, BusError> {
        let none = |cause: rustix::io::Errno| BusError::NoEvent { vector, why: cause.to_string() };
        let both = epoll::create(CreateFlags::CLOEXEC).map_err(none)?;
        let (wakeup, _) = self.arm(vector, |armed| armed.listeners += 1)?;
        wakeup.raise();
        let listened = Listened { both, vectors: Arc::clone(self), vector };
        let both = &listened.both;
        epoll::add(both, &wakeup, EventData::new_u64(0), EventFlags::IN).map_err(none)?;
        let socket = self.link.connection.socket();
        epoll::add(both, socket, EventData::new_u64(1), EventFlags::RDHUP | EventFlags::IN).map_err(none)?;
        Ok(Arc::new(listened))
    }

    /// An event loop waits on it no more.
    fn leave(&self, vector: u16) {
        self.release(vector, |armed| armed.listeners = armed.listeners.saturating_sub(1));
    }

    /// No thread sleeps on it any more.
    pub(crate) fn disarm(&self, vector: u16) {
        self.release(vector, |armed| armed.is_slept_on = false);
    }

    /// Disarms it if nobody is left.
    fn release(&self, vector: u16, note: impl FnOnce(&mut Armed)) {
        let Some(place) = self.armed.get(usize::from(vector)) else { return };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(armed) = &mut *place else { return };
        note(armed);
        if armed.listeners == 0 && !armed.is_slept_on {
            *place = None;
            // A server that is gone signals nothing.
            let _ = self.tell(vector, &[]);
        }
    }

    /// Makes the descriptor unreadable: what the server has asked at the one socket that it has is answered.
    pub(crate) fn hush(&self, vector: u16) {
        // One that is gone is told of by the next call.
        let _ = self.link.connection.serve(&self.link.host);
        self.with(vector, Wakeup::lower);
    }

    /// Makes it readable.
    pub(crate) fn call(&self, vector: u16) {
        self.with(vector, Wakeup::raise);
    }

    fn with(&self, vector: u16, act: impl FnOnce(&Wakeup)) {
        let Some(place) = self.armed.get(usize::from(vector)) else { return };
        if let Some(armed) = &*place.lock().unwrap_or_else(PoisonError::into_inner) {
            act(&armed.wakeup);
        }
    }

    /// The eventfd of an interrupt, and whether the server learned of it only now; `note` says for whom it is.
    fn arm(&self, vector: u16, note: impl FnOnce(&mut Armed)) -> Result<(Arc<Wakeup>, bool), BusError> {
        let no = |why: String| BusError::NoEvent { vector, why };
        let place = self.armed.get(usize::from(vector));
        let place = place.ok_or_else(|| no(format!("the device has {} interrupts", self.armed.len())))?;
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(armed) = &mut *place {
            note(armed);
            return Ok((Arc::clone(&armed.wakeup), false));
        }
        let wakeup = Arc::new(Wakeup::new().map_err(|cause| no(cause.to_string()))?);
        self.tell(vector, &[wakeup.as_fd()]).map_err(|fault| match fault {
            Fault::Refused(errno) => no(format!("the server does not take its descriptor: {errno}")),
            other => other.into(),
        })?;
        let armed = Armed { wakeup: Arc::clone(&wakeup), listeners: 0, is_slept_on: false };
        note(place.insert(armed));
        Ok((wakeup, true))
    }

    /// Has the server signal a descriptor, or none any more.
    fn tell(&self, vector: u16, fds: &[BorrowedFd<'_>]) -> Result<(), Fault> {
        let set = SetIrqs {
            index: IrqIndex::MSIX,
            start: u32::from(vector),
            count: 1,
            action: IrqAction::Trigger,
            data: IrqData::EventFds,
        };
        let request = Request::SetIrqs(set);
        self.link.connection.ask(&request, fds, &self.link.host, |reply, _| match reply {
            Reply::Done => Ok(()),
            other => Err(format!("{other:?} to an interrupt's descriptor")),
        })
    }
}
