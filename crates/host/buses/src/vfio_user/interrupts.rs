//! Interrupts: eventfds that the server signals, armed one by one when a thread first waits on one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use byway_driver::BusError;
use byway_vfio_user_wire::{IrqAction, IrqData, IrqIndex, Reply, Request, SetIrqs};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::Fault;
use super::memory::Link;
use crate::interrupts::{Listener, Signals, Vectors};

impl Signals for Arc<Link> {
    fn signal(&self, vector: u16, fd: Option<BorrowedFd<'_>>) -> Result<(), BusError> {
        let set = SetIrqs {
            index: IrqIndex::MSIX,
            start: u32::from(vector),
            count: 1,
            action: IrqAction::Trigger,
            data: IrqData::EventFds,
        };
        let reply =
            self.connection.ask(&Request::SetIrqs(set), fd.as_slice(), &self.host, |reply, _| match reply {
                Reply::Done => Ok(()),
                other => Err(format!("{other:?} to an interrupt's descriptor")),
            });
        reply.map_err(|fault| match fault {
            Fault::Refused(errno) => {
                let why = format!("the server does not take its descriptor: {errno}");
                BusError::NoEvent { vector, why }
            }
            other => other.into(),
        })
    }
}

/// What an event loop waits on: the interrupt, or the end of the server.
#[derive(Debug)]
struct Listened {
    both: OwnedFd,
    _interrupt: Listener<Arc<Link>>,
}

impl AsFd for Listened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }
}

impl Vectors<Arc<Link>> {
    /// Sleeps until the interrupt comes; says whether it did. One that was not armed before may have come already: it
    /// returns at once, so that the caller looks.
    pub(crate) fn wait(&self, vector: u16, timeout: Duration) -> Result<bool, BusError> {
        let link = self.device();
        link.connection.serve(&link.host)?;
        let Some(wakeup) = self.sleep_on(vector)? else { return Ok(false) };
        let socket = link.connection.socket();
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
            // A request of the server, or the answer to another thread, which reads it.
            link.connection.serve(&link.host)?;
            return Ok(false);
        }
        Err(link.connection.lose("the server has closed the connection").into())
    }

    /// A descriptor that can be read once the interrupt has come or the server is gone. It can be read at first.
    pub(crate) fn listen(
        self: &Arc<Self>,
        vector: u16,
    ) -> Result<Arc<impl AsFd + Send + Sync + use<>>, BusError> {
        let none = |cause: rustix::io::Errno| BusError::NoEvent { vector, why: cause.to_string() };
        let both = epoll::create(CreateFlags::CLOEXEC).map_err(none)?;
        let interrupt = self.listen_to(vector)?;
        epoll::add(&both, &interrupt, EventData::new_u64(0), EventFlags::IN).map_err(none)?;
        let socket = self.device().connection.socket();
        epoll::add(&both, socket, EventData::new_u64(1), EventFlags::RDHUP | EventFlags::IN).map_err(none)?;
        Ok(Arc::new(Listened { both, _interrupt: interrupt }))
    }

    /// Makes the descriptor unreadable: what the server has asked at the one socket that it has is answered.
    pub(crate) fn clear(&self, vector: u16) {
        // The next call reports a server that is gone.
        let link = self.device();
        let _ = link.connection.serve(&link.host);
        self.lower(vector);
    }
}
