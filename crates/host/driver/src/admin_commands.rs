//! Admin commands of a program's that go on by themselves, several at once on the device's admin ring.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use byway_core::{
    AdminCommand, AdminQueue, Error, ErrorKind, Finished, RefusedAdmin, Result, check_admin, check_owner,
};
use byway_sys::{ProcessLocal, Spin};

use crate::admin::{Ticket, abort_of, is_over_abort_limit};
use crate::bus::{Bus, Event, POLLS_BEFORE_SLEEP};
use crate::mapped::from_bus;
use crate::shared::Shared;

/// Admin commands of a program's on their way. The ring is the device's: what others have on it counts as well.
pub struct AdminCommands<B: Bus> {
    device: ProcessLocal<Arc<Shared<B>>>,
    sent: Vec<Sent>,
    ready: VecDeque<Finished>,
    event: Option<Arc<dyn Event>>,
}

/// A command on its way.
struct Sent {
    tag: u64,
    ticket: Ticket,
    abort: Abort,
}

/// Whether the command is to be aborted.
enum Abort {
    No,
    /// Its Abort waits for its turn: the controller takes a few at once (ACL).
    Waits,
    /// Until this is answered, the command's identifier must name no other.
    Sent(Ticket),
}

impl<B: Bus> AdminCommands<B> {
    pub(crate) fn new(device: Arc<Shared<B>>) -> Self {
        Self { device: device.into(), sent: Vec::new(), ready: VecDeque::new(), event: None }
    }

    /// Refuses a call in a forked child.
    fn check_owner(&self) -> Result<()> {
        check_owner(self.device.owner())
    }

    /// Lets the device run and takes what has finished.
    fn look(&mut self) -> Result<()> {
        self.check_owner()?;
        self.device.bus().poll();
        let mut admin = self.device.lock_admin();
        admin.look()?;
        let ready = &mut self.ready;
        self.sent.retain_mut(|sent| {
            if let Abort::Sent(abort) = &sent.abort {
                let Some(answer) = admin.take(abort) else { return true };
                sent.abort = if is_over_abort_limit(&answer) { Abort::Waits } else { Abort::No };
            }
            let Some(result) = admin.take(&sent.ticket) else { return true };
            ready.push_back(Finished { tag: sent.tag, result });
            false
        });
        drop(admin);
        self.send_aborts()
    }

    /// Sends the Aborts that wait, as many as the controller takes.
    fn send_aborts(&mut self) -> Result<()> {
        for sent in self.sent.iter_mut().filter(|sent| matches!(sent.abort, Abort::Waits)) {
            sent.abort = match self.device.begin_admin(abort_of(0, sent.ticket.cid())) {
                Ok(ticket) => Abort::Sent(ticket),
                Err(refused) if refused.error.kind() == ErrorKind::QueueFull => return Ok(()),
                Err(refused) => {
                    sent.abort = Abort::No;
                    return Err(refused.error);
                }
            };
        }
        Ok(())
    }

    /// The program is going to sleep on the descriptor, which is that of all who wait for admin commands.
    fn prepare_to_sleep(&mut self) -> Result<()> {
        self.device.bus().clear(0);
        self.device.bus().idle(0);
        self.look()?;
        let others = self.device.lock_admin().has_answers();
        let waits_for_host = !self.sent.is_empty() && self.device.bus().waits_for_host();
        if !self.ready.is_empty() || others || waits_for_host {
            self.device.bus().call(0);
        }
        Ok(())
    }
}

impl<B: Bus> AdminQueue for AdminCommands<B> {
    fn submit(&mut self, command: AdminCommand, tag: u64) -> Result<(), RefusedAdmin> {
        let admitted = self.check_owner().and_then(|()| check_admin(&command));
        let admitted = admitted.and_then(|()| self.device.announced().admin.require(&command));
        if let Err(error) = admitted {
            return Err(RefusedAdmin { command, error });
        }
        // Refused, it comes back as it is.
        let ticket = self.device.begin_admin(command)?;
        self.sent.push(Sent { tag, ticket, abort: Abort::No });
        Ok(())
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        self.check_owner()?;
        if self.ready.is_empty() {
            self.look()?;
            if self.event.is_some() && self.ready.is_empty() {
                self.prepare_to_sleep()?;
            }
        }
        Ok(self.ready.pop_front())
    }

    fn sleep(&mut self, timeout: Duration) -> Result<bool> {
        self.check_owner()?;
        let mut spin = Spin::polls(POLLS_BEFORE_SLEEP);
        while self.ready.is_empty() && !self.sent.is_empty() && spin.again() {
            self.look()?;
            self.device.bus().idle(0);
        }
        if self.ready.is_empty() && !self.sent.is_empty() {
            self.device.bus().wait(0, timeout).map_err(from_bus)?;
            self.look()?;
        }
        Ok(!self.ready.is_empty())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_owner()?;
        let event = match self.event.take() {
            Some(event) => event,
            None => self.device.bus().listen(0).map_err(from_bus)?,
        };
        if !self.ready.is_empty() {
            self.device.bus().call(0);
        }
        Ok(self.event.insert(event).as_fd())
    }

    /// Asks the controller to abort it: a request for asynchronous events ends so, most others finish as they are.
    fn cancel(&mut self, tag: u64) -> Result<()> {
        self.check_owner()?;
        let Some(sent) = self.sent.iter_mut().find(|sent| sent.tag == tag) else {
            let said = format!("no admin command with tag {tag} is under way");
            return Err(Error::host(ErrorKind::NotFound, said));
        };
        if matches!(sent.abort, Abort::No) {
            sent.abort = Abort::Waits;
        }
        self.send_aborts().map_err(|error| error.doing("cancel"))
    }

    fn outstanding(&self) -> u32 {
        (self.sent.len() + self.ready.len()) as u32
    }
}

impl<B: Bus> Drop for AdminCommands<B> {
    /// The memory of what is on its way stays with the device's admin queue until it is answered.
    fn drop(&mut self) {
        if self.check_owner().is_err() {
            return;
        }
        let mut admin = self.device.lock_admin();
        for Sent { ticket, abort, .. } in self.sent.drain(..) {
            admin.leave(&ticket);
            if let Abort::Sent(abort) = abort {
                admin.leave(&abort);
            }
        }
    }
}
